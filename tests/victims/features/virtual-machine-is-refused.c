/* The device by which virtual machines are made (KVM), and such a machine, are refused by name.
 *
 * expect: refuse "kvm" "inside the virtual machine"
 * needs: root
 */
#include "check.h"
#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>

int main(void)
{
    int device = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (device < 0)
        LACKS("/dev/kvm");
    moment("device");
    int machine = ioctl(device, KVM_CREATE_VM, 0);
    CHECK(close(device) == 0);
    if (machine >= 0) {
        moment("machine");
        CHECK(close(machine) == 0);
    }
    puts("closed");
    return 0;
}
