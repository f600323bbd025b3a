# script(1) runs a program on a terminal of its own and passes on what it shows.
exec script --quiet --return --command '
    [ -t 0 ] && [ -t 1 ] && tty=yes
    n=0
    while [ $n -lt 200 ]; do
        n=$((n + 1))
        echo "$tty $n $(stty size)"
        sleep 0.005
    done
    exit 0' /dev/null
