# shellcheck shell=bash
# What a machine must have before anything can be built or run, and how to get the part that is missing.
# Each `missing_*` function prints the Debian packages that would close one gap, or nothing. Needs common.sh.

# The Python that Triton's python backend embeds: the system's, never one from a version manager or an environment.
SYSTEM_PYTHON=/usr/bin/python3

system_python_version() {
    "$SYSTEM_PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}

# A linker and the C library's start files, which rustc and the bare-loop program need.
missing_compiler() {
    local probe
    probe=$(mktemp)
    if ! have gcc || ! have cc || ! cc -x c -o "$probe" - 2>/dev/null <<<'int main(void) { return 0; }'; then
        echo gcc libc6-dev
    fi
    rm -f "$probe"
}

# bindgen loads libclang when build.rs runs; whatever version is present will do.
missing_libclang() {
    local found
    [[ -n ${LIBCLANG_PATH:-} ]] && return
    found=$(compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' || compgen -G '/usr/lib*/libclang*.so*' ||
        compgen -G '/usr/lib/*-linux-gnu/libclang*.so*' || compgen -G '/usr/local/lib/libclang*.so*' || true)
    grep -qE '/libclang(-[0-9.]+)?\.so' <<<"$found" || newest_libclang
}

# Distributions carry different versions: Debian 12 has 14; take the newest that apt knows when 14 is not there.
newest_libclang() {
    local names
    names=$(apt-cache search --names-only '^libclang1-[0-9]+$' 2>/dev/null | cut -d' ' -f1 | sort -V || true)
    if [[ -z $names ]] || grep -qx libclang1-14 <<<"$names"; then
        echo libclang1-14
    else
        tail -n 1 <<<"$names"
    fi
}

missing_patchelf() { have patchelf || echo patchelf; }

# The floors that the network clients are held against.
missing_load_generators() {
    have wrk || echo wrk
    have h2load || echo nghttp2-client
}

# What h2load is made of, for scripts/compare-http2.
missing_nghttp2() { [[ -e /usr/include/nghttp2/nghttp2.h ]] || echo libnghttp2-dev; }

# Any Chromium will do; the font makes its pictures alike.
missing_browser() {
    have chromium || have chromium-browser || have google-chrome || have google-chrome-stable || echo chromium fonts-dejavu-core
}

# A compiler for aarch64, which the crates with C and C++ in them ask for, and what runs its programs here. libstdc++ comes with g++.
missing_aarch64() {
    have aarch64-linux-gnu-g++ || echo gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross
    have qemu-aarch64 || echo qemu-user
}

# What completions are tried in.
missing_shells() {
    have zsh || echo zsh
    have fish || echo fish
}

# What the GPU checks are packed with.
missing_xz() { have xz || echo xz-utils; }

# python_having_pip: prints a Python 3 whose pip works, which downloads wheels.
python_having_pip() {
    local python
    for python in python3 "$SYSTEM_PYTHON"; do
        if have "$python" && "$python" -m pip --version >/dev/null 2>&1; then
            echo "$python"
            return
        fi
    done
    return 1
}

missing_pip() { python_having_pip >/dev/null || echo python3 python3-pip; }

missing_valgrind() { have valgrind || echo valgrind; }

# The python backend needs the system's interpreter, its shared library and numpy.
missing_python_backend() {
    local version
    if [[ ! -x $SYSTEM_PYTHON ]]; then
        echo python3 python3-numpy libpython3-dev
        return
    fi
    version=$(system_python_version)
    has_library "libpython$version.so.1.0" || echo "libpython$version"
    "$SYSTEM_PYTHON" -c 'import numpy' 2>/dev/null || echo python3-numpy
}

# has_library NAME: does the dynamic loader find it by name alone? (ldconfig is in /sbin, outside a user's PATH.)
has_library() {
    compgen -G "/usr/lib/*-linux-gnu/$1" >/dev/null ||
        PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep "$1" >/dev/null
}

as_root() {
    if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" >&2
}

apt_update_and_install() {
    apt_get update && apt_get install --no-install-recommends "$@"
}

# install_packages PACKAGE...: installs them, or names them and the command when this user may not.
install_packages() {
    (($# == 0)) && return 0
    local command="apt-get update && apt-get install --no-install-recommends $*"
    have apt-get || die "missing: $* (Debian's names); this system has no apt-get, so install their equivalents and run again"
    if ((EUID != 0)) && ! { have sudo && sudo -n true 2>/dev/null; }; then
        die "missing Debian packages: $*; as root, run '$command', then run this script again"
    fi
    say "installing $*"
    apt_get install --no-install-recommends "$@" 2>/dev/null || retry 3 apt_update_and_install "$@" ||
        die "apt-get could not install: $*; see its messages above, repair that, run again"
}

# require GAP...: closes the named gaps (compiler, libclang, patchelf, load_generators, browser, nghttp2, aarch64, shells, xz, pip, valgrind, python_backend), all in one apt-get run.
require() {
    local gap packages=()
    for gap in "$@"; do
        mapfile -t -O "${#packages[@]}" packages < <("missing_$gap" | tr ' ' '\n')
    done
    install_packages "${packages[@]}"
}

# is_new_enough VERSION: is the cargo of PATH at least that? rustup's may be there without any version behind it.
is_new_enough() {
    local found
    found=$(cd "$ROOT" && cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
    printf '%s\n' "$1" "$found" | sort -V -C
}

require_rust() {
    local wanted home=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml" 2>/dev/null || true)
    is_new_enough "$wanted" && return
    # A fresh rustup installation is on PATH only in new shells; elsewhere it may come after a distribution's older cargo.
    [[ ! -x $home/cargo ]] || export PATH=$home:$PATH
    is_new_enough "$wanted" && return
    have cargo || die "cargo is not in PATH; install Rust $wanted or newer (rustup is the usual way) and run again"
    die "$(cargo --version 2>&1 | sed -n 1p); Rust $wanted or newer is needed: run 'rustup update stable && rustup default stable' (install rustup where this is a distribution's package), and run again"
}

# What every cargo command in this project needs.
require_build() {
    require_rust
    require compiler libclang
}
