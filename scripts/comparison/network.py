"""Throughput and the client's processor time per request over HTTP and gRPC, on the native identity model FP32 [1, 16], beside
perf_analyzer and the protocol's floor: wrk for HTTP, h2load for gRPC, which send one ready-made request over and over.
All clients meet the same tritonserver on this machine, in rounds that take turns."""

import json
import resource
import struct
import urllib.request
from dataclasses import dataclass, field

from .programs import ANY_STABILITY, LEVEL_LINE, OURS, UPSTREAM, WINDOWS, log, median, run
from .report import Report, at_least, number, ratio, spread, table
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


@dataclass
class Case:
    protocol: str
    outstanding: int
    rates: dict = field(default_factory=dict)  # program to a rate per round
    costs: dict = field(default_factory=dict)  # program to microseconds of processor time per request, per round

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


def _children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _served(server):
    """Requests that the server has answered so far."""
    with urllib.request.urlopen(f"http://{server.url('http')}/v2/models/{MODEL}/stats", timeout=10) as answer:
        return json.load(answer)["model_stats"][0]["inference_stats"]["success"]["count"]


def _observe(command, limit, server):
    """(standard output, requests that the server answered, processor seconds) of a run."""
    before, answered = _children_seconds(), _served(server)
    result = run(command, limit)
    if result is None:
        return "", 0, 0.0
    status, output, complaint, _ = result
    if status not in (0, 2):
        log(f"status {status}: {(complaint.strip().splitlines() or ['it said nothing'])[-1]}; run: {' '.join(command)}")
        return "", 0, 0.0
    return output, _served(server) - answered, _children_seconds() - before


def _measure(programs, case, name, server, arguments):
    """One run. Starting and ending is left out of the cost: a run of few requests says what that takes."""
    limit = arguments.seconds + arguments.grace
    few_requests, few_cpu = 0, 0.0
    if name in (OURS, UPSTREAM):
        few = _command(programs, name, case, server, arguments.seconds)
        _, few_requests, few_cpu = _observe([*few, "--request-count", str(case.outstanding)], limit, server)
    output, requests, cpu = _observe(_command(programs, name, case, server, arguments.seconds), limit, server)
    rate = _rate(name, output)
    cost = (cpu - few_cpu) / (requests - few_requests) * 1e6 if requests > few_requests and cpu > few_cpu else None
    case.rates.setdefault(name, []).append(rate)
    case.costs.setdefault(name, []).append(cost)
    log(f"{case.title}: {name}: {number(rate)} requests/s, {ratio(cost)} us of processor time each")


def _quotient(figures, other):
    """Median over the rounds of our figure divided by the other's in the same round."""
    pairs = zip(figures.get(OURS, []), figures.get(other, []))
    return median([ours / theirs for ours, theirs in pairs if ours and theirs])


def _at_most(value, target):
    if target is None:
        return ratio(value), False
    if value is None:
        return f"- (≤ {target:g})", False
    return f"{value:.2f} (≤ {target:g}: {'met' if value <= target else 'missed'})", value > target


def _row(case):
    floor, key = FLOORS[case.protocol], (case.protocol, case.outstanding)
    names = (floor, OURS, UPSTREAM)
    verdicts = [
        at_least(_quotient(case.rates, floor), FLOOR_TARGET[case.protocol]),
        at_least(_quotient(case.rates, UPSTREAM), UPSTREAM_TARGET.get(key)),
        _at_most(_quotient(case.costs, floor), FLOOR_CPU_TARGET.get(case.protocol)),
        _at_most(_quotient(case.costs, UPSTREAM), UPSTREAM_CPU_TARGET[case.protocol]),
    ]
    cells = [spread(case.rates.get(name)) for name in names] + [ratio(median(case.costs.get(name, []))) for name in names]
    return [case.title, *cells, *(text for text, _ in verdicts)], sum(missed for _, missed in verdicts)


def study(programs, arguments):
    """All cases, `--rounds` times."""
    cases = [Case(protocol, outstanding) for protocol in FLOORS for outstanding in OUTSTANDING]
    with running_server(programs, programs.small_models) as server:
        _write_requests(server.files)
        for round_number in range(1, arguments.rounds + 1):
            log(f"round {round_number} of {arguments.rounds}")
            for case in cases:
                names = [FLOORS[case.protocol], OURS, *([UPSTREAM] if UPSTREAM in programs.paths else [])]
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
    return Report(text, sum(missed for _, missed in rows))
