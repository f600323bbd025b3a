/* System V shared memory that others can find keeps its id, key, permissions and contents, whether or not somebody has it
 * attached; one that is removed while it is attached goes with the last of them; a large one stays a hole where nobody has been.
 * A mapping may reach beyond its segment.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/mman.h>
#include <sys/shm.h>

enum { BYTES = 6 * 4096 + 100, ATTACHED = 7 * 4096, BEYOND = 2 * 4096 };
static const size_t VAST = 1ul << 30;

static struct shmid_ds status_of(int id)
{
    struct shmid_ds status;
    CHECK(shmctl(id, IPC_STAT, &status) == 0);
    return status;
}

int main(void)
{
    key_t key = 0x5d000000 + getpid();
    int found = shmget(key, BYTES, IPC_CREAT | IPC_EXCL | 0640), alone = shmget(IPC_PRIVATE, BYTES, 0600);
    int leaving = shmget(IPC_PRIVATE, 4096, 0600), vast = shmget(key + 1, VAST, IPC_CREAT | IPC_EXCL | 0600);
    if (found < 0 && errno == ENOSYS)
        LACKS("System V shared memory");
    CHECK(found >= 0 && alone >= 0 && leaving >= 0 && vast >= 0);
    char *shared = shmat(found, NULL, 0), *ours = shmat(alone, NULL, 0), *last = shmat(leaving, NULL, 0);
    char *wide = shmat(vast, NULL, 0);
    CHECK(shared != (char *)-1 && ours != (char *)-1 && last != (char *)-1 && wide != (char *)-1);
    strcpy(shared + 4096, "of two");
    strcpy(ours + 2 * 4096, "of nobody");
    ours[BYTES - 1] = 9;
    wide[0] = 1;
    wide[VAST / 2] = 2;
    wide[VAST - 1] = 3;
    CHECK(shmdt(ours) == 0 && shmdt(wide) == 0 && shmctl(leaving, IPC_RMID, NULL) == 0);
    struct line line;
    open_line(&line);
    pid_t child = fork();
    if (child == 0) {
        be_child(&line);
        char *mine = shmat(found, NULL, SHM_RDONLY);
        CHECK(mine != (char *)-1);
        mine = mremap(mine, ATTACHED, ATTACHED + BEYOND, MREMAP_MAYMOVE);
        CHECK(mine != MAP_FAILED);
        for (int word; (word = get(line.down[0])) != 0;) {
            CHECK(mine[0] == word && last[0] == word);
            // It fails unless all of it is mapped.
            CHECK(mremap(mine, ATTACHED + BEYOND, ATTACHED + BEYOND, 0) == mine);
            put(line.up[1], word);
        }
        CHECK(shmdt(mine) == 0 && shmdt(shared) == 0 && shmdt(last) == 0);
        _exit(6);
    }
    be_parent(&line);
    for (int life = 1; life < 4; life++) {
        moment("attached");
        CHECK(shmget(key, BYTES, 0) == found && shmget(key + 1, VAST, 0) == vast);
        struct shmid_ds of_found = status_of(found);
        CHECK((of_found.shm_perm.mode & 0777) == 0640 && of_found.shm_segsz == BYTES);
        // The child has one as well, which it has from us.
        shared[0] = last[0] = (char)life;
        put(line.down[1], life);
        CHECK(get(line.up[0]) == life && status_of(found).shm_nattch == 3 && status_of(alone).shm_nattch == 0);
        CHECK(status_of(leaving).shm_nattch == 2 && status_of(leaving).shm_perm.mode & SHM_DEST);
        CHECK(strcmp(shared + 4096, "of two") == 0);
        ours = shmat(alone, NULL, SHM_RDONLY);
        CHECK(ours != (char *)-1 && strcmp(ours + 2 * 4096, "of nobody") == 0 && ours[BYTES - 1] == 9 && shmdt(ours) == 0);
        wide = shmat(vast, NULL, 0);
        CHECK(wide != (char *)-1 && wide[0] == 1 && wide[VAST / 2] == 2 && wide[VAST - 1] == 3 && shmdt(wide) == 0);
        if (life == 2)
            CHECK(shmctl(alone, SHM_LOCK, NULL) == 0 || errno == EPERM || errno == ENOMEM);
    }
    put(line.down[1], 0);
    reap(child, 6);
    CHECK(status_of(found).shm_nattch == 1 && shmdt(last) == 0 && shmctl(leaving, IPC_STAT, &(struct shmid_ds){0}) == -1);
    CHECK(shmdt(shared) == 0 && shmctl(found, IPC_RMID, NULL) == 0 && shmctl(alone, IPC_RMID, NULL) == 0);
    CHECK(shmctl(vast, IPC_RMID, NULL) == 0);
    puts("removed");
    return 0;
}
