"""A server of TensorFlow Serving's calls, on gRPC's own Python library and messages that its compiler made of the .proto files here.

tfserving_server.py PORT FOLDER   answers until it is ended; FOLDER holds the compiled messages and takes the file `counts`. The next
port is encrypted, with FOLDER/key.pem and FOLDER/cert.pem.

Model `typed` has an input and an output of every type, `in_T` and `out_T`; each output must be its input. Model `slow` takes 20 ms
and doubles `x`, FP32 [-1,2], into `y`. Both check what they are sent as TensorFlow does: type, shape, number of bytes.
"""

import json
import struct
import sys
import time
from concurrent import futures
from pathlib import Path

import grpc

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(FOLDER))
import serving_pb2 as serving  # noqa: E402
import serving_pb2_grpc as services  # noqa: E402
import tensor_pb2 as tensors  # noqa: E402

SERVICE_S = 0.02
TYPES = [name for name in tensors.DataType.keys() if name != "DT_INVALID"]
# Bytes of an element, the list that holds it, and how the list's numbers are read from raw ones.
FORMS = {
    "DT_FLOAT": (4, "float_val", "f"), "DT_DOUBLE": (8, "double_val", "d"), "DT_INT32": (4, "int_val", "i"),
    "DT_UINT8": (1, "int_val", "B"), "DT_INT16": (2, "int_val", "h"), "DT_INT8": (1, "int_val", "b"),
    "DT_INT64": (8, "int64_val", "q"), "DT_BOOL": (1, "bool_val", "?"), "DT_BFLOAT16": (2, "half_val", "H"),
    "DT_UINT16": (2, "int_val", "H"), "DT_HALF": (2, "half_val", "H"), "DT_UINT32": (4, "uint32_val", "I"),
    "DT_UINT64": (8, "uint64_val", "Q"),
}  # fmt: skip
SHAPES = {"typed": (2, 3), "slow": (-1, 2)}
counts = {}


def signature(model):
    made = tensors.SignatureDef(method_name="tensorflow/serving/predict")
    pairs = [("x", "y", "DT_FLOAT")] if model == "slow" else [(f"in_{name}", f"out_{name}", name) for name in TYPES]
    for source, target, name in pairs:
        for side, key in ((made.inputs, source), (made.outputs, target)):
            info = side[key]
            info.name, info.dtype = f"{key}:0", tensors.DataType.Value(name)
            for size in SHAPES[model]:
                info.tensor_shape.dim.add(size=size)
    return made


def find(spec, context):
    """The model, where the request names one that is there, in a version that is there."""
    if spec.name not in SHAPES:
        context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: Latest({spec.name})")
    if spec.WhichOneof("version_choice") == "version" and spec.version.value != 1:
        context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: Specific({spec.name}, {spec.version.value})")
    if spec.WhichOneof("version_choice") == "version_label" and spec.version_label != "stable":
        text = f"Unrecognized servable version label: {spec.version_label}"
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
    return spec.name


def checked(tensor, info, context):
    """The elements, as numbers or strings; the call ends where they are not those of the signature."""
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    wanted = [dim.size for dim in info.tensor_shape.dim]
    fits = len(shape) == len(wanted) and all(other in (-1, size) for size, other in zip(shape, wanted))
    if tensor.dtype != info.dtype or not fits:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{info.name}: type {tensor.dtype}, shape {shape}")
    count = 1
    for size in shape:
        count *= size
    name = tensors.DataType.Name(tensor.dtype)
    if name == "DT_STRING":
        elements = list(tensor.string_val)
    else:
        size, _, form = FORMS[name]
        if len(tensor.tensor_content) != count * size:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{info.name}: {len(tensor.tensor_content)} bytes for {count}")
        elements = [number for (number,) in struct.iter_unpack("<" + form, tensor.tensor_content)]
    if len(elements) != count:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{info.name}: {len(elements)} elements for {count}")
    return elements


class Predictions(services.PredictionServiceServicer):
    def Predict(self, request, context):
        model = find(request.model_spec, context)
        made = signature(model)
        if request.model_spec.signature_name != "serving_default":
            text = f'Serving signature key "{request.model_spec.signature_name}" not found.'
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        if set(request.inputs) != set(made.inputs):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "input size does not match signature")
        answer = serving.PredictResponse(model_spec=request.model_spec)
        for source, target in zip(sorted(made.inputs), sorted(made.outputs)):
            if request.output_filter and target not in request.output_filter:
                continue
            sent, out = request.inputs[source], answer.outputs[target]
            elements = checked(sent, made.inputs[source], context)
            out.dtype = sent.dtype
            out.tensor_shape.CopyFrom(sent.tensor_shape)
            name = tensors.DataType.Name(sent.dtype)
            if model == "slow":
                elements = [2 * number for number in elements]
            # As TensorFlow Serving answers unless it is told otherwise: in typed lists.
            getattr(out, "string_val" if name == "DT_STRING" else FORMS[name][1]).extend(elements)
        if model == "slow":
            time.sleep(SERVICE_S)
        counts[model] = counts.get(model, 0) + 1
        return answer

    def GetModelMetadata(self, request, context):
        model = find(request.model_spec, context)
        signatures = serving.SignatureDefMap()
        signatures.signature_def["serving_default"].CopyFrom(signature(model))
        answer = serving.GetModelMetadataResponse(model_spec=request.model_spec)
        answer.metadata["signature_def"].Pack(signatures)
        return answer


class Models(services.ModelServiceServicer):
    def GetModelStatus(self, request, context):
        find(request.model_spec, context)
        # A script that asks for the model `slow` by its version reads what was counted.
        (FOLDER / "counts").write_text(json.dumps(counts))
        answer = serving.GetModelStatusResponse()
        answer.model_version_status.add(version=1, state=serving.ModelVersionStatus.AVAILABLE)
        return answer


server = grpc.server(futures.ThreadPoolExecutor(8))
services.add_PredictionServiceServicer_to_server(Predictions(), server)
services.add_ModelServiceServicer_to_server(Models(), server)
server.add_insecure_port(f"127.0.0.1:{PORT}")
pair = ((FOLDER / "key.pem").read_bytes(), (FOLDER / "cert.pem").read_bytes())
server.add_secure_port(f"127.0.0.1:{PORT + 1}", grpc.ssl_server_credentials([pair]))
server.start()
server.wait_for_termination()
