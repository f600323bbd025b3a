# A conversation through a pseudo-terminal with a shell that calculates, a line at a time, echo and all; then a program
# that pty.spawn runs, whose output is summed up on the way.
import hashlib
import os
import pty
import sys

SHELL = 'while read n; do echo "$n times $n is $((n * n))"; sleep 0.003; done'
COUNT = 'n=0; while [ $n -lt 200 ]; do n=$((n + 1)); echo $n; sleep 0.002; done; exit 5'


def read_line(terminal, rest):
    while b"\n" not in rest:
        rest += os.read(terminal, 1024)
    line, _, rest = rest.partition(b"\n")
    return line, rest


def converse():
    child, terminal = pty.fork()
    if child == 0:
        os.execlp("sh", "sh", "-c", SHELL)
    rest = b""
    for n in range(1, 251):
        os.write(terminal, b"%d\n" % n)
        echo, rest = read_line(terminal, rest)
        answer, rest = read_line(terminal, rest)
        assert echo == b"%d\r" % n, (n, echo)
        assert answer == b"%d times %d is %d\r" % (n, n, n * n), (n, answer)
    os.write(terminal, b"\x04")
    assert os.waitpid(child, 0) == (child, 0)
    os.close(terminal)


def spawn():
    digest = hashlib.sha256()

    def read(terminal):
        data = os.read(terminal, 1024)
        digest.update(data)
        return data

    status = pty.spawn(["sh", "-c", COUNT], read)
    return os.waitstatus_to_exitcode(status), digest.hexdigest()


converse()
print(*spawn())
sys.stdout.flush()
