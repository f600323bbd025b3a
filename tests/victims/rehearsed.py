# Holds what a restart needs and others can take away: files, folders, pipes, sockets, ports and locks. When the file
# "release" appears, it lets go of its ports and locks, so that others can take them. Argument: a library to load.
import ctypes, fcntl, mmap, os, signal, socket, struct, sys, time

F_OFD_SETLK = 37


def made(name, text="what is there\n" * 100):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "w") as file:
        file.write(text)
    return name


def lock_bytes(file, command, kind):
    fcntl.fcntl(file, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, 10, 5, 0))


library = ctypes.CDLL(os.path.abspath(sys.argv[1]))
written = open(made("files/written"), "r+")
appended = open(made("files/appended"), "a")
source = open(made("input/source"))
private = mmap.mmap(os.open(made("mapped/private"), os.O_RDONLY), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
shared = mmap.mmap(os.open(made("mapped/shared"), os.O_RDWR), 0)
shared[0] = 65

os.makedirs("folders/opened")
os.makedirs("folders/place")
opened = os.open("folders/opened", os.O_RDONLY)

os.mkdir("pipes")
os.mkfifo("pipes/read")
pipe = os.open("pipes/read", os.O_RDONLY | os.O_NONBLOCK)

os.mkdir("sockets")
stream = socket.socket(socket.AF_UNIX)
stream.bind("sockets/stream")
stream.listen()
datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
datagram.bind("sockets/datagram")

ports = [
    socket.create_server(("127.0.0.1", 0)),
    socket.create_server(("::1", 0), family=socket.AF_INET6),
    socket.create_server(("0.0.0.0", 0)),
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    socket.socket(socket.AF_UNIX),
]
ports[3].bind(("127.0.0.1", 0))
door = "standfast-rehearsed-%d-%d" % (os.getpid(), time.time_ns())
ports[4].bind("\0" + door)
ports[4].listen()

whole, part, description = (open(made("locks/" + name), "r+") for name in ("whole", "part", "description"))
fcntl.flock(whole, fcntl.LOCK_EX)
lock_bytes(part, fcntl.F_SETLK, fcntl.F_WRLCK)
lock_bytes(description, F_OFD_SETLK, fcntl.F_WRLCK)

child = os.fork()
if child == 0:
    for port in ports:
        port.close()
    whole.close()
    description.close()
    os.chdir("folders/place")
    while True:
        time.sleep(3600)

with open("numbers", "w") as said:
    said.write("%d %d %d %d %s" % (*(port.getsockname()[1] for port in ports[:4]), door))
os.rename("numbers", "waiting")
while not os.path.exists("gate"):
    if os.path.exists("release"):
        for port in ports:
            port.close()
        fcntl.flock(whole, fcntl.LOCK_UN)
        lock_bytes(part, fcntl.F_SETLK, fcntl.F_UNLCK)
        lock_bytes(description, F_OFD_SETLK, fcntl.F_UNLCK)
        os.rename("release", "released")
    time.sleep(0.01)
os.kill(child, signal.SIGKILL)
os.wait()
assert library.zlibCompileFlags() != 0 and private[:4] == b"what" and shared[0] == 65
print("done", file=open("result", "w"))
