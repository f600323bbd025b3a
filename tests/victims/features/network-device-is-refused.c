/* A network device of the program's own (/dev/net/tun), which like a GPU or an RDMA device is a node that nobody knows to be
 * without state, is refused by name.
 *
 * expect: refuse "/dev/net/tun" "state of its own"
 * needs: root
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int device = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (device < 0)
        LACKS("/dev/net/tun");
    moment("held");
    CHECK(close(device) == 0);
    puts("closed");
    return 0;
}
