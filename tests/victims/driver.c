/* The driver of the libckpt paper, section 3.3: it repeats a calculation over a data set whose contents do not outlive an
 * iteration. Written as C was in 1995, and compiled as that. Behind the fifth iteration it waits at a gate. */
#include <ckpt.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct data {
    unsigned long numbers[1 << 18];
};

static unsigned long sum;

static int read_data(round, D)
int round;
struct data *D;
{
    int i;
    for (i = 0; i < 1 << 18; i++)
        D->numbers[i] = ((unsigned long)round << 32 | (unsigned long)i) * 0x9e3779b97f4a7c15ul;
    return round < 8 ? 0 : -1;
}

static void perform_calculation(D)
struct data *D;
{
    int i;
    for (i = 0; i < 1 << 18; i++)
        sum = sum * 31 + D->numbers[i];
}

ckpt_target()
{
    struct data *D;
    int round = 0;
    D = malloc(sizeof(struct data));
    while (read_data(round, D) != -1) {
        perform_calculation(D);
        printf("%d %016lx\n", round++, sum);
        fflush(stdout);
        exclude_bytes(D, sizeof(struct data), CKPT_DEAD);
        checkpoint_here();
        include_bytes(D, sizeof(struct data));
        if (round == 5) {
            close(open("waiting", O_WRONLY | O_CREAT, 0644));
            while (access("gate", F_OK) != 0)
                usleep(500);
        }
    }
    return 0;
}
