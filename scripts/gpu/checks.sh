# shellcheck shell=bash
# Checks of tensors in GPU memory through real servers, for scripts/test-gpu: on what is in $folder, with windows of
# $interval_ms, and $validated requests where each output is compared. Needs common.sh and pack.sh.

# 1 MiB of random values and the same as expected output: the identity model must give back what it was given.
write_data() {
    local python
    python=$(command -v python3) || die "python3 is missing; it writes the input data of the last checks"
    "$python" - "$1" <<'PYTHON'
import base64, json, random, struct, sys
values = struct.pack("<262144f", *(random.uniform(-1, 1) for _ in range(262144)))
tensor = {"b64": base64.b64encode(values).decode()}
json.dump({"data": [{"INPUT0": tensor}], "validation_data": [{"OUTPUT0": tensor}]}, open(sys.argv[1], "w"))
PYTHON
}

# bench FLAG...: the program on the model.
bench() { timeout 120 "$folder/triton-bench" -m "$MEBIBYTE_MODEL" --async --concurrency-range 4 --max-errors 0 "$@"; }

measure() { bench --measurement-interval "$interval_ms" --max-trials 3 -s 1000 "$@"; }

# With every output compared, which takes longer than the request: proves that it is right, and says nothing of its speed.
validate() { bench --input-data "$folder/data.json" --request-count "$validated" "$@"; }

in_process() {
    "$@" --service-kind triton_c_api --triton-server-directory "$folder/server" --model-repository "$folder/models"
}

# throughput: of the report on standard input.
throughput() { sed -n 's/.*[Tt]hroughput: \([0-9.]*\).*/\1/p' | tail -1; }

# failure LOG: the end of a log, below a line of a table.
failure() { sed 's/^/    /' "$1" | tail -15; }

# check NAME COMMAND...: a line of the table; the throughput is its last column, and what was said follows a failure.
check() {
    local name=$1 log=$folder/log
    shift
    if "$@" >"$log" 2>&1; then
        printf '%-28s %-8s %s\n' "$name" passed "$(throughput <"$log")"
    else
        printf '%-28s %-8s\n' "$name" FAILED
        failure "$log"
        return 1
    fi
}

# shows NAME PATTERN COMMAND...: prints the lines of a run that match; without any, the check failed.
shows() {
    local name=$1 pattern=$2 log=$folder/log
    shift 2
    printf '\n%s\n' "$name"
    if "$@" >"$log" 2>&1 && grep -qE "$pattern" "$log"; then
        grep -E "$pattern" "$log"
    else
        echo "    FAILED: no line has $pattern"
        failure "$log"
        return 1
    fi
}

# Every placement through a real server in process, and through the server program.
run_server_checks() {
    local devices=$1 failed=0 name flags
    write_data "$folder/data.json"
    printf '\n%-28s %-8s %s\n' 'tensors, each compared' result 'infer/s'
    while IFS='|' read -r name flags; do
        # shellcheck disable=SC2086 # flags are words
        check "$name" in_process validate $flags || failed=1
    done <<'CASES'
pageable|
system shared memory|--shared-memory system
pinned|--input-memory pinned --output-memory pinned
GPU|--shared-memory cuda
GPU in, pageable out|--input-memory gpu:0
pageable in, GPU out|--output-memory gpu:0
CASES
    ((devices < 2)) || check 'two GPUs' in_process validate --shared-memory cuda --cuda-device 0,1 || failed=1
    run_network_checks || failed=1
    return "$failed"
}

free_ports() {
    python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(held.getsockname()[1] for held in sockets))'
}

# Starts the server program, and sets http and grpc to its ports.
start_server() {
    read -r http grpc < <(free_ports)
    "$folder/server/bin/tritonserver" --model-repository "$folder/models" --backend-directory "$folder/server/backends" \
        --http-address 127.0.0.1 --grpc-address 127.0.0.1 --http-port "$http" --grpc-port "$grpc" \
        --allow-metrics false --log-info false >"$folder/server.log" 2>&1 &
    server=$!
}

