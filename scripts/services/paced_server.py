"""A server for check-truth that answers every inference after the same time, in the words of each service.

paced_server.py PORT MILLISECONDS BACKLOG   answers HTTP/1.1 and, to clients that begin with HTTP/2's preface, gRPC, until it is
ended. BACKLOG is the length of its accept queue. It knows model `m` of KServe and TensorFlow Serving (both over HTTP and gRPC; FP32
[2], or [-1,2]), TorchServe's `m`, and OpenAI's chat completions."""

import asyncio
import json
import struct
import sys

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
ACK, END_STREAM, END_HEADERS = 1, 1, 4


def signature():
    """TensorFlow Serving's description of the model, in JSON."""
    info = {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, {"size": "2"}], "unknown_rank": False}, "name": "x:0"}
    told = {"inputs": {"x": info}, "outputs": {"y": info}, "method_name": "tensorflow/serving/predict"}
    return {"model_spec": {"name": "m", "version": "1"}, "metadata": {"signature_def": {"signature_def": {"serving_default": told}}}}


KSERVE_TENSOR = {"datatype": "FP32", "shape": [2]}
AVAILABLE = {"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]}
# Answers by the end of the path; those to inferences take their time.
QUESTIONS = {
    "/v2": {"name": "paced", "version": "1", "extensions": []},
    "/v2/models/m": {"name": "m", "versions": ["1"], "platform": "", "inputs": [{"name": "x", **KSERVE_TENSOR}],
                     "outputs": [{"name": "y", **KSERVE_TENSOR}]},
    "/v1/models/m": AVAILABLE,
    "/v1/models/m/metadata": signature(),
    "/ping": {"status": "Healthy"},
    "/ready": {},
    "/live": {},
}  # fmt: skip
INFERENCES = {
    "/infer": {"model_name": "m", "outputs": [{"name": "y", "data": [0.0, 0.0], **KSERVE_TENSOR}]},
    ":predict": {"outputs": [[0.0, 0.0]]},
    "/predictions/m": {"tabby": 0.9},
    "/completions": {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}},
}


def field(number, content):
    """A field of a message: a number, or bytes of at most 127."""
    return bytes([number << 3, content]) if isinstance(content, int) else bytes([number << 3 | 2, len(content)]) + content


def long_field(number, content):
    """The same for up to 16 383 bytes."""
    return bytes([number << 3 | 2, len(content) & 127 | 128, len(content) >> 7]) + content


def described():
    """TensorFlow Serving's GetModelMetadataResponse."""
    minus_one = b"\x08" + b"\xff" * 9 + b"\x01"
    shape = field(2, minus_one) + field(2, field(1, 2))
    info = field(1, b"x:0") + field(2, 1) + field(3, shape)
    sides = field(1, field(1, b"x") + field(2, info)) + field(2, field(1, b"y") + field(2, info))
    told = long_field(1, field(1, b"serving_default") + long_field(2, sides + field(3, b"tensorflow/serving/predict")))
    packed = field(1, b"type.googleapis.com/tensorflow.serving.SignatureDefMap") + long_field(2, told)
    return field(1, field(1, b"m")) + long_field(2, field(1, b"signature_def") + long_field(2, packed))


FLOATS = bytes(8)
TENSOR = field(1, 1) + field(2, field(2, field(1, 1)) + field(2, field(1, 2))) + field(5, FLOATS)
KSERVE_MODEL = field(1, b"x") + field(2, b"FP32") + b"\x1a\x01\x02"
# Answers by the method; other methods are not implemented.
CALLS = {
    b"GetModelStatus": field(1, field(1, 1) + field(2, 30)),
    b"GetModelMetadata": described(),
    b"ServerMetadata": field(1, b"paced"),
    b"ServerReady": field(1, 1),
    b"ServerLive": field(1, 1),
    b"ModelReady": field(1, 1),
    b"ModelMetadata": field(1, b"m") + field(4, KSERVE_MODEL) + field(5, KSERVE_MODEL.replace(b"x", b"y", 1)),
    b"Predict": field(1, field(1, b"y") + field(2, TENSOR)) + field(2, field(1, b"m")),
    b"ModelInfer": field(1, b"m") + field(5, KSERVE_MODEL.replace(b"x", b"y", 1)) + field(6, FLOATS),
}
SLOW = (b"Predict", b"ModelInfer")


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 until it sees HTTP/2's preface."""

    def __init__(self, pause):
        self.pause, self.held, self.is_h2, self.method = pause, b"", False, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.held += data
        if not self.is_h2 and self.held.startswith(PREFACE):
            self.is_h2, self.held = True, self.held[len(PREFACE):]
            self.transport.write(frame(SETTINGS, 0, 0, b""))
        while self.take_frame() if self.is_h2 else self.take_request():
            pass

    def later(self, is_slow, answer):
        asyncio.get_running_loop().call_later(self.pause if is_slow else 0, self.transport.write, answer)

    def take_request(self):
        head, found, rest = self.held.partition(b"\r\n\r\n")
        if not found:
            return False
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        if len(rest) < length:
            return False
        self.held = rest[length:]
        path = head.split(b" ", 2)[1].decode()
        slow = next((body for end, body in INFERENCES.items() if path.endswith(end)), None)
        body = slow or next((body for end, body in QUESTIONS.items() if path.endswith(end)), None)
        line = b"404 Not Found" if body is None else b"200 OK"
        text = json.dumps(body or {"error": "no such path"}).encode()
        self.later(slow, b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (line, len(text), text))
        return True

    def take_frame(self):
        if len(self.held) < 9:
            return False
        length = int.from_bytes(self.held[:3], "big")
        if len(self.held) < 9 + length:
            return False
        kind, flags, stream = struct.unpack(">BBI", self.held[3:9])
        payload, self.held = self.held[9 : 9 + length], self.held[9 + length :]
        if kind == SETTINGS and not flags & ACK:
            self.transport.write(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self.transport.write(frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            # Where the method is not spelled out, it is that of the call before.
            if b"Service/" in payload:
                self.method = next((method for method in CALLS if b"/" + method in payload), b"")
        elif kind == DATA:
            if payload:
                self.transport.write(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))))
            if flags & END_STREAM:
                self.answer_call(stream)
        return True

    def answer_call(self, stream):
        headers, message = b"\x88" + literal(b"content-type", b"application/grpc"), CALLS.get(self.method)
        if message is None:
            headers += literal(b"grpc-status", b"12")
            return self.later(False, frame(HEADERS, END_HEADERS | END_STREAM, stream, headers))
        answer = frame(HEADERS, END_HEADERS, stream, headers) + frame(DATA, 0, stream, struct.pack(">BI", 0, len(message)) + message)
        self.later(self.method in SLOW, answer + frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b"grpc-status", b"0")))


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header field that is in no table."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


async def main():
    port, pause, backlog = int(sys.argv[1]), int(sys.argv[2]) / 1e3, int(sys.argv[3])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(pause), "127.0.0.1", port, backlog=backlog)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
