# shellcheck shell=bash
# Checks with a model that computes on the GPU (tests/gpu/models/gemm), for scripts/test-gpu. It is a Python model that
# takes PyTorch, so these checks are skipped, with the reason, where there is none. Needs common.sh and checks.sh.

# Sets python, version and packages (where PyTorch is); prints why the model cannot run here, if it cannot.
python_of_model() {
    python=$(command -v python3) || { echo "there is no python3" && return 1; }
    "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
        { echo "$python has no PyTorch that finds a GPU" && return 1; }
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    packages=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
}

# The python backend starts the stub that was linked against this Python.
choose_stub() {
    local stub=$folder/server/python_backend_stubs/$version/triton_python_backend_stub
    local backend=$folder/server/backends/python
    if [[ -e $stub ]]; then
        cp "$stub" "$backend/"
    elif [[ -d $folder/server/python_backend_stubs || ! -e $backend/triton_python_backend_stub ]]; then
        echo "the server has no python backend for Python $version"
        return 1
    fi
}

# gemm FLAG...: the program on that model.
gemm() {
    LD_LIBRARY_PATH=$folder/server/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PYTHONPATH=$packages timeout 300 \
        "$folder/triton-bench" "$@" -m gemm --service-kind triton_c_api \
        --triton-server-directory "$folder/server" --model-repository "$ROOT/tests/gpu/models"
}

gemm_measure() { gemm -p "$interval_ms" -r 3 -s 1000 --max-errors 0 "$@"; }

# Every request's latency against the time that the GPU itself counted for it.
check_against_gpu_clock() {
    gemm --request-count 300 --max-errors 0 --profile-export-file "$folder/gemm.json" >"$folder/log" 2>&1 &&
        "$python" - "$folder/gemm.json" <<'PYTHON'
import json, statistics, sys
experiment, = json.load(open(sys.argv[1]))["experiments"]
gpu = [request["response_outputs"][0]["GPU_MS"] for request in experiment["requests"]]
whole = [(int(request["response_timestamps"][-1]) - int(request["timestamp"])) / 1e6 for request in experiment["requests"]]
print(f"a request takes {statistics.median(whole):.3f} ms, of which the GPU computes {statistics.median(gpu):.3f} ms by its own clock")
sys.exit(not all(0 < part < all_of_it for part, all_of_it in zip(gpu, whole)))
PYTHON
}

# The time does not depend on the batch, so the search must find that batches pay.
check_tune() {
    gemm tune --search max_batch_size=1,16,64 --search delay=off,0 --at-concurrency 64 --budget 90s --output "$folder/tune"
    "$python" - "$folder/tune/config.pbtxt" <<'PYTHON'
import re, sys
config = open(sys.argv[1]).read()
batch = int(re.search(r"max_batch_size: *(\d+)", config).group(1))
sys.exit(batch < 16 or "dynamic_batching" not in config)
PYTHON
}

run_model_checks() {
    local failed=0 python version packages why log=$folder/log
    printf '\n%-28s %-8s %s\n' 'a model on the GPU' result 'infer/s'
    if ! python_of_model >"$folder/why" || ! choose_stub >"$folder/why"; then
        why=$(<"$folder/why")
        echo "skipped, because $why"
        return
    fi
    check 'pageable' gemm_measure || failed=1
    check 'GPU' gemm_measure --shared-memory cuda || failed=1
    check_against_gpu_clock || { failed=1 && echo "FAILED: a request took less than the GPU needs" && failure "$log"; }
    shows 'where its time goes (--breakdown)' 'Stage|  [a-z ,]+ +[0-9.]+ +[0-9.]+ |GPU: time' gemm_measure --breakdown || failed=1
    printf '\ntriton-bench tune\n'
    if check_tune >"$log" 2>&1; then
        sed -n '/^Candidates/,$p' "$log"
    else
        echo "    FAILED: it did not choose batches"
        failure "$log"
        failed=1
    fi
    return "$failed"
}
