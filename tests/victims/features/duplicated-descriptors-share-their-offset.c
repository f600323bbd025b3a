/* Duplicated descriptors share offset and status flags; two that were opened apart have their own.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char byte;
    int first = open("letters", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(first >= 0 && write(first, "abcdefghij", 10) == 10 && lseek(first, 0, SEEK_SET) == 0);
    int twin = dup(first), apart = open("letters", O_RDWR), far = fcntl(first, F_DUPFD_CLOEXEC, 200);
    CHECK(twin >= 0 && apart >= 0 && far == 200);
    CHECK(read(first, &byte, 1) == 1 && byte == 'a' && read(apart, &byte, 1) == 1 && byte == 'a');
    moment("opened");
    CHECK(read(twin, &byte, 1) == 1 && byte == 'b' && read(far, &byte, 1) == 1 && byte == 'c');
    CHECK(read(apart, &byte, 1) == 1 && byte == 'b' && read(first, &byte, 1) == 1 && byte == 'd');
    CHECK(fcntl(first, F_SETFL, O_APPEND | O_NONBLOCK) == 0);
    moment("flags set");
    CHECK((fcntl(far, F_GETFL) & (O_APPEND | O_NONBLOCK)) == (O_APPEND | O_NONBLOCK));
    CHECK((fcntl(apart, F_GETFL) & (O_APPEND | O_NONBLOCK)) == 0);
    CHECK(fcntl(far, F_GETFD) == FD_CLOEXEC && fcntl(first, F_GETFD) == 0 && fcntl(twin, F_GETFD) == 0);
    CHECK(lseek(twin, 5, SEEK_SET) == 5 && lseek(first, 0, SEEK_CUR) == 5 && lseek(apart, 0, SEEK_CUR) == 2);
    puts("shared and not shared");
    return 0;
}
