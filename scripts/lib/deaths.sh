# shellcheck shell=bash
# Deaths by a signal during a run of the tests: whatever comes after them, the run has failed. Needs common.sh.
#
# Test programs are started through scripts/lib/note-death, programs that tests start through tests/support/watched.rs;
# both note a death in the file that TRITON_BENCH_DEATHS names.

# What tells cargo and nextest to start test programs through the note-taker.
# shellcheck disable=SC2034 # used by the scripts that source this file
NOTING_DEATHS=(--config "target.'cfg(all())'.runner = ['$ROOT/scripts/lib/note-death']")

# watch_deaths FILE: begins a run whose deaths are noted in FILE.
watch_deaths() {
    mkdir -p "$(dirname "$1")"
    : >"$1"
    export TRITON_BENCH_DEATHS=$1
}

# no_deaths: fails, and says who died, unless nobody did since watch_deaths.
no_deaths() {
    [[ -s $TRITON_BENCH_DEATHS ]] || return 0
    say "these died by a signal or did not end, though a later try may have passed:"
    cat "$TRITON_BENCH_DEATHS" >&2
    return 1
}
