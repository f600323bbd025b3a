/* A server and its clients, each a process, go on: connections made and such as are made later; a named pipe as well.
 *
 * expect: survive
 * needs: namespaces
 * no-rollback: the program removes pipe and socket at its end
 */
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { CLIENTS = 4, ROUNDS = 50 };
static int turns[2];
static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "server"};

/* Asks the server to add, in a new connection each time; the sum goes into the named pipe at the end. */
static void be_client(int number)
{
    long sum = 0;
    int results = open("results", O_WRONLY);
    CHECK(results >= 0);
    for (int round = 0; round < ROUNDS; round++) {
        long word = number * 1000 + round, answer;
        char turn;
        /* The server gives turns, so that whoever is left behind without it ends as well. */
        if (read(turns[0], &turn, 1) != 1)
            _exit(1);
        int made = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(made >= 0 && connect(made, (struct sockaddr *)&address, sizeof address) == 0);
        CHECK(send(made, &word, sizeof word, 0) == sizeof word);
        CHECK(recv(made, &answer, sizeof answer, MSG_WAITALL) == sizeof answer && answer == word + 1);
        CHECK(recv(made, &turn, 1, 0) == 0 && close(made) == 0);
        sum += answer;
    }
    CHECK(write(results, &sum, sizeof sum) == sizeof sum);
    _exit(0);
}

int main(void)
{
    long total = 0, sum;
    int status, server = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(mkfifo("results", 0600) == 0 && pipe(turns) == 0 && write(turns[1], "x", 1) == 1);
    int results = open("results", O_RDWR);
    CHECK(server >= 0 && bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 64) == 0);
    for (int number = 0; number < CLIENTS; number++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(close(turns[1]) == 0 && close(results) == 0);
            be_client(number);
        }
    }
    for (int served = 0; served < CLIENTS * ROUNDS; served++) {
        long word;
        int made = accept(server, NULL, NULL);
        CHECK(made >= 0 && recv(made, &word, sizeof word, MSG_WAITALL) == sizeof word);
        word++;
        if (served == 20 || served == CLIENTS * ROUNDS - 1)
            moment("a client waits for its answer");
        CHECK(send(made, &word, sizeof word, 0) == sizeof word && close(made) == 0 && write(turns[1], "x", 1) == 1);
    }
    for (int number = 0; number < CLIENTS; number++) {
        CHECK(read(results, &sum, sizeof sum) == sizeof sum && waitpid(-1, &status, 0) > 0 && status == 0);
        total += sum;
    }
    CHECK(unlink("results") == 0 && unlink("server") == 0);
    printf("server: %ld\n", total);
    return 0;
}
