/* A program whose library was replaced before there could be a copy of it is refused by name.
 *
 * expect: refuse "own.so" "deleted or replaced"
 * flags: -ldl
 */
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

int main(void)
{
    static char piece[65536];
    ssize_t got;
    char path[4096];
    Dl_info information;
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library == NULL || !dladdr(dlsym(library, "cos"), &information))
        LACKS("a library of mathematical functions");
    snprintf(path, sizeof path, "%s", information.dli_fname);
    struct statfs here;
    CHECK(statfs(".", &here) == 0);
    if (here.f_type == TMPFS_MAGIC || here.f_type == RAMFS_MAGIC)
        LACKS("a file system on a disk, where nothing shows what a deleted library held");
    int from = open(path, O_RDONLY), to = open("own.so", O_WRONLY | O_CREAT | O_EXCL, 0755);
    CHECK(from >= 0 && to >= 0);
    while ((got = read(from, piece, sizeof piece)) > 0)
        CHECK(write(to, piece, (size_t)got) == got);
    CHECK(got == 0 && close(from) == 0 && close(to) == 0);
    CHECK((library = dlopen("./own.so", RTLD_NOW)) != NULL && unlink("own.so") == 0);
    moment("gone");
    double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
    CHECK(cosine != NULL && cosine(0.0) == 1.0);
    puts("the library goes on");
    return 0;
}
