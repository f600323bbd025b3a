/* A server at a path keeps its file and the connections that it has accepted, over several restarts; new clients find it.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "served"};

static int client(void)
{
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(made >= 0 && connect(made, (struct sockaddr *)&address, sizeof address) == 0);
    return made;
}

static void talk(int from, int to)
{
    char word[8] = "";
    CHECK(send(from, "a word", 7, 0) == 7 && recv(to, word, 7, MSG_WAITALL) == 7 && strcmp(word, "a word") == 0);
}

int main(void)
{
    struct stat file;
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(server >= 0 && bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 5) == 0);
    int clients[3], accepted[3];
    for (int life = 0; life < 3; life++) {
        clients[life] = client();
        CHECK((accepted[life] = accept(server, NULL, NULL)) >= 0);
        moment("served");
        for (int one = 0; one <= life; one++) {
            talk(clients[one], accepted[one]);
            talk(accepted[one], clients[one]);
        }
        CHECK(stat(address.sun_path, &file) == 0 && S_ISSOCK(file.st_mode));
    }
    CHECK(unlink(address.sun_path) == 0);
    puts("served");
    return 0;
}
