/* A memfd whose permissions forbid its owner to read it is refused by name.
 *
 * expect: refuse "memfd" "read"
 * needs: user
 */
#include "check.h"
#include <sys/mman.h>

int main(void)
{
    int file = memfd_create("hidden", 0);
    CHECK(file >= 0 && write(file, "hidden", 6) == 6 && fchmod(file, 0111) == 0);
    moment("hidden");
    CHECK(fchmod(file, 0711) == 0);
    puts("shown");
    return 0;
}
