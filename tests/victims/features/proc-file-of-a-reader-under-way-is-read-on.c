/* Who is in the middle of reading the list of its mappings reads on where it was, to the end. Mappings that adjoin may have
 * become one in a restart, so that the list is another one and a line of it may be met in its middle.
 *
 * expect: survive
 */
#include "proc_files.h"

int main(void)
{
    char piece[100], line[4400];
    size_t filled = 0, lines = 0, stacks = 0, torn = 0, lives = 1;
    int file = opened("/proc/self/maps", O_RDONLY);
    for (int turn = 0;; turn++) {
        ssize_t length = read(file, piece, sizeof piece);
        CHECK(length >= 0);
        if (length == 0)
            break;
        for (ssize_t i = 0; i < length; i++) {
            CHECK(filled < sizeof line - 1);
            line[filled++] = piece[i];
            if (piece[i] != '\n')
                continue;
            unsigned long start, end, offset, inode;
            unsigned major, minor;
            char protection[5];
            line[filled] = 0;
            filled = 0;
            lines++;
            int words = sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &start, &end, protection, &offset, &major, &minor, &inode);
            if (words != 7 || start >= end || (protection[3] != 'p' && protection[3] != 's')) {
                torn++;
                continue;
            }
            stacks += start <= (unsigned long)piece && (unsigned long)piece < end;
        }
        if (turn == 3 || turn == 7) {
            moment("reading");
            lives++;
        }
    }
    CHECK(filled == 0 && lines > 5 && stacks == 1 && torn < lives);
    puts("read to the end");
    return 0;
}
