# shellcheck shell=bash
# The program that scripts run: what TRITON_BENCH names, as scripts/other-services does, or a build of this checkout. Needs packages.sh.

require_program() {
    [[ -n ${TRITON_BENCH:-} ]] && return
    require_build
    (cd "$ROOT" && cargo build --release --locked -p triton-bench) >&2 || die "the build failed"
    TRITON_BENCH=$TARGET_DIR/release/triton-bench
}
