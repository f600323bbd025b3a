/* /proc/self/exe names the program's file, and the auxiliary vector points to what it did: vdso, random bytes, name.
 *
 * expect: survive
 */
#include "check.h"
#include <elf.h>
#include <sys/auxv.h>

int main(void)
{
    char before[4096], after[4096];
    unsigned char random[16];
    ssize_t length = readlink("/proc/self/exe", before, sizeof before);
    unsigned char *vdso = (unsigned char *)getauxval(AT_SYSINFO_EHDR), *bytes = (unsigned char *)getauxval(AT_RANDOM);
    const char *name = (const char *)getauxval(AT_EXECFN);
    CHECK(length > 0 && bytes != NULL && name != NULL && getauxval(AT_PAGESZ) == 4096);
    memcpy(random, bytes, sizeof random);
    moment("looked up");
    CHECK(readlink("/proc/self/exe", after, sizeof after) == length && memcmp(before, after, (size_t)length) == 0);
    CHECK((unsigned char *)getauxval(AT_SYSINFO_EHDR) == vdso && (vdso == NULL || memcmp(vdso, ELFMAG, SELFMAG) == 0));
    CHECK(memcmp(bytes, random, sizeof random) == 0 && access(name, X_OK) == 0);
    CHECK(getauxval(AT_UID) == getuid() && getauxval(AT_EUID) == geteuid());
    puts("the same program");
    return 0;
}
