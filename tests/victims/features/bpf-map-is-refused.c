/* A BPF map is refused by name.
 *
 * expect: refuse "bpf"
 */
#include "check.h"
#include <linux/bpf.h>
#include <sys/syscall.h>

int main(void)
{
    union bpf_attr what = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
    int map = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &what, sizeof what);
    if (map < 0)
        LACKS("BPF takes privileges");
    moment("held");
    CHECK(close(map) == 0);
    puts("closed");
    return 0;
}
