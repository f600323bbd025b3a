// Uses four megabytes of stack, returns from them, and then waits for ever.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int descend(int depth) {
    volatile char frame[65536];
    memset((void *)frame, depth + 1, sizeof frame);
    return depth ? descend(depth - 1) + frame[depth] : frame[0];
}

int main(int count_of_arguments, char **arguments) {
    int sum = descend(64);
    FILE *ready = count_of_arguments > 1 ? fopen(arguments[1], "w") : NULL;
    if (!ready || fprintf(ready, "%d\n", sum) < 0 || fclose(ready)) return 1;
    for (;;) pause();
}
