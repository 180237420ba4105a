# shellcheck shell=bash
# Lints by clippy in the same pass as the build. Needs common.sh.

# lint_while_building: clippy compiles the workspace from here on, and what it finds is an error. As a compiler it takes an eighth
# longer than rustc; `cargo clippy` beside a build checks every dependency and the workspace once more, which takes half as long as
# the build.
lint_while_building() {
    RUSTC_WORKSPACE_WRAPPER=$(rustc --print sysroot)/bin/clippy-driver
    [[ -x $RUSTC_WORKSPACE_WRAPPER ]] || RUSTC_WORKSPACE_WRAPPER=$(command -v clippy-driver) ||
        die 'clippy is missing; install it with: rustup component add clippy'
    export RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS=-Dwarnings
}

# Whether it does.
lints_while_building() { [[ ${RUSTC_WORKSPACE_WRAPPER:-} == */clippy-driver ]]; }
