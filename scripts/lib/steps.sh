# shellcheck shell=bash
# Named steps of a long script, and where its time went. Needs common.sh.

STEPS=()

# step NAME COMMAND...: runs the command, and ends the script with what to run to see only this step if it fails.
step() {
    local name=$1 start=$SECONDS
    shift
    say "$name"
    "$@" || {
        note_step "$name (failed)" "$start"
        die "$name failed; to see only this step, run: $*"
    }
    note_step "$name" "$start"
}

# note_step NAME START: notes that a step which began START seconds after the script is over.
note_step() { STEPS+=("$(printf '%5d s  %s' $((SECONDS - $2)) "$1")"); }

# print_steps: the time of every step so far, and of all.
print_steps() {
    printf '%s\n' "${STEPS[@]}" "$(printf '%5d s  all' "$SECONDS")" >&2
}

# The result file of the last run of the tests (.config/nextest.toml names it).
junit_file() { echo "$TARGET_DIR/nextest/default/junit.xml"; }

# print_slowest: the twenty tests of the last run that took longest.
print_slowest() {
    local file
    file=$(junit_file)
    [[ -e $file ]] || return 0
    say "the slowest twenty tests, in seconds"
    # A test that was tried again has one line for each try; the last one counts.
    sed -nE 's/.*<testcase name="([^"]*)" classname="([^"]*)".* time="([0-9.]+)".*/\3 \2 \1/p' "$file" | sort -rn |
        awk 'NR <= 20 { printf "%8.1f  %s %s\n", $1, $2, $3 }' >&2
}
