"""Children of all sorts, one after the other, with pipes in and out."""
import os
import subprocess
import sys

total = 0
for turn in range(240):
    done = subprocess.run(["sed", "s/a/b/g"], input="banana " * turn, capture_output=True, text=True, check=True)
    assert done.stdout == "bbnbnb " * turn, done.stdout
    child = subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.exit(int(sys.argv[1]) % 50)", str(turn)])
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.write(writer, b"%d" % (turn * turn))
        os._exit(turn % 40)
    os.close(writer)
    with open(reader) as text:
        squared = int(text.read())
    _, status = os.waitpid(pid, 0)
    assert os.WEXITSTATUS(status) == turn % 40
    assert child.wait() == turn % 50
    total += len(done.stdout) + squared
    print(turn, total, flush=True)
