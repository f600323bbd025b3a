# Functions with which the demos run programs, show their output indented, and wait for their end. Source this file after
# terminal.sh. The output is also kept in display.log in the current folder.

supervisor='' display='' display_pid='' status=0

# Sends the program's output through a pipe, which indents it. Without the pipe, the program could share a log file with
# this script, and a restart would cut that file back.
# open_display [SED COMMANDS FOR WHAT IS SHOWN]
open_display() {
    exec {display}> >(exec sed -u -e 'w display.log' -e "${1:-}" -e 's/^/  | /')
    display_pid=$!
}

# Does nothing if it is closed. `wait` without a job would wait for the display, which ends when it is closed.
close_display() {
    [[ -n $display ]] || return 0
    exec {display}>&-
    display=''
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
    # Hides bash's own message about a killed child, since the demo prints one.
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
