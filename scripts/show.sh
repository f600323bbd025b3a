# How the demos show programs at work: their output indented, their ends waited for. To be sourced, after terminal.sh; what is
# shown is kept in display.log, where one stands.

supervisor='' display='' display_pid='' status=0

# The program's output goes through a pipe, indented: first because it reads well, and then because a log file that the
# program shared with this script would be cut back with it.
# open_display [SED COMMANDS FOR WHAT IS SHOWN]
open_display() {
    exec {display}> >(exec sed -u -e 'w display.log' -e "${1:-}" -e 's/^/  | /')
    display_pid=$!
}

close_display() {
    exec {display}>&-
    wait "$display_pid" 2>/dev/null || true
}

# begin COMMAND...: shows the command and starts it in the background, with its output on the display.
begin() {
    printf '  $ %s\n' "$*"
    begin_quietly '' "$@"
}

# begin_quietly SED COMMAND...: the same, without showing the command.
begin_quietly() {
    open_display "$1"
    shift
    "$@" </dev/null >&"$display" 2>&1 {display}>&- &
    supervisor=$!
}

# Waits for what begin started; its exit status becomes $status.
finish() {
    status=0
    # Without bash's own word on a killed child: the demo has one.
    { wait "$supervisor"; } 2>/dev/null || status=$?
    supervisor=''
    close_display
}

now_ms() { printf '%s' $((${EPOCHREALTIME/[.,]/} / 1000)); }

seconds() { printf '%d.%d' $(($1 / 1000)) $(($1 % 1000 / 100)); }

give_up() {
    failure "FAIL: $*"
    exit 1
}
