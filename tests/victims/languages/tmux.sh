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
tm capture-pane -p | sed '/^Pane is dead/d; /^$/d'
cksum <counted
tm kill-server
