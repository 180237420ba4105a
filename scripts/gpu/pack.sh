# shellcheck shell=bash
# What the checks of scripts/test-gpu run: programs, a server and models, built and packed. Needs common.sh.

readonly ARCHIVE=gpu-checks.tar.xz
readonly MEBIBYTE_MODEL=identity_fp32_1mib

# neighbours FILE SERVER: the libraries of the server directory that a library or program needs.
neighbours() {
    local library
    ldd "$1" | awk '$3 ~ /^\// { print $3 }' | while read -r library; do
        [[ $(readlink -f "$(dirname "$library")") != "$(readlink -f "$2/lib")" ]] || echo "$library"
    done
}

# copy_neighbours FILE SERVER TARGET: these libraries. The server library may be there under two names.
copy_neighbours() {
    local library
    neighbours "$1" "$2" | while read -r library; do
        if cmp -s "$library" "$3/lib/libtritonserver.so"; then
            [[ $library == */libtritonserver.so ]] || ln -sf libtritonserver.so "$3/lib/$(basename "$library")"
        else
            cp -L "$library" "$3/lib/"
        fi
    done
}

# The server library, the server program, the python backend, and what they need beside them; the whole server directory
# is far larger.
copy_server() {
    local server=$1 target=$2
    mkdir -p "$target/lib" "$target/bin" "$target/backends"
    cp -L "$server/lib/libtritonserver.so" "$target/lib/"
    copy_neighbours "$server/lib/libtritonserver.so" "$server" "$target"
    # The metrics of GPUs are collected through a library that is opened by name.
    cp -L "$server"/lib/libdcgm*.so* "$target/lib/" 2>/dev/null || true
    if [[ -x $server/bin/tritonserver ]]; then
        cp -L "$server/bin/tritonserver" "$target/bin/"
        copy_neighbours "$server/bin/tritonserver" "$server" "$target"
    fi
    [[ ! -d $server/backends/python ]] || copy_python_backend "$server" "$target"
}

# With its stubs for the Pythons that PyTorch runs on today, where the server has several.
copy_python_backend() {
    local server=$1 target=$2 version
    cp -RL "$server/backends/python" "$target/backends/"
    copy_neighbours "$server/backends/python/libtriton_python.so" "$server" "$target"
    copy_neighbours "$server/backends/python/triton_python_backend_stub" "$server" "$target"
    for version in 3.10 3.11 3.12 3.13; do
        [[ -d $server/python_backend_stubs/$version ]] || continue
        mkdir -p "$target/python_backend_stubs"
        cp -RL "$server/python_backend_stubs/$version" "$target/python_backend_stubs/"
    done
}

# cargo_build ARGUMENT...: in the wanted profile. The whole workspace at once, so that each dependency has one set of features.
cargo_build() {
    local flags=(--locked --workspace)
    [[ $profile == debug ]] || flags+=(--release)
    cargo "$@" "${flags[@]}"
}

# install_program FILE TARGET: without what only debuggers read, which is most of a debug build.
install_program() {
    strip --strip-debug -o "$2" "$1" 2>/dev/null || cp "$1" "$2"
}

# build FOLDER: fills FOLDER with gpu (the checks of memory), triton-bench, server/, models/ and upstream/.
build() {
    local folder=$1 server checks
    # shellcheck source=scripts/lib/packages.sh
    source "$ROOT/scripts/lib/packages.sh"
    require_build
    server=$("$ROOT/scripts/install-triton")
    cargo_build build --lib --bins >&2
    checks=$(cargo_build test --test gpu --no-run --message-format json |
        sed -n 's/.*"name":"gpu".*"executable":"\([^"]*\)".*/\1/p' | tail -1)
    [[ -n $checks ]] || die "cargo built no program of the gpu checks; run: cargo test --release --test gpu --no-run"
    mkdir -p "$folder"
    install_program "$checks" "$folder/gpu"
    install_program "$TARGET_DIR/$profile/triton-bench" "$folder/triton-bench"
    copy_server "$server" "$folder/server"
    BACKEND_LIBRARY=$TARGET_DIR/$profile/libtriton_bench.so \
        "$ROOT/scripts/make-demo-models" "$folder/models" "$MEBIBYTE_MODEL"
    ((!is_real)) || copy_upstream "$folder/upstream"
}

# The program that ours is compared with.
copy_upstream() {
    local program
    program=$("$ROOT/scripts/install-upstream")
    mkdir -p "$1/bin"
    cp -L "$program" "$1/"
    cp -L "$(dirname "$program")/bin/perf_analyzer" "$1/bin/"
    cp -RL "$(dirname "$program")/lib" "$1/"
}

# pack FOLDER
pack() {
    work=$(mktemp -d)
    build "$work"
    require xz
    mkdir -p "$1"
    tar -C "$work" -c . | xz -T0 "-$compression" >"$1/$ARCHIVE"
    rm -rf "$work"
    say "$1/$ARCHIVE: $(($(stat -c %s "$1/$ARCHIVE") / 1000000)) MB; with the checkout, it is all that --bundle needs"
}
