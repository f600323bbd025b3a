/* Directories that the job has made, with a server's socket, a named pipe and a mapped file in them, are made again where
 * they are gone by the restart: with their permissions, and what they held of the job's.
 *
 * expect: survive
 * meanwhile: rm -rf made
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX};

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

static void has_mode(const char *path, mode_t mode)
{
    struct stat now;
    CHECK(lstat(path, &now) == 0 && now.st_mode == mode && now.st_uid == geteuid());
}

int main(void)
{
    strcpy(address.sun_path, "made/below/server");
    CHECK(mkdir("made", 0755) == 0 && mkdir("made/below", 0700) == 0 && chmod("made", 01711) == 0);
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(server >= 0 && bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 5) == 0);
    CHECK(chmod("made/below/server", 0600) == 0);
    int calling = client(), called = accept(server, NULL, NULL);
    CHECK(called >= 0);
    CHECK(mkfifo("made/below/pipe", 0640) == 0 && chmod("made/below/pipe", 0640) == 0);
    int pipe = open("made/below/pipe", O_RDWR);
    int file = open("made/mapped", O_RDWR | O_CREAT, 0600);
    CHECK(pipe >= 0 && file >= 0 && ftruncate(file, 4096) == 0);
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int reader = open("made/mapped", O_RDONLY);
    const char *seen = mmap(NULL, 4096, PROT_READ, MAP_SHARED, reader, 0);
    CHECK(seen != MAP_FAILED && close(reader) == 0);
    CHECK(mapped != MAP_FAILED && close(file) == 0 && write(pipe, "in the pipe", 12) == 12);
    strcpy(mapped, "in the file");
    for (int life = 0; life < 2; life++) {
        moment("all there");
        char word[16] = "";
        has_mode("made", S_IFDIR | 01711);
        has_mode("made/below", S_IFDIR | 0700);
        has_mode("made/below/server", S_IFSOCK | 0600);
        has_mode("made/below/pipe", S_IFIFO | 0640);
        talk(calling, called);
        talk(called, calling);
        int another = client(), accepted = accept(server, NULL, NULL);
        CHECK(accepted >= 0);
        talk(another, accepted);
        CHECK(close(another) == 0 && close(accepted) == 0);
        CHECK(read(pipe, word, sizeof word) == 12 && strcmp(word, "in the pipe") == 0);
        CHECK(write(pipe, word, 12) == 12);
        file = open("made/mapped", O_RDONLY);
        CHECK(file >= 0 && read(file, word, sizeof word) == sizeof word && strcmp(word, "in the file") == 0);
        CHECK(close(file) == 0 && strcmp(mapped, "in the file") == 0 && strcmp(seen, mapped) == 0);
    }
    CHECK(unlink("made/mapped") == 0 && unlink("made/below/pipe") == 0 && unlink("made/below/server") == 0);
    CHECK(rmdir("made/below") == 0 && rmdir("made") == 0);
    puts("all there");
    return 0;
}
