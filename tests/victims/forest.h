/* A tree of PROCESSES processes below the main one, every tenth of which is a child of the main process, the others of
 * that: all of them count in step, each in memory of its own. A program of which two victims are made. */
#include "family.h"

enum { BRANCH = 10, PAGES = MEGABYTES * 256 + 4 };

struct step {
    volatile int wanted, done;
};

static struct step *step;

static void count(int number)
{
    volatile uint64_t *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    for (int turn = 1;; turn++) {
        while (step->wanted < turn)
            usleep(1000);
        for (int page = 0; page < PAGES; page++) {
            CHECK(pages[page * 512] == (uint64_t)(turn - 1) * number);
            pages[page * 512] += number;
        }
        __atomic_fetch_add(&step->done, 1, __ATOMIC_SEQ_CST);
        if (turn == 4)
            return;
    }
}

int main(void)
{
    pid_t branches[PROCESSES / BRANCH + 1];
    int grown = 0;
    step = share(4096);
    for (int number = 1; number <= PROCESSES; number += BRANCH, grown++) {
        CHECK((branches[grown] = fork()) >= 0);
        if (branches[grown] == 0) {
            pid_t twigs[BRANCH];
            int last = number + BRANCH - 1 < PROCESSES ? number + BRANCH - 1 : PROCESSES;
            for (int twig = number + 1; twig <= last; twig++) {
                CHECK((twigs[twig - number] = fork()) >= 0);
                if (twigs[twig - number] == 0) {
                    count(twig);
                    _exit(twig % 100);
                }
            }
            count(number);
            for (int twig = number + 1; twig <= last; twig++)
                reap(twigs[twig - number], twig % 100);
            _exit(0);
        }
    }
    for (int turn = 1; turn <= 4; turn++) {
        step->wanted = turn;
        while (step->done != turn * PROCESSES)
            usleep(500);
        if (turn < 4)
            moment("in step");
    }
    for (int i = 0; i < grown; i++)
        reap(branches[i], 0);
    printf("%d processes\n", PROCESSES);
    return 0;
}
