/* Preloaded into a program: at its end it says how many page faults it has had. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

__attribute__((destructor)) static void end(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    const char *path = getenv("STANDFAST_METER");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%ld\n", used.ru_minflt);
    fclose(file);
}
