/* Where the executable has been replaced and the copy of it is lost, the restart is refused, and says which version is which.
 *
 * expect: refuse-restart "executable" "self" "build-id" "now"
 * meanwhile: cp /bin/true new && mv new self && rm ../images/keepsake-*-self
 */
#include "check.h"
#include <fcntl.h>

/* Goes on as a copy of itself in the working folder, which may be replaced. */
static void become_a_copy(char **arguments)
{
    static char piece[65536];
    ssize_t got;
    int from = open("/proc/self/exe", O_RDONLY), to = open("self", O_WRONLY | O_CREAT | O_EXCL, 0755);
    CHECK(from >= 0 && to >= 0);
    while ((got = read(from, piece, sizeof piece)) > 0)
        CHECK(write(to, piece, (size_t)got) == got);
    CHECK(got == 0 && close(from) == 0 && close(to) == 0);
    setenv("VICTIM_COPY", "1", 1);
    execv("./self", arguments);
    CHECK(0);
}

int main(int argc, char **argv)
{
    (void)argc;
    if (getenv("VICTIM_COPY") == NULL)
        become_a_copy(argv);
    moment("as a copy");
    CHECK(unlink("self") == 0);
    puts("the copy");
    return 0;
}
