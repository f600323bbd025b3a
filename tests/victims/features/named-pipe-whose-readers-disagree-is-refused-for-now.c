/* A named pipe without a writer is refused by name while some of its readers wait for the next writer and others are at
 * the end of the file: a restart opens all of them at one moment. So is one that waits without a name.
 *
 * expect: refuse "named-pipe" "waits for"
 * doctor-blind: while the program runs, a descriptor of doctor's would keep the pipe open
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char letter;
    CHECK(mkfifo("named-pipe", 0600) == 0);
    int early = open("named-pipe", O_RDONLY | O_NONBLOCK), writer = open("named-pipe", O_WRONLY);
    CHECK(early >= 0 && writer >= 0 && close(writer) == 0);
    int late = open("named-pipe", O_RDONLY | O_NONBLOCK);
    CHECK(late >= 0);
    moment("two opinions");
    CHECK(close(early) == 0 && unlink("named-pipe") == 0);
    moment("no name");
    CHECK(read(late, &letter, 1) == 0 && close(late) == 0);
    puts("refused for now");
    return 0;
}
