/* An input file that is read to the middle is read on from there, with what the C library had buffered.
 *
 * expect: survive
 */
#include "check.h"

int main(void)
{
    char line[64];
    int number = 0, read_back;
    FILE *made = fopen("input", "w");
    CHECK(made != NULL);
    for (int i = 0; i < 5000; i++)
        fprintf(made, "line %d\n", i);
    CHECK(fclose(made) == 0);
    FILE *input = fopen("input", "r");
    CHECK(input != NULL);
    for (; fgets(line, sizeof line, input); number++) {
        CHECK(sscanf(line, "line %d", &read_back) == 1 && read_back == number);
        if (number == 10 || number == 2500)
            moment("in the middle");
    }
    CHECK(number == 5000 && feof(input) && fclose(input) == 0);
    puts("read to the end");
    return 0;
}
