# A shell in a tmux that nobody is attached to counts aloud and into a file; what it has counted, and what its window
# shows of that in the end, is the result.
set -u
export SHELL=/bin/sh LC_ALL=C.UTF-8
tm() { tmux -S "$PWD/socket" -f /dev/null "$@"; }

tm new-session -d -x 60 -y 12 'read word; exec 3>>counted
    n=0
    while [ $n -lt 200 ]; do
        n=$((n + 1))
        echo "$word $n"
        echo "$n" >&3
        sleep 0.005
    done' \; set -g remain-on-exit on
tm send-keys -l counting
tm send-keys Enter
while [ "$(tm display-message -p '#{pane_dead}')" != 1 ]; do
    sleep 0.05
done
# How many lines it shows depends on when tmux writes its own last one.
tm capture-pane -p | sed '/^Pane is dead/d; /^$/d' | tail -n 8
cksum <counted
tm kill-server
