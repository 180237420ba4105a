# shellcheck shell=bash
# Building and running the program and its tests under one of the compiler's sanitizers. The stable toolchain carries their
# run times; only the flag is held back, so RUSTC_BOOTSTRAP lets it through. Needs common.sh, packages.sh and kinds.sh.

# sanitize NAME [FLAG...]: from here on everything is built with the sanitizer and these flags, in a folder of its own. What
# processes find they write to files in REPORTS.
sanitize() {
    SANITIZER=$1
    HOST=$(rustc -vV | sed -n 's/^host: //p')
    REPORTS=$TARGET_DIR/soundness/$1/reports
    rm -rf "$REPORTS"
    mkdir -p "$REPORTS"
    export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$TARGET_DIR/soundness/$1
    # Libraries that are loaded at run time find the sanitizer in the program.
    export RUSTFLAGS="-Zsanitizer=$* -Clink-arg=-Wl,--export-dynamic-symbol=__${1:0:1}san_*"
    TRITON_SERVER_DIRECTORY=$("$ROOT/scripts/install-triton")
    export TRITON_SERVER_DIRECTORY
    BUILT=$CARGO_TARGET_DIR/$HOST/debug
}

# sanitized_build TEST...: programs, libraries, their own tests, and these test programs, in one go, so that each dependency has
# one set of features. With --target, so that what runs while building is built without the sanitizer.
sanitized_build() {
    TARGETS=(--locked --workspace --target "$HOST" --lib "${@/#/--test=}")
    cargo build "${TARGETS[@]}" --bins || die "the build with the sanitizer failed"
}

# sanitized_tests FILTER: those of the tests that a filter of nextest's names, each once.
sanitized_tests() {
    have cargo-nextest || die "cargo-nextest is missing; install it with: cargo install --locked cargo-nextest"
    cargo nextest run "${TARGETS[@]}" --retries 0 --no-fail-fast -E "$1"
}

# sanitized_kinds: a short run on each kind of model, in a real server in the program's own process.
sanitized_kinds() {
    local folder kind failed=0
    folder=$(mktemp -d)
    make_kinds "$folder" "$BUILT/libtriton_bench.so"
    for kind in "${KINDS[@]}"; do
        say "$SANITIZER: a $kind model in a real Triton"
        run_kind "$folder" "$kind" "$BUILT/triton-bench" >"$folder/out" 2>&1 || {
            say "the run on a $kind model failed:"
            tail -n 20 "$folder/out" >&2
            failed=1
        }
    done
    rm -rf "$folder"
    return "$failed"
}

# no_reports: fails, and shows the first of them, if the sanitizer found anything.
no_reports() {
    local reports=("$REPORTS"/*)
    [[ -e ${reports[0]} ]] || return 0
    say "$SANITIZER: ${#reports[@]} processes wrote a report; the first of those in $REPORTS:"
    head -n 120 "${reports[0]}" >&2
    return 1
}
