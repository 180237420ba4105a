"""Large tensors over HTTP: bytes moved through one tritonserver, beside a plain copy of the same bytes through its sockets."""

import sys
import tempfile
from pathlib import Path

from .models import Models
from .programs import ANY_STABILITY, LEVEL_LINE, OURS, UPSTREAM, WINDOWS, RunFailed, log, median, run
from .report import Report, at_least, spread, table
from .triton import running_server

MEBIBYTES = 4
COPY = "socket copy"
COPY_TARGET = 0.9
OUTSTANDING = (1, 4)
SOCKET_COPY = Path(__file__).with_name("socket_copy.py")


def _command(programs, name, model, url, outstanding, seconds):
    if name == COPY:
        return [sys.executable, str(SOCKET_COPY), url, model, str(MEBIBYTES << 20), str(outstanding), str(seconds)]
    return [
        str(programs.paths[name]), "-m", model, "-u", url, "--sync", "--concurrency-range", str(outstanding),
        "-p", str(round(seconds * 1000 / WINDOWS)), "-r", str(WINDOWS), "-s", ANY_STABILITY,
    ]  # fmt: skip


def _rate(name, command, limit):
    """MiB a second, one way; None where perf_analyzer has no result."""
    result = run(command, limit)
    output = result[1] if result else ""
    found = output.strip() if name == COPY else (match.group(1) if (match := LEVEL_LINE.search(output)) else "")
    if found:
        return float(found) * MEBIBYTES
    if name == UPSTREAM:
        return None
    raise RunFailed(f"{name} has no result; to see why, run: {' '.join(command)}")


def study(programs, arguments):
    """Both numbers of connections, `--rounds` times."""
    names = [COPY, OURS, *([UPSTREAM] if UPSTREAM in programs.paths else [])]
    rates = {outstanding: {name: [] for name in names} for outstanding in OUTSTANDING}
    limit = arguments.seconds + arguments.grace
    with tempfile.TemporaryDirectory(dir=programs.small_models.parent) as folder:
        models = Models(Path(folder) / "models", programs.paths[OURS].parent / "libtriton_bench.so")
        model = models.add("identity_4mib", (MEBIBYTES << 20) // 4)
        with running_server(programs, models.path) as server:
            for round_number in range(1, arguments.rounds + 1):
                log(f"large tensors, round {round_number} of {arguments.rounds}")
                for outstanding in OUTSTANDING:
                    for name in names:
                        command = _command(programs, name, model, server.url("http"), outstanding, arguments.seconds)
                        rates[outstanding][name].append(_rate(name, command, limit))
    rows, missed = [], 0
    for outstanding, values in rates.items():
        quotient = median([ours / copied for copied, ours in zip(values[COPY], values[OURS])])
        text, miss = at_least(quotient, COPY_TARGET)
        rows.append([f"{outstanding} connection{'s' if outstanding > 1 else ''}",
                     *(spread(values.get(name)) for name in (COPY, OURS, UPSTREAM)), text])  # fmt: skip
        missed += miss
    header = ["HTTP, 4 MiB in and out", *(f"{name}, MiB/s" for name in (COPY, OURS, UPSTREAM)), "ratio to the copy"]
    return Report(f"## Large tensors over HTTP\n\n{table(header, rows)}", missed)
