/* Buffers of sockets that privileges have made larger than the system's limit stay that large.
 *
 * expect: survive
 * needs: root
 */
#include "check.h"
#include <sys/socket.h>

static int size_of(int socket, int which)
{
    int bytes;
    socklen_t length = sizeof bytes;
    CHECK(getsockopt(socket, SOL_SOCKET, which, &bytes, &length) == 0);
    return bytes;
}

int main(void)
{
    static const int families[] = {AF_INET, AF_UNIX};
    int sockets[2], bytes = 48 << 20;
    for (int i = 0; i < 2; i++) {
        CHECK((sockets[i] = socket(families[i], SOCK_DGRAM, 0)) >= 0);
        if (setsockopt(sockets[i], SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
            LACKS("the right to exceed net.core.rmem_max");
        CHECK(setsockopt(sockets[i], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == 0);
    }
    for (int life = 0; life < 2; life++) {
        moment("set");
        for (int i = 0; i < 2; i++)
            CHECK(size_of(sockets[i], SO_RCVBUF) == 2 * bytes && size_of(sockets[i], SO_SNDBUF) == 2 * bytes);
    }
    puts("large");
    return 0;
}
