/* Several processes write into one pipe, also blocked while it is full: every record arrives once, in each writer's order.
 *
 * expect: survive
 */
#include "family.h"

enum { WRITERS = 4, RECORDS = 5000 };

int main(void)
{
    int ends[2], next[WRITERS] = {0};
    pid_t writers[WRITERS];
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < WRITERS; i++) {
        CHECK((writers[i] = fork()) >= 0);
        if (writers[i] == 0) {
            CHECK(close(ends[0]) == 0);
            for (int number = 0; number < RECORDS; number++) {
                int record[4] = {i, number, ~number, 0x5a5a5a5a};
                CHECK(write(ends[1], record, sizeof record) == sizeof record);
            }
            _exit(0);
        }
    }
    CHECK(close(ends[1]) == 0);
    for (int i = 0; i < WRITERS; i++)
        await_call_of(writers[i], SYS_write);
    moment("full");
    for (int i = 0; i < WRITERS * RECORDS; i++) {
        int record[4];
        CHECK(read(ends[0], record, sizeof record) == sizeof record);
        CHECK(record[0] >= 0 && record[0] < WRITERS && record[1] == next[record[0]]);
        CHECK(record[2] == ~record[1] && record[3] == 0x5a5a5a5a);
        next[record[0]]++;
        if (i == 1000 || i == 15000)
            moment("reading");
    }
    await_silence(ends[0]);
    for (int i = 0; i < WRITERS; i++)
        reap(writers[i], 0);
    puts("all arrived");
    return 0;
}
