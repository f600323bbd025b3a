# Notes a signal of the scheduler. @HOW@
noticed='' passed='' job=''
notice() {
    trap '' @SIGNALS@
    noticed=$1
    @PASS@
}
pass() {
    if [ -n "$job" ]; then
        passed=yes
        kill -s "$1" "$job"
    fi
}
for signal in @SIGNALS@; do
    trap "notice $signal" "$signal"
done

# Prints how the job stands, in one word. The exit status alone would not do: a program may itself end with the status
# that stands for a stop.
state() {
    "$standfast" status --state "$directory"
}

if [ "$(state)" = finished ]; then
    echo "nothing to do: the program has finished; to run it again, first remove its checkpoints in $directory"
    exit 0
fi

# Starts the program, or continues it. It runs in the background: a shell handles signals only while it waits.
"$standfast" run --resume --directory "$directory" "$@" &
job=$!
if [ -n "$noticed" ] && [ -z "$passed" ]; then
    @PASS_LATE@
fi
wait "$job"
status=$?
if [ -n "$noticed" ]; then
    # The signal may have ended the wait, and not the job.
    wait "$job"
    again=$?
    if [ "$again" -ne 127 ]; then
        status=$again
    fi
fi

# Only a job that the scheduler has interrupted is to run again. One that ended by itself is not, whatever its status.
is_interrupted=no
now=$(state)
case $now in
stopped | killed | crashed | none)
    if [ -n "$noticed" ]; then
        is_interrupted=yes
    fi
    ;;
esac
echo "the job is $now (status $status)${noticed:+, after SIG$noticed}"
