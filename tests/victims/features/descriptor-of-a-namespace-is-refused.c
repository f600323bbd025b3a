/* A descriptor of a namespace is refused by name.
 *
 * expect: refuse "net:[" "not supported"
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int namespace = open("/proc/self/ns/net", O_RDONLY);
    CHECK(namespace >= 0);
    moment("open");
    CHECK(fcntl(namespace, F_GETFD) >= 0 && close(namespace) == 0);
    puts("closed");
    return 0;
}
