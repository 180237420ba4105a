# shellcheck shell=bash
# Named steps of a long script, and where its time went. Needs common.sh.

STEPS=()
# Why the script ends, said once more after the times: whoever reads a long log looks there first.
FAILURE=

# end_steps MESSAGE: ends the script.
end_steps() {
    FAILURE=$1
    die "$1"
}

# again COMMAND...: how to run only this, if a shell knows it: a function of the script is nothing that can be typed.
again() { [[ $(type -t "$1") != file ]] || printf '; to see only this step, run: %s' "${*@Q}"; }

# step NAME COMMAND...: runs the command, and ends the script with what to run to see only this step if it fails.
step() {
    local name=$1 start=$SECONDS
    shift
    say "$name"
    "$@" || {
        note_step "$name (failed)" "$start"
        end_steps "$name failed; see above$(again "$@")"
    }
    note_step "$name" "$start"
}

# idly COMMAND...: runs it on what processor time nothing else wants. In a session of its own, because the kernel divides the
# processors among sessions first, where they are groups to it (sched(7)): beside a test in another session, idle threads of this one
# would get the session's whole share.
idly() {
    local priority=(nice -n 19)
    ! have chrt || priority=(chrt --idle 0)
    # shellcheck disable=SC2016 # the inner shell expands it
    setsid --wait bash -c 'if [[ -w /proc/self/autogroup ]]; then echo 19 >/proc/self/autogroup; fi; exec "$@"' idly "${priority[@]}" "$@"
}

# beside [--idle] NAME COMMAND...: begins a step that goes on while the next ones run. Its words come with await_steps. Without
# --idle, which runs it idly, it has to be one that mostly waits.
BESIDE=()
beside() {
    local name log way=()
    if [[ $1 == --idle ]]; then
        way=(idly)
        shift
    fi
    name=$1
    shift
    log=$(mktemp)
    say "$name, beside what follows"
    (
        code=0
        SECONDS=0
        "${way[@]}" "$@" >"$log" 2>&1 || code=$?
        echo "$SECONDS $code" >"$log.end"
    ) &
    BESIDE+=("$!" "$log" "$name" "$(again "$@")")
}

# await_steps: waits for the steps that were begun beside others, and ends the script if one of them failed.
await_steps() {
    local pid log name command seconds code last failed=()
    while ((${#BESIDE[@]} > 0)); do
        pid=${BESIDE[0]} log=${BESIDE[1]} name=${BESIDE[2]} command=${BESIDE[3]}
        BESIDE=("${BESIDE[@]:4}")
        wait "$pid" || true
        say "$name"
        cat "$log" >&2
        # Killed before it could say how it ended.
        seconds=0 code=1
        [[ ! -e $log.end ]] || read -r seconds code <"$log.end"
        last=$(tail -n 5 "$log")
        rm -f "$log" "$log.end"
        ((code == 0)) || failed+=("$name failed$command; its last words:"$'\n'"$last")
        STEPS+=("$(printf '%5d s  %s (beside others)%s' "$seconds" "$name" "$( ((code == 0)) || echo ' (failed)')")")
    done
    ((${#failed[@]} == 0)) || end_steps "$(printf '%s\n' "${failed[@]}")"
}

# note_step NAME START: notes that a step which began START seconds after the script is over.
note_step() { STEPS+=("$(printf '%5d s  %s' $((SECONDS - $2)) "$1")"); }

# print_steps: the time of every step so far, and of all. What still goes on beside the others ends by itself.
print_steps() {
    wait
    printf '%s\n' "${STEPS[@]}" "$(printf '%5d s  all' "$SECONDS")" ${FAILURE:+"$FAILURE"} >&2
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
