/* A socket that was made in another network namespace, which the program has left since, is refused by name.
 *
 * expect: refuse "UDP socket" "network namespace"
 * needs: root
 */
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

int main(void)
{
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CHECK(home >= 0);
    if (unshare(CLONE_NEWNET) != 0)
        LACKS("network namespaces");
    int made = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(made >= 0 && setns(home, CLONE_NEWNET) == 0 && close(home) == 0);
    moment("back home");
    CHECK(close(made) == 0);
    puts("home");
    return 0;
}
