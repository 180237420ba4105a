# shellcheck shell=bash
# What the scripts in scripts/services share: a folder of their own, Python environments, waiting, runs of the program and what
# their reports say. Needs common.sh.

SERVICES_DIR=$ROOT/.deps/services
SERVER_PID=

# service_environment NAME PACKAGE...: a virtual environment with these packages in .deps/services/NAME; prints its path.
service_environment() {
    local folder=$SERVICES_DIR/$1 wanted="${*:2}"
    if [[ "$(cat "$folder/complete" 2>/dev/null)" != "$wanted" ]]; then
        say "installing $wanted"
        rm -rf "$folder"
        mkdir -p "$SERVICES_DIR"
        python3 -m venv "$folder" >&2 || die "python3 has no venv; install python3-venv and run again"
        retry 3 "$folder/bin/pip" install -q --disable-pip-version-check "${@:2}" >&2 ||
            die "pip could not install $wanted; see its messages above"
        echo "$wanted" >"$folder/complete"
    fi
    echo "$folder"
}

# start_service LOG COMMAND...: starts a server in a process group of its own; stop_service ends all of it.
start_service() {
    setsid "${@:2}" >"$1" 2>&1 &
    SERVER_PID=$!
    SERVER_LOG=$1
}

stop_service() {
    [[ -n $SERVER_PID ]] || return 0
    kill -TERM -- "-$SERVER_PID" 2>/dev/null || true
    local attempt
    for ((attempt = 0; attempt < 50; attempt++)); do
        kill -0 -- "-$SERVER_PID" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL -- "-$SERVER_PID" 2>/dev/null || true
    wait "$SERVER_PID" 2>/dev/null || true
    SERVER_PID=
}

# await_service COMMAND...: waits until the command succeeds, for a minute.
await_service() {
    local attempt
    for ((attempt = 0; attempt < 300; attempt++)); do
        "$@" >/dev/null 2>&1 && return 0
        kill -0 "$SERVER_PID" 2>/dev/null || die "the server ended: $(tail -n 5 "$SERVER_LOG")"
        sleep 0.2
    done
    die "the server does not answer: $(tail -n 5 "$SERVER_LOG")"
}

# bench FLAG...: runs the program; its report is in REPORT, its exit code in CODE, what it complains of in COMPLAINT.
bench() {
    local complaints
    complaints=$(mktemp)
    CODE=0
    REPORT=$("$TRITON_BENCH" "$@" 2>"$complaints") || CODE=$?
    COMPLAINT=$(cat "$complaints")
    rm -f "$complaints"
    RUN="$*"
}

# said NAME: the first number behind `NAME: ` in the last report.
said() {
    sed -n "/^ *$1: [0-9]/{s/^ *$1: \([0-9.]*\).*/\1/p;q}" <<<"$REPORT"
}

# sum_said NAME: the sum of those of all levels.
sum_said() {
    sed -n "s/^ *$1: \([0-9.]*\).*/\1/p" <<<"$REPORT" | awk '{ sum += $1 } END { print sum + 0 }'
}

# holds WHAT CONDITION: a condition of awk over numbers must hold of the last run.
holds() {
    awk "BEGIN { exit !($2) }" && return 0
    die "$1 does not hold ($2) of: $RUN
$REPORT
$COMPLAINT"
}

# ended CODE...: the last run must have ended with one of these.
ended() {
    local code
    for code in "$@"; do
        [[ $CODE != "$code" ]] || return 0
    done
    die "exit code $CODE of: $RUN
$REPORT
$COMPLAINT"
}

# mentions TEXT: the last run must have said so.
mentions() {
    grep -qF -- "$1" <<<"$REPORT$COMPLAINT" || die "nothing says '$1' in: $RUN
$REPORT
$COMPLAINT"
}
