/* /dev/null, /dev/zero, /dev/full and /dev/urandom stay open and do what they do.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char bytes[64];
    int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDONLY), full = open("/dev/full", O_WRONLY);
    int random = open("/dev/urandom", O_RDONLY);
    CHECK(null >= 0 && zero >= 0 && full >= 0 && random >= 0);
    moment("open");
    CHECK(read(null, bytes, 64) == 0 && write(null, bytes, 64) == 64);
    memset(bytes, 1, sizeof bytes);
    CHECK(read(zero, bytes, 64) == 64);
    for (int i = 0; i < 64; i++)
        CHECK(bytes[i] == 0);
    CHECK(write(full, "x", 1) == -1 && errno == ENOSPC);
    CHECK(read(random, bytes, 64) == 64);
    int zeros = 0;
    for (int i = 0; i < 64; i++)
        zeros += bytes[i] == 0;
    CHECK(zeros < 30);
    puts("still there");
    return 0;
}
