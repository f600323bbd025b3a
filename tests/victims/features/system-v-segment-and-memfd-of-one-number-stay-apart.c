/* A System V segment whose id is the inode of a memfd, on the device that the kernel shows for both, stays another memory
 * than that: each comes back with what it held, and neither shows what is written to the other.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>
#include <sys/shm.h>

enum { PAGE = 4096, SLOTS = 64, MEMFDS_MAX = 1000000, SEGMENTS_MAX = 2000000, SLOT_BITS = 15 };

/* A memfd whose inode a segment can have as its id soon: ids are given in turns of 64 while there are few, of which the number
 * stands above the slot. */
static int low_memfd(ino_t *inode)
{
    int now = shmget(IPC_PRIVATE, PAGE, 0600);
    if (now < 0 && errno == ENOSYS)
        LACKS("System V shared memory");
    CHECK(now >= 0 && shmctl(now, IPC_RMID, NULL) == 0);
    for (int made = 0; made < MEMFDS_MAX; made++) {
        struct stat status;
        int file = memfd_create("twin", 0);
        CHECK(file >= 0 && fstat(file, &status) == 0);
        *inode = status.st_ino;
        if (*inode % (1u << SLOT_BITS) < SLOTS / 2 && *inode < INT32_MAX && *inode >> SLOT_BITS > (ino_t)now >> SLOT_BITS)
            return file;
        CHECK(close(file) == 0);
    }
    LACKS("inodes of memfds that ids of segments reach");
}

/* A segment with this id: as the kernel is told where that is allowed, else by making one after the other. */
static int segment_with_id(int id)
{
    FILE *next = fopen("/proc/sys/kernel/shm_next_id", "w");
    if (next != NULL) {
        int told = fprintf(next, "%d", id) > 0;
        told &= fclose(next) == 0;
        int made = told ? shmget(IPC_PRIVATE, PAGE, 0600) : -1;
        if (made == id)
            return made;
        if (made >= 0)
            CHECK(shmctl(made, IPC_RMID, NULL) == 0);
    }
    for (int tries = 0; tries < SEGMENTS_MAX; tries++) {
        int made = shmget(IPC_PRIVATE, PAGE, 0600);
        if (made == id)
            return made;
        CHECK(made >= 0 && shmctl(made, IPC_RMID, NULL) == 0);
        if (made >> SLOT_BITS > id >> SLOT_BITS)
            break;
    }
    return -1;
}

int main(void)
{
    ino_t inode;
    int segment = -1, file = -1;
    for (int tries = 0; segment < 0 && tries < 8; tries++) {
        if (file >= 0)
            CHECK(close(file) == 0);
        file = low_memfd(&inode);
        segment = segment_with_id((int)inode);
    }
    if (segment < 0)
        LACKS("a segment with the number of a memfd");
    CHECK(ftruncate(file, PAGE) == 0);
    volatile char *ours = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    volatile char *theirs = shmat(segment, NULL, 0);
    CHECK(ours != MAP_FAILED && theirs != (char *)-1);
    for (char life = 1; life < 4; life++) {
        ours[7] = life;
        theirs[7] = (char)(10 * life);
        moment("of one number");
        CHECK(ours[7] == life && theirs[7] == 10 * life);
        ours[8] = 1;
        theirs[8] = 2;
        CHECK(ours[8] == 1 && theirs[8] == 2);
    }
    CHECK(shmctl(segment, IPC_RMID, NULL) == 0);
    puts("apart");
    return 0;
}
