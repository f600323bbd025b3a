/* Each thread keeps its scheduling policy, its nice value, its processors, its priority for disks and its timer slack.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { BY_PROCESS = 1, IDLE_CLASS = 3 << 13, BEST_EFFORT_6 = 2 << 13 | 6 };

struct wishes {
    int policy, nice, priority_for_disks, cpu;
    unsigned long slack;
};

static const struct wishes of_main = {SCHED_BATCH, 3, BEST_EFFORT_6, 0, 70000};
static const struct wishes of_other = {SCHED_IDLE, 7, IDLE_CLASS, -1, 123456};
static volatile int wished, look, looked;

static void wish(const struct wishes *it)
{
    struct sched_param none = {0};
    cpu_set_t set;
    CHECK(sched_setscheduler(0, it->policy, &none) == 0);
    CHECK(setpriority(PRIO_PROCESS, (id_t)gettid(), it->nice) == 0);
    CHECK(syscall(SYS_ioprio_set, BY_PROCESS, 0, it->priority_for_disks) == 0);
    CHECK(prctl(PR_SET_TIMERSLACK, it->slack, 0, 0, 0) == 0);
    if (it->cpu >= 0) {
        CPU_ZERO(&set);
        CPU_SET(it->cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            LACKS("processor 0");
    }
}

static void must_be(const struct wishes *it)
{
    cpu_set_t set;
    CHECK(sched_getscheduler(0) == it->policy);
    errno = 0;
    CHECK(getpriority(PRIO_PROCESS, (id_t)gettid()) == it->nice && errno == 0);
    CHECK(syscall(SYS_ioprio_get, BY_PROCESS, 0) == it->priority_for_disks);
    CHECK(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == (int)it->slack);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    if (it->cpu >= 0)
        CHECK(CPU_COUNT(&set) == 1 && CPU_ISSET(it->cpu, &set));
}

static void *other(void *nothing)
{
    (void)nothing;
    wish(&of_other);
    wished = 1;
    for (int life = 1; life <= 2; life++) {
        while (look < life)
            usleep(200);
        must_be(&of_other);
        looked = life;
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    await(&wished);
    wish(&of_main);
    for (int life = 1; life <= 2; life++) {
        moment("scheduled");
        must_be(&of_main);
        look = life;
        while (looked < life)
            usleep(200);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    puts("scheduled");
    return 0;
}
