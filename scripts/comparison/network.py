"""Throughput and the client's processor time per request over HTTP and gRPC, on the native identity model FP32 [1, 16], beside
perf_analyzer and the protocol's floor: wrk for HTTP, h2load for gRPC, which send one ready-made request over and over.
All clients meet the same tritonserver on this machine, in rounds that take turns."""

import json
import struct
import urllib.request
from dataclasses import dataclass

from .costs import Costs, measure, quotient
from .programs import ANY_STABILITY, BEFORE, LEVEL_LINE, OURS, UPSTREAM, WINDOWS, log, median
from .report import Report, at_least, at_most, ratio, spread, table
from .triton import running_server

FLOORS = {"http": "wrk", "grpc": "h2load"}
OUTSTANDING = (1, 4, 16)
MODEL = "identity_fp32"
TENSOR = bytes(64)
# Least throughput beside the floor and beside upstream, most processor time beside each, from the project's goals.
FLOOR_TARGET = {"http": 0.95, "grpc": 0.85}
UPSTREAM_TARGET = {("http", 4): 1.3, ("http", 16): 1.4, ("grpc", 4): 1.3, ("grpc", 16): 1.8}
FLOOR_CPU_TARGET = {"http": 1.3}
UPSTREAM_CPU_TARGET = {"http": 0.25, "grpc": 0.5}


@dataclass(kw_only=True)
class Case(Costs):
    protocol: str
    outstanding: int

    @property
    def title(self):
        return f"{'HTTP' if self.protocol == 'http' else 'gRPC'}, {self.outstanding} outstanding"


def _write_requests(folder):
    """The same inference as each floor sends it: a script for wrk, a framed message for h2load."""
    header = (
        '{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"FP32","parameters":{"binary_data_size":64}}],'
        '"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]}'
    )
    (folder / "request.lua").write_text(
        f"wrk.method = 'POST'\nwrk.path = '/v2/models/{MODEL}/infer'\n"
        f"wrk.headers['Inference-Header-Content-Length'] = '{len(header)}'\n"
        "wrk.headers['Content-Type'] = 'application/octet-stream'\n"
        f"wrk.body = '{header}' .. string.rep('\\0', {len(TENSOR)})\n"
    )
    tensor = _field(1, b"INPUT0") + _field(2, b"FP32") + _field(3, bytes([1, 16]))
    message = _field(1, MODEL.encode()) + _field(5, tensor) + _field(7, TENSOR)
    (folder / "message").write_bytes(struct.pack(">BI", 0, len(message)) + message)


def _field(tag, content):
    """A length-delimited protocol buffers field; contents here are shorter than 128 bytes."""
    return bytes([tag << 3 | 2, len(content)]) + content


def _command(programs, name, case, server, seconds):
    url = server.url(case.protocol)
    whole = str(max(1, round(seconds)))
    if name == "wrk":
        return ["wrk", "-t1", f"-c{case.outstanding}", f"-d{whole}s", "-s", str(server.files / "request.lua"), f"http://{url}"]
    if name == "h2load":
        path = f"http://{url}/inference.GRPCInferenceService/ModelInfer"
        headers = ["-H", "content-type: application/grpc", "-H", "te: trailers", "-d", str(server.files / "message")]
        return ["h2load", "-t1", "-c1", f"-m{case.outstanding}", f"--duration={whole}", *headers, path]
    command = [
        str(programs.paths[name]), "-m", MODEL, "-i", case.protocol, "-u", url, "--async",
        "--concurrency-range", str(case.outstanding), "-r", str(WINDOWS), "-s", ANY_STABILITY,
    ]  # fmt: skip
    return [*command, "-p", str(round(seconds * 1000 / WINDOWS))]


def _rate(name, output):
    """Requests a second that a program reports; None without a figure, or where a floor's requests were refused."""
    if name == "wrk":
        lines = [line.split(":")[1] for line in output.splitlines() if line.startswith("Requests/sec:")]
        return float(lines[0]) if lines and "Non-2xx" not in output else None
    if name == "h2load":
        words = [line.split() for line in output.splitlines() if line.startswith("finished in")]
        return float(words[0][3]) if words else None
    found = LEVEL_LINE.search(output)
    return float(found.group(1)) if found else None


def _served(server):
    """Requests that the server has answered so far."""
    with urllib.request.urlopen(f"http://{server.url('http')}/v2/models/{MODEL}/stats", timeout=10) as answer:
        return json.load(answer)["model_stats"][0]["inference_stats"]["success"]["count"]


def _measure(programs, case, name, server, arguments):
    command = _command(programs, name, case, server, arguments.seconds)
    few = None if name in FLOORS.values() else [*command, "--request-count", str(case.outstanding)]
    measure(case, name, command, few, arguments.seconds + arguments.grace, lambda: _served(server), lambda output: _rate(name, output))


def _row(case):
    floor, key = FLOORS[case.protocol], (case.protocol, case.outstanding)
    names = (floor, OURS, UPSTREAM)
    verdicts = [
        at_least(quotient(case.rates, floor), FLOOR_TARGET[case.protocol]),
        at_least(quotient(case.rates, UPSTREAM), UPSTREAM_TARGET.get(key)),
        at_most(quotient(case.costs, floor), FLOOR_CPU_TARGET.get(case.protocol)),
        at_most(quotient(case.costs, UPSTREAM), UPSTREAM_CPU_TARGET[case.protocol]),
    ]
    cells = [spread(case.rates.get(name)) for name in names] + [ratio(median(case.costs.get(name, []))) for name in names]
    return [case.title, *cells, *(text for text, _ in verdicts)], sum(missed for _, missed in verdicts)


def _beside_before(cases):
    """Our figures divided by those of an earlier build in the same rounds, as a table."""
    rows = [[case.title, ratio(quotient(case.rates, BEFORE)), ratio(quotient(case.costs, BEFORE))] for case in cases]
    return f"\n\nBeside the earlier build:\n\n{table(['load', 'rate', 'us'], rows)}"


def study(programs, arguments):
    """All cases, `--rounds` times."""
    cases = [Case(protocol=protocol, outstanding=outstanding) for protocol in FLOORS for outstanding in OUTSTANDING]
    with running_server(programs, programs.small_models) as server:
        _write_requests(server.files)
        for round_number in range(1, arguments.rounds + 1):
            log(f"round {round_number} of {arguments.rounds}")
            for case in cases:
                names = [FLOORS[case.protocol], OURS, *programs.others()]
                for name in names:
                    _measure(programs, case, name, server, arguments)
    header = ["load", *(f"{name}, requests/s" for name in ("floor", OURS, UPSTREAM)),
              *(f"{name}, us" for name in ("floor", OURS, UPSTREAM)),
              "rate to floor", "rate to upstream", "us to floor", "us to upstream"]  # fmt: skip
    rows = [_row(case) for case in cases]
    text = (
        "## Network\n\nNative identity model, FP32 [1, 16], one tritonserver on the same processors; the floor is wrk for HTTP"
        f" and h2load for gRPC. Medians (and extremes) of {arguments.rounds} interleaved rounds of {arguments.seconds:g} s;"
        f" us is the client's processor time per request.\n\n{table(header, [row for row, _ in rows])}"
    )
    if BEFORE in programs.paths:
        text += _beside_before(cases)
    return Report(text, sum(missed for _, missed in rows))
