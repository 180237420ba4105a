# shellcheck shell=bash
# Ground rules of every script here: where the checkout is, how to talk (always on standard error, so that
# standard output carries only results), how to fail, how to try again.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Where cargo puts what it builds; used by the scripts that source this file.
# shellcheck disable=SC2034
TARGET_DIR=${CARGO_TARGET_DIR:-$ROOT/target}
# Cargo is started in the checkout, and scripts anywhere.
[[ $TARGET_DIR == /* ]] || TARGET_DIR=$ROOT/$TARGET_DIR

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

[[ $(uname -s) == Linux ]] || die "this is for Linux, not for $(uname -s): run it on a Linux machine, or in a container (docs/install.md)"

# Places for tests, four for each processor; .config/nextest.toml says which tests take more than one.
export NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$((4 * $(nproc)))}

# retry COUNT COMMAND...: runs the command up to COUNT times, waiting 2, 4, 6... seconds in between.
retry() {
    local attempts=$1 attempt
    shift
    for ((attempt = 1; attempt <= attempts; attempt++)); do
        "$@" && return 0
        if ((attempt < attempts)); then
            say "'$1' failed (attempt $attempt of $attempts), trying again"
            sleep $((attempt * 2))
        fi
    done
    return 1
}

# with_lock FILE: holds an exclusive lock on FILE until the script ends, so that two runs never build the same folder.
with_lock() {
    exec {LOCK_FD}>"$1"
    flock --wait 600 "$LOCK_FD" || die "another run has held $1 for ten minutes; end it and try again"
}
