/* A program that has given up capabilities has not got them back after a restart: neither those that it had, nor those
 * that an exec would give. The same holds for one of its threads that has given up more.
 *
 * expect: survive
 * flags: -pthread
 * needs: root
 */
#include "check.h"
#include <linux/capability.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static volatile int ready, look, looked;

struct sets {
    struct __user_cap_data_struct own[2];
    uint64_t bounding, ambient;
};

static struct sets sets_of_thread(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct sets sets;
    memset(&sets, 0, sizeof sets);
    CHECK(syscall(SYS_capget, &header, sets.own) == 0);
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
        sets.bounding |= (uint64_t)prctl(PR_CAPBSET_READ, capability, 0, 0, 0) << capability;
        sets.ambient |= (uint64_t)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability, 0, 0) << capability;
    }
    return sets;
}

static void set(const struct __user_cap_data_struct own[2])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    CHECK(syscall(SYS_capset, &header, own) == 0);
}

static void same(const struct sets *before)
{
    struct sets now = sets_of_thread();
    CHECK(memcmp(now.own, before->own, sizeof now.own) == 0);
    CHECK(now.bounding == before->bounding && now.ambient == before->ambient);
}

static void *has_less(void *nothing)
{
    struct sets sets = sets_of_thread();
    CHECK(prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0) == 0);
    sets.own[0].effective = sets.own[0].permitted = 1u << CAP_FOWNER;
    sets.own[1].effective = sets.own[1].permitted = 0;
    set(sets.own);
    sets = sets_of_thread();
    CHECK(sets.ambient == 0);
    ready = 1;
    for (int life = 1; life <= 2; life++) {
        while (look < life)
            usleep(200);
        same(&sets);
        looked = life;
    }
    return nothing;
}

int main(void)
{
    struct sets sets = sets_of_thread();
    pthread_t thread;
    CHECK(sets.own[0].permitted & 1u << CAP_SETPCAP && sets.own[0].permitted & 1u << CAP_CHOWN);
    sets.own[0].inheritable = 1u << CAP_CHOWN | 1u << CAP_FOWNER;
    set(sets.own);
    CHECK(prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0) == 0 && prctl(PR_CAPBSET_DROP, CAP_FOWNER, 0, 0, 0) == 0);
    CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0) == 0);
    sets.own[0].permitted &= ~(1u << CAP_SYS_TIME | 1u << CAP_NET_ADMIN);
    sets.own[0].effective = sets.own[0].permitted & ~(1u << CAP_NET_RAW);
    set(sets.own);
    sets = sets_of_thread();
    CHECK(sets.ambient == 1u << CAP_CHOWN);
    CHECK(pthread_create(&thread, NULL, has_less, NULL) == 0);
    await(&ready);
    for (int life = 1; life <= 2; life++) {
        moment("given up");
        same(&sets);
        look = life;
        while (looked < life)
            usleep(200);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    puts("given up");
    return 0;
}
