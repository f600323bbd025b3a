/* A device that keeps state of its own (KVM, a GPU, a loop device, /dev/fuse) is refused by name.
 *
 * expect: refuse "/dev/"
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    const char *nodes[] = {"/dev/kvm", "/dev/fuse", "/dev/nvidiactl", "/dev/dri/renderD128", "/dev/rtc0"};
    int device = -1;
    for (size_t i = 0; i < 5 && device < 0; i++)
        device = open(nodes[i], O_RDWR);
    if (device < 0)
        LACKS("no such device may be opened");
    moment("held");
    CHECK(close(device) == 0);
    puts("closed");
    return 0;
}
