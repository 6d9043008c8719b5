# Shared by the scripts that start servers for tests (POSIX sh): what is needed must be installed, but for ZooKeeper's jars.
# WORK is the folder that has everything of theirs; each server's own variables are named where it is started.
set -eu
WORK=${WORK:-${TMPDIR:-/tmp}/conductorlite-servers}
[ ! -x .venv-test/bin/python ] || PYTHON=${PYTHON:-.venv-test/bin/python}  # of tests/run
PYTHON=${PYTHON:-python3}
mkdir -p "$WORK"
say() { printf '%s\n' "$*" >&2; }
alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }   # alive PIDFILE
missing() { say "skipped: $1"; exit 3; }                        # missing REASON: the script's status says that it is not here

# wait_for SECONDS PIDFILE LOG CMD…: until CMD succeeds; fails when the process has ended or the time is over.
wait_for() {
    left=$(($1 * 5)); pidfile=$2; log=$3; shift 3
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        if [ "$left" -le 0 ] || ! alive "$pidfile"; then
            say "not ready: $pidfile; the end of $log:"; tail -n 20 "$log" >&2 || true; return 1
        fi
        sleep 0.2
    done
}

# background LOG PIDFILE CMD…: start CMD in a session of its own, so that a Ctrl-C in the caller does not end it.
background() {
    bg_log=$1; bg_pid=$2; shift 2
    setsid sh -c 'echo $$ >"$0"; exec "$@"' "$bg_pid" "$@" >>"$bg_log" 2>&1 </dev/null 9>&- &
    bg_n=0; while [ ! -s "$bg_pid" ] && [ $bg_n -lt 50 ]; do bg_n=$((bg_n + 1)); sleep 0.1; done
}

# ended SIGNAL PIDFILE: send SIGNAL, after 20 s KILL, and wait.
ended() {
    [ -s "$2" ] || return 0
    ended_pid=$(cat "$2"); kill "-$1" "$ended_pid" 2>/dev/null || true
    ended_n=0   # names of its own: there is no other scope
    while kill -0 "$ended_pid" 2>/dev/null; do
        ended_n=$((ended_n + 1)); [ $ended_n -ne 100 ] || kill -KILL "$ended_pid" 2>/dev/null || true; [ $ended_n -le 150 ] || break
        sleep 0.2
    done
    rm -f "$2"
}
