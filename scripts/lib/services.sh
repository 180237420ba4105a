# shellcheck shell=bash
# Running this program against real servers of others. Needs common.sh and packages.sh. A folder for the run is in $WORK; what was
# started ends with the script.

readonly SERVICES_DIR=$ROOT/.deps/services
WORK=$(mktemp -d)
SERVICE_PID=

end_service() {
    [[ -n $SERVICE_PID ]] || return 0
    kill "$SERVICE_PID" 2>/dev/null || true
    wait "$SERVICE_PID" 2>/dev/null || true
    SERVICE_PID=
}

clean_up_service() {
    end_service
    rm -rf "$WORK"
}
trap clean_up_service EXIT

# require_program PATH: sets PROGRAM, which is built where the path is empty.
require_program() {
    PROGRAM=$1
    [[ -n $PROGRAM ]] && return
    require_build
    (cd "$ROOT" && cargo build --release --locked -p triton-bench) >&2 || die "the build failed"
    PROGRAM=$TARGET_DIR/release/triton-bench
}

# install_environment NAME PACKAGE...: a virtual environment with these packages, in ENVIRONMENT.
install_environment() {
    ENVIRONMENT=$SERVICES_DIR/$1
    shift
    [[ -e $ENVIRONMENT/complete && $(<"$ENVIRONMENT/complete") == "$*" ]] && return
    say "installing $*"
    rm -rf "$ENVIRONMENT"
    mkdir -p "$SERVICES_DIR"
    python3 -m venv "$ENVIRONMENT"
    retry 3 "$ENVIRONMENT/bin/pip" install -q --disable-pip-version-check "$@" >&2 ||
        die "pip could not install $*; see its messages above"
    echo "$*" >"$ENVIRONMENT/complete"
}

# start_service COMMAND...: starts it in $WORK; what it says goes to service.log there.
start_service() {
    (cd "$WORK" && exec "$@" >"$WORK/service.log" 2>&1) &
    SERVICE_PID=$!
}

# await_http URL: waits until it is answered.
await_http() {
    local attempt
    for ((attempt = 0; attempt < 600; attempt++)); do
        curl -sf -o /dev/null "$1" && return
        kill -0 "$SERVICE_PID" 2>/dev/null || die "the server ended: $(tail -n 5 "$WORK/service.log")"
        sleep 0.2
    done
    die "the server does not answer at $1: $(tail -n 5 "$WORK/service.log")"
}

# await_file FILE: waits until the server has written it.
await_file() {
    local attempt
    for ((attempt = 0; attempt < 600; attempt++)); do
        [[ -e $1 ]] && return
        kill -0 "$SERVICE_PID" 2>/dev/null || die "the server ended: $(tail -n 5 "$WORK/service.log")"
        sleep 0.2
    done
    die "the server does not write $1: $(tail -n 5 "$WORK/service.log")"
}

# run_program NAME FLAG...: runs the program; what it says is in NAME.txt and NAME.err. A rate that a busy machine could not
# keep (4) is no failure.
run_program() {
    local name=$1 code=0
    shift
    "$PROGRAM" "$@" >"$WORK/$name.txt" 2>"$WORK/$name.err" || code=$?
    ((code == 0 || code == 4)) || die "$name ended with $code: $(cat "$WORK/$name.err" "$WORK/$name.txt")"
}

# expect_requests NAME COUNT: so many requests in all levels, and none that failed.
expect_requests() {
    local found
    found=$(awk '/^    Request count:/ { sum += $3 } END { print sum + 0 }' "$WORK/$1.txt")
    ((found == $2)) || die "$1: $found requests succeeded, not $2: $(cat "$WORK/$1.txt")"
    grep -q 'Failed request count' "$WORK/$1.txt" && die "$1: $(grep -A 3 Failed "$WORK/$1.txt")"
    say "$1: $(grep -m 1 Throughput "$WORK/$1.txt" | xargs)"
}
