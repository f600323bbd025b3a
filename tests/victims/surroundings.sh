# Runs a job in namespaces of its own, and takes away what its restart needs of the system. A rehearsal must report each
# loss with the expected words, and pass again when the loss is made good. Arguments: the standfast command, Python.
set -eu
standfast=$1 python=$2

# As an ordinary user: without the capabilities that this script has in its namespaces.
plain() { setpriv --ambient-caps=-all --inh-caps=-all "$@"; }

passes() { plain "$standfast" rehearse images >said 2>&1 || fail "$1: $(cat said)"; }

reported() {
    local loss=$1 words=$2
    if plain "${@:3}" "$standfast" rehearse images >said 2>&1; then fail "$loss is not reported: $(cat said)"; fi
    grep -q "$words" said || fail "$loss: it says $(cat said)"
}

fail() {
    echo "$1" >&2
    exit 1
}

ip link set lo up
ip address add 10.9.9.9/32 dev lo
plain "$standfast" run -d images -i off -- "$python" -c '
import ctypes, os, socket, time
queue = ctypes.CDLL(None).msgget(0, 0o1600)
assert queue >= 0
server = socket.create_server(("10.9.9.9", 4321))
os.rename(open("made", "w").name, "waiting")
while not os.path.exists("gate"): time.sleep(0.01)
' &
job=$!
for _ in $(seq 3000); do
    [ ! -e waiting ] || break
    sleep 0.01
done
plain "$standfast" checkpoint images
passes 'without a loss'

ip address del 10.9.9.9/32 dev lo
reported 'an address that is gone' '10\.9\.9\.9'
ip address add 10.9.9.9/32 dev lo

namespaces=$(cat /proc/sys/user/max_user_namespaces)
echo 0 >/proc/sys/user/max_user_namespaces
reported 'namespaces that are switched off' 'namespace'
echo "$namespaces" >/proc/sys/user/max_user_namespaces

# A limit on process ids is none here: since Linux 6.14 the namespace of a restart has a limit of its own.
reported 'a lower limit of descriptors' 'descriptors' prlimit --nofile=8:8

passes 'when all is back'
touch gate
wait "$job"
echo reported
