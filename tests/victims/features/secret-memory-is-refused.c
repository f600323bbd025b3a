/* Secret memory, which nobody but the program can read, is refused by name.
 *
 * expect: refuse "secret"
 */
#include "check.h"
#include <sys/mman.h>
#include <sys/syscall.h>

int main(void)
{
    int secret = (int)syscall(447 /* memfd_secret */, 0);
    if (secret < 0 || ftruncate(secret, 4096) != 0)
        LACKS("secret memory");
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, secret, 0);
    CHECK(page != MAP_FAILED);
    strcpy(page, "hidden");
    moment("written");
    CHECK(strcmp(page, "hidden") == 0);
    puts("still hidden");
    return 0;
}
