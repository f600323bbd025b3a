/* A page of a private file mapping for which the kernel's own page of zeros stands, as it does when KSM has merged a page of
 * zeros (use_zero_pages), still holds zeros after a restart, not what the file holds there. UFFDIO_ZEROPAGE brings it about
 * without KSM and without privileges.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, PAGES = 6, CLEARED = 2 };

static void put_page_of_zeros(char *map)
{
    int user = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (user < 0)
        LACKS("userfaultfd");
    struct uffdio_api api = { .api = UFFD_API };
    struct uffdio_register all = { .range = { (unsigned long)map, PAGES * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
    struct uffdio_zeropage zero = { .range = { (unsigned long)map + CLEARED * PAGE, PAGE } };
    CHECK(ioctl(user, UFFDIO_API, &api) == 0 && ioctl(user, UFFDIO_REGISTER, &all) == 0);
    CHECK(ioctl(user, UFFDIO_ZEROPAGE, &zero) == 0 && zero.zeropage == PAGE);
    CHECK(close(user) == 0);
}

int main(void)
{
    char page[PAGE];
    int file = memfd_create("beneath", MFD_CLOEXEC);
    CHECK(file >= 0);
    for (int i = 0; i < PAGES; i++) {
        memset(page, 'a' + i, PAGE);
        CHECK(write(file, page, PAGE) == PAGE);
    }
    char *map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(map != MAP_FAILED);
    put_page_of_zeros(map);
    for (int life = 0; life < 3; life++) {
        for (int i = 0; i < PAGES; i++)
            CHECK(map[i * PAGE + 17] == (i == CLEARED ? 0 : 'a' + i));
        moment("mapped");
        for (int i = 0; i < PAGES; i++)
            CHECK(map[i * PAGE + 17] == (i == CLEARED ? 0 : 'a' + i));
    }
    map[CLEARED * PAGE] = 'z';
    CHECK(pread(file, page, 1, CLEARED * PAGE) == 1 && page[0] == 'a' + CLEARED);
    puts("zeros where zeros were");
    return 0;
}
