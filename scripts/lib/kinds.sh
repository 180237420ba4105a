# shellcheck shell=bash
# One model of each kind that the server treats in its own way, and a short run on each of them in the program's own process.
# Needs common.sh, and TRITON_SERVER_DIRECTORY.

KINDS=(native python decoupled sequence ensemble)

# model FOLDER NAME LINE...: a model on the native test backend.
kinds_model() {
    local folder=$1/$2
    shift 2
    mkdir -p "$folder/1"
    ln -sf "$BACKEND_LIBRARY" "$folder/1/libtriton_bench.so"
    printf '%s\n' 'backend: "bench"' 'input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }]' \
        'output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]' \
        'instance_group [{ kind: KIND_CPU count: 2 }]' "$@" >"$folder/config.pbtxt"
}

kinds_python() {
    mkdir -p "$1/python/1"
    cat >"$1/python/1/model.py" <<'PYTHON'
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", tensor)]) for tensor in tensors]
PYTHON
    printf '%s\n' 'backend: "python"' 'input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }]' \
        'output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]' >"$1/python/config.pbtxt"
}

kinds_ensemble() {
    mkdir -p "$1/ensemble/1"
    cat >"$1/ensemble/config.pbtxt" <<'CONFIG'
platform: "ensemble"
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]
ensemble_scheduling { step [
  { model_name: "native" model_version: -1
    input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "between" } },
  { model_name: "python" model_version: -1
    input_map { key: "INPUT0" value: "between" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }
] }
CONFIG
}

# make_kinds FOLDER LIBRARY: a repository with one model of each kind, on that build of the test backend.
make_kinds() {
    local BACKEND_LIBRARY=$2
    [[ -e $2 ]] || die "$2 does not exist; build it with 'cargo build --workspace --lib'"
    kinds_model "$1" native
    kinds_model "$1" decoupled 'model_transaction_policy { decoupled: true }' \
        'parameters { key: "repeat" value { string_value: "3" } }' \
        'parameters { key: "repeat_mode" value { string_value: "thread" } }'
    kinds_model "$1" sequence 'sequence_batching { max_sequence_idle_microseconds: 60000000 }' \
        'parameters { key: "accumulate" value { string_value: "true" } }'
    kinds_python "$1"
    kinds_ensemble "$1"
}

# run_kind FOLDER KIND PROGRAM...: a short run for each way to call, with shared memory and an export. PROGRAM may begin with a
# tool under which it runs.
run_kind() {
    local folder=$1 kind=$2 calls
    shift 2
    for calls in '--sync --concurrency-range 2' '--async --concurrency-range 4 --shared-memory system'; do
        rm -f "$folder/$kind.json"
        # shellcheck disable=SC2086 # flags are words
        timeout 300 "$@" --service-kind triton_c_api --triton-server-directory "$TRITON_SERVER_DIRECTORY" \
            --model-repository "$folder" -m "$kind" --request-count 60 $calls --profile-export-file "$folder/$kind.json" || return
    done
}
