/* A program whose executable has been replaced by another one goes on with the copy that was kept of it.
 *
 * expect: survive
 * meanwhile: cp /bin/true new && mv new self
 */
#include "check.h"
#include <fcntl.h>

static const char text[] = "constant";

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
    for (int life = 0; life < 2; life++) {
        moment("as a copy");
        CHECK(strcmp(text, "constant") == 0 && main != NULL);
    }
    CHECK(unlink("self") == 0);
    puts("the copy's copy");
    return 0;
}
