/* A file of the kernel's in which a threshold of pressure can have been set is refused, since the kernel does not tell it.
 *
 * expect: refuse "/proc/pressure/" "threshold"
 */
#include "proc_files.h"

int main(void)
{
    static const char threshold[] = "some 500000 2000000";
    int file = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK);
    if (file < 0 || write(file, threshold, sizeof threshold) < 0)
        LACKS("thresholds of pressure for everybody (/proc/pressure)");
    moment("set");
    CHECK(strncmp(text_of(file), "some ", 5) == 0);
    puts("told");
    return 0;
}
