/* A program whose library is replaced while it runs can be checkpointed on, and goes on with the copy that was kept.
 *
 * expect: survive
 * flags: -ldl
 */
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>

static char original[4096];

/* Where the mathematical functions of the system are. */
static int find(struct dl_phdr_info *information, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (strstr(information->dlpi_name, "libm.so") != NULL || strstr(information->dlpi_name, "libm-") != NULL)
        snprintf(original, sizeof original, "%s", information->dlpi_name);
    return 0;
}

static void copy(const char *source, const char *target)
{
    static char piece[65536];
    ssize_t got;
    int from = open(source, O_RDONLY), to = open(target, O_WRONLY | O_CREAT | O_EXCL, 0755);
    CHECK(from >= 0 && to >= 0);
    while ((got = read(from, piece, sizeof piece)) > 0)
        CHECK(write(to, piece, (size_t)got) == got);
    CHECK(got == 0 && close(from) == 0 && close(to) == 0);
}

int main(void)
{
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library == NULL)
        LACKS("a library of mathematical functions");
    dl_iterate_phdr(find, NULL);
    copy(original, "./own.so");
    CHECK((library = dlopen("./own.so", RTLD_NOW)) != NULL);
    double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
    CHECK(cosine != NULL);
    moment("loaded");
    copy("/proc/self/exe", "./other");
    CHECK(rename("./other", "./own.so") == 0);
    moment("replaced");
    /* Pages that were never touched come from the copy. */
    double (*gamma)(double) = (double (*)(double))dlsym(library, "tgamma");
    CHECK(gamma != NULL && gamma(5.0) == 24.0 && cosine(0.0) == 1.0);
    /* From an image that has been left behind it is gone already. */
    CHECK(unlink("./own.so") == 0 || errno == ENOENT);
    moment("gone");
    CHECK(cosine(0.0) == 1.0);
    puts("the library goes on");
    return 0;
}
