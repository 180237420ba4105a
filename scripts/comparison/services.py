"""Rate and the client's processor time per request over TorchServe, OpenAI's chat completions (without streaming) and TensorFlow Serving,
beside the program's own figures over KServe with about the same bytes, and beside perf_analyzer. All clients meet the same server
(examples/answers.rs), which computes nothing, in rounds that take turns. perf_analyzer knows asynchronous calls to OpenAI's services only: to
the others it has a thread for each request that is outstanding."""

import json
import os
import subprocess
import tempfile
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .costs import Costs, measure, quotient
from .programs import ANY_STABILITY, LEVEL_LINE, OURS, UPSTREAM, WINDOWS, RunFailed, end, log, median, start
from .report import Report, at_least, at_most, ratio, spread, table

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
OUTSTANDING = (1, 4, 16)
KSERVE = "KServe"
# Most processor time beside our own over KServe; least rate and most processor time beside upstream.
KSERVE_CPU_TARGET = {"torchserve": 1.3, "openai": 1.3, "tfserving": 1.2}
RATE_TARGET, CPU_TARGET = 2.0, 0.3
CHAT = {"model": "m", "messages": [{"role": "user", "content": "How many fingers has a hand?"}], "max_tokens": 16}
# As many bytes as a tensor FP32 [1, 16] and the head of its message.
FILE_BYTES = 64


@dataclass(kw_only=True)
class Case(Costs):
    service: str
    outstanding: int

    @property
    def title(self):
        return f"{self.service}, {self.outstanding} outstanding"


@dataclass(frozen=True)
class Server:
    http: int
    grpc: int
    folder: Path

    def served(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/count", timeout=10) as answer:
            return int(answer.read())


@contextmanager
def _running():
    build = ["cargo", "build", "--release", "--locked", "-p", "triton-bench", "--example", "answers"]
    subprocess.run(build, cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "file").write_bytes(bytes(FILE_BYTES))
        (folder / "torchserve.json").write_text(json.dumps({"data": [{"TORCHSERVE_INPUT": [str(folder / "file")]}]}))
        (folder / "openai.json").write_text(json.dumps({"data": [{"payload": [CHAT]}]}))
        process = start([str(TARGET / "release/examples/answers")])
        try:
            ports = process.stdout.readline().split()
            if len(ports) != 2:
                raise RunFailed("the server of the services study did not start")
            yield Server(int(ports[0]), int(ports[1]), folder)
        finally:
            end(process)


def _command(programs, name, case, server, seconds):
    program = programs.paths[UPSTREAM if name == UPSTREAM else OURS]
    grpc = case.service == "tfserving"
    url = f"127.0.0.1:{server.grpc if grpc else server.http}"
    command = [
        str(program), "-m", "m", "-u", url, "--concurrency-range", str(case.outstanding),
        "-r", str(WINDOWS), "-s", ANY_STABILITY, "-p", str(round(seconds * 1000 / WINDOWS)),
    ]  # fmt: skip
    if name != UPSTREAM or case.service == "openai":
        command.append("--async")
    if grpc:
        command += ["-i", "grpc"]
    if name == KSERVE:
        return command
    command += ["--service-kind", case.service]
    if grpc:
        return [*command, "-b", "1"]
    if case.service == "openai":
        command += ["--endpoint", "v1/chat/completions"]
    return [*command, "--input-data", str(server.folder / f"{case.service}.json")]


def _rate(output):
    found = LEVEL_LINE.search(output)
    return float(found.group(1)) if found else None


def _measure(programs, case, name, server, arguments):
    command = _command(programs, name, case, server, arguments.seconds)
    few = [*command, "--request-count", str(case.outstanding)]
    measure(case, name, command, few, arguments.seconds + arguments.grace, server.served, _rate)


def _row(case):
    names = (KSERVE, OURS, UPSTREAM)
    verdicts = [
        at_most(quotient(case.costs, KSERVE), KSERVE_CPU_TARGET[case.service]),
        at_least(quotient(case.rates, UPSTREAM), RATE_TARGET),
        at_most(quotient(case.costs, UPSTREAM), CPU_TARGET),
    ]
    cells = [spread(case.rates.get(name)) for name in names] + [ratio(median(case.costs.get(name, []))) for name in names]
    return [case.title, *cells, *(text for text, _ in verdicts)], sum(missed for _, missed in verdicts)


def study(programs, arguments):
    """All cases, `--rounds` times."""
    cases = [Case(service=service, outstanding=outstanding) for service in KSERVE_CPU_TARGET for outstanding in OUTSTANDING]
    with _running() as server:
        for round_number in range(1, arguments.rounds + 1):
            log(f"round {round_number} of {arguments.rounds}")
            for case in cases:
                for name in (KSERVE, OURS, *([UPSTREAM] if UPSTREAM in programs.paths else [])):
                    _measure(programs, case, name, server, arguments)
    header = ["load", *(f"{name}, requests/s" for name in ("ours over KServe", OURS, UPSTREAM)),
              *(f"{name}, us" for name in ("ours over KServe", OURS, UPSTREAM)),
              "us to KServe", "rate to upstream", "us to upstream"]  # fmt: skip
    rows = [_row(case) for case in cases]
    text = (
        "## Other services\n\nFP32 [1, 16] over TensorFlow Serving's gRPC, a file of as many bytes over TorchServe, a short chat over OpenAI's, beside the same tensor over"
        f" KServe's gRPC and HTTP; one server that computes nothing, on the same processors. Medians (and extremes) of {arguments.rounds}"
        f" interleaved rounds of {arguments.seconds:g} s; us is the client's processor time per request.\n\n"
        f"{table(header, [row for row, _ in rows])}"
    )
    return Report(text, sum(missed for _, missed in rows))
