/* A socket of a family that cannot be brought back is refused by name.
 *
 * expect: refuse "sockets of this kind"
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

int main(void)
{
    const int kinds[][3] = {{AF_INET, SOCK_STREAM, 262}, {AF_ALG, SOCK_SEQPACKET, 0}, {AF_VSOCK, SOCK_STREAM, 0}};
    int made = -1;
    for (int i = 0; i < 3 && made < 0; i++)
        made = socket(kinds[i][0], kinds[i][1], kinds[i][2]);
    if (made < 0)
        LACKS("multipath TCP, sockets of the kernel's cryptography and of virtual machines");
    moment("open");
    CHECK(close(made) == 0);
    puts("closed");
    return 0;
}
