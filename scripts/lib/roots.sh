# shellcheck shell=bash
# Fresh roots of Debian 12 to try things in, where nothing of this machine stands in the way or helps. Needs common.sh and packages.sh.

# has_roots: may and can this machine make some? debootstrap is installed where it is missing.
has_roots() { ((EUID == 0)) && { have debootstrap || install_packages debootstrap; }; }

# make_root FOLDER PACKAGE,...: a minimal Debian 12 with these packages. What debootstrap mounts, and the processes that it starts, are
# gone when it is, however it ends.
make_root() {
    setpriv --pdeathsig KILL unshare --mount-proc --pid --fork --kill-child --propagation private -- \
        debootstrap --variant=minbase --include="$2" bookworm "$1" >"$1.log" 2>&1 || die "debootstrap failed: $(tail -n 3 "$1.log")"
}

# in_root FOLDER COMMAND...: as its root, in its upper folder.
in_root() {
    "$ROOT/scripts/lib/in-root" "$1" 0:0 / PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "${@:2}"
}

# prints TEXT COMMAND...: does it say so on standard output, and end well? It is heard to its end.
prints() {
    local said
    said=$("${@:2}") && [[ $said == *"$1"* ]]
}

# newest_glibc PROGRAM: the newest version of the C library that it asks for.
newest_glibc() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sed s/GLIBC_// | sort -Vu | tail -n 1; }

# not_above VERSION MOST
not_above() { [[ $(printf '%s\n' "$1" "$2" | sort -V | tail -n 1) == "$2" ]]; }

# demo_models FOLDER MODEL...: with the native backend built.
demo_models() {
    (cd "$ROOT" && cargo build --quiet --release --locked -p bench-backends) >&2 || die "the native test backend could not be built"
    "$ROOT/scripts/make-demo-models" "$@"
}