end_server() {
    [[ -n $server ]] || return 0
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}

# The server program opens our memory by its handle.
run_network_checks() {
    local failed=0 http grpc protocol memory
    if [[ ! -x $folder/server/bin/tritonserver ]]; then
        echo "HTTP, gRPC: skipped, because the server directory has no bin/tritonserver"
        return
    fi
    start_server
    for protocol in http grpc; do
        for memory in none cuda; do
            check "$protocol, shared memory: $memory" validate -i "$protocol" -u "127.0.0.1:${!protocol}" \
                --server-wait 60 --shared-memory "$memory" || failed=1
        done
    done
    end_server
    ((failed == 0)) || sed 's/^/    server: /' "$folder/server.log" | tail -15
    return "$failed"
}

# What each kind of memory costs, side by side.
run_matrix() {
    shows 'tensors of 1 MiB in each kind of memory (--matrix memory)' '^ +(infer/sec|pageable|system|pinned|gpu:0) ' \
        in_process measure --matrix memory --measurement-interval 300 --rounds 6 && grep -q ' gpu:0 ' "$folder/log"
}

# Its exit code is about the whole machine.
doctor() { "$folder/triton-bench" doctor || true; }

# What the driver and the management library tell, which nothing stands in for.
run_driver_checks() {
    local failed=0
    shows 'triton-bench doctor' 'GPU [0-9]|driver|MPS' doctor || failed=1
    shows 'an inference (--breakdown)' 'GPU: time .* energy [0-9]' \
        in_process measure --shared-memory cuda --breakdown || failed=1
    shows 'metrics of the server (--collect-metrics)' 'GPU' \
        in_process measure --shared-memory cuda --collect-metrics || failed=1
    return "$failed"
}

# median: of the numbers on standard input.
median() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

# upstream_measure FLAG...: as measure.
upstream_measure() {
    timeout 120 "$folder/upstream/perf_analyzer" -m "$MEBIBYTE_MODEL" --async \
        --measurement-interval "$interval_ms" --max-trials 3 -s 1000 "$@"
}

# The same server, asked by both programs in turn; the median of three rounds. Where requests share system memory,
# perf_analyzer has all of them write to one place, which stays in the processor's cache; with one outstanding there is
# no difference.
compare_with_upstream() {
    local http grpc protocol memory outstanding flags ours theirs failed=0 interval_ms=300
    if [[ ! -x $folder/upstream/perf_analyzer || ! -x $folder/server/bin/tritonserver ]]; then
        echo "perf_analyzer: skipped, because it or the server's program is not in the bundle"
        return
    fi
    start_server
    printf '\n%-42s %12s %13s\n' 'tensors of 1 MiB through a server, infer/s' triton-bench perf_analyzer
    while read -r protocol memory outstanding; do
        flags=(-i "$protocol" -u "127.0.0.1:${!protocol}" --shared-memory "$memory" --concurrency-range "$outstanding")
        : >"$folder/ours"
        : >"$folder/theirs"
        for _ in 1 2 3; do
            measure "${flags[@]}" --server-wait 60 2>"$folder/log" | throughput >>"$folder/ours" || true
            upstream_measure "${flags[@]}" 2>"$folder/log" | throughput >>"$folder/theirs" || true
        done
        ours=$(median <"$folder/ours")
        theirs=$(median <"$folder/theirs")
        printf '%-42s %12s %13s\n' "$protocol, shared memory $memory, $outstanding outstanding" \
            "${ours:-FAILED}" "${theirs:-FAILED}"
        [[ -n $ours && -n $theirs ]] || { failed=1 && failure "$folder/log"; }
    done <<'CASES'
http none 4
http system 1
http system 4
http cuda 1
http cuda 4
grpc none 4
grpc system 4
grpc cuda 4
CASES
    end_server
    return "$failed"
}
