"""What input data cost: bytes moved, processor time by size and by number of steps, memory and time of the start.

Rates are held against the bare loop in the same round. Processor time is that of the whole process, server included: two
runs that differ only in their number of requests, so that start and end cancel out. It is less at the mercy of what else
runs on the machine than time is."""

import json
import os
import random
import re
import subprocess
import tempfile
import time
from pathlib import Path

from .models import Models
from .programs import (
    ACCEPTED_STATUS,
    ANY_STABILITY,
    FLOOR,
    NUMBER,
    OURS,
    WINDOWS,
    RunFailed,
    log,
    median,
    run,
    throughput,
)
from .report import Report, at_least, number, spread, table

MIB = 1 << 20
BANDWIDTH_TARGET = 0.9
SIZE_TARGET = 1.1
STEPS = 1000
STEPS_TARGET = 1.1
MEMORY_TARGET = 1.2
JSON_TARGET_MB_PER_SECOND = 100.0
STARTUP_SECONDS = 10.0
FLOOR_COST = re.compile(rf"{NUMBER} usec/infer")

LEAVE_OUTPUTS = 'parameters { key: "leave_outputs" value { string_value: "true" } }\n'


def _ours(programs, models, model, *flags):
    return [
        str(programs.paths[OURS]),
        "-m", model,
        "--service-kind", "triton_c_api",
        "--triton-server-directory", str(programs.server),
        "--model-repository", str(models.path),
        "-s", ANY_STABILITY,
        *map(str, flags),
    ]  # fmt: skip


def _floor(programs, models, model, *flags):
    return [
        str(programs.paths[FLOOR]),
        "--server", str(programs.server),
        "--repository", str(models.path),
        "--model", model,
        "--mode", "chain",
        *map(str, flags),
    ]  # fmt: skip


def _resources(command):
    """(processor seconds, peak of resident memory in bytes) of a whole run."""
    with tempfile.TemporaryFile() as complaint:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaint, start_new_session=True
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in ACCEPTED_STATUS:
            complaint.seek(0)
            said = complaint.read().decode(errors="replace").strip()
            raise RunFailed(f"status {process.returncode}: {said}; to see it, run: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def _cpu_us(command, few, many):
    """Processor time per request in microseconds."""
    few_seconds, _ = _resources([*command, "--request-count", str(few)])
    many_seconds, _ = _resources([*command, "--request-count", str(many)])
    return (many_seconds - few_seconds) / (many - few) * 1e6


def _floor_cpu_us(command, limit):
    """What the bare loop says of its processor time per request, in microseconds."""
    result = run(command, limit)
    found = FLOOR_COST.search(result[1]) if result else None
    if not found:
        raise RunFailed(f"{FLOOR} said nothing of its cost; to see it, run: {' '.join(command)}")
    return float(found.group(1))


def _pairs(rounds, first, second):
    """Both measures, once in each round, in turns; their values, and the median of second / first within a round."""
    values = ([], [])
    for round_number in range(rounds):
        for index in (0, 1) if round_number % 2 == 0 else (1, 0):
            values[index].append((first, second)[index]())
    return values, median([b / a for a, b in zip(*values) if a and b])


def _at_most(value, target):
    """As report.at_least, for a ratio that should not exceed its target."""
    if value is None:
        return f"- (≤ {target:g})", True
    return f"{value:.2f} (≤ {target:g}: {'met' if value <= target else 'missed'})", value > target


def _bandwidth(programs, models, arguments):
    rows, missed = [], 0
    for mebibytes in (1, 16):
        elements = mebibytes * MIB // 4
        model = models.add(f"identity_{mebibytes}mib", elements)
        limit = arguments.seconds + STARTUP_SECONDS + arguments.grace
        window = round(arguments.seconds * 1000 / WINDOWS)
        floor = _floor(programs, models, model, "--outstanding", 4, "--elements", elements, "--seconds", arguments.seconds)
        ours = _ours(programs, models, model, "--async", "--concurrency-range", 4, "-p", window, "-r", WINDOWS)
        log(f"bytes moved, {mebibytes} MiB")
        (bare, mine), quotient = _pairs(
            arguments.rounds, lambda: throughput(FLOOR, floor, limit), lambda: throughput(OURS, ours, limit)
        )
        text, miss = at_least(quotient, BANDWIDTH_TARGET)
        rates = [spread([value and value * mebibytes for value in values]) for values in (bare, mine)]
        rows.append([f"{mebibytes} MiB in and out", *rates, text])
        missed += miss
    return table(["identity, 4 outstanding", "bare loop, MiB/s", "triton-bench, MiB/s", "ratio"], rows), missed


def _sizes(programs, models, arguments):
    """64 B and 16 MiB that nobody touches: what is left is the price of the request."""
    names = [models.add("left_64b", 16, LEAVE_OUTPUTS), models.add("left_16mib", 4 * MIB, LEAVE_OUTPUTS)]
    rows, missed = [], 0
    for title, flags in (("pageable", ()), ("system shared memory", ("--shared-memory", "system"))):
        commands = [
            _ours(programs, models, name, "--async", "--concurrency-range", 4, "--input-data", "zero", *flags) for name in names
        ]
        log(f"processor time by size, {title}")
        (small, large), quotient = _pairs(
            arguments.rounds, *(lambda command=command: _cpu_us(command, 10_000, 300_000) for command in commands)
        )
        text, miss = _at_most(quotient, SIZE_TARGET)
        rows.append([title, f"{median(small):.2f}", f"{median(large):.2f}", text])
        missed += miss
    return table(["tensors that are not touched", "64 B, us", "16 MiB, us", "ratio"], rows), missed


def _write_steps(path, steps):
    values = random.Random(1)
    data = [{"INPUT0": [round(values.random(), 6) for _ in range(16)]} for _ in range(steps)]
    path.write_text(json.dumps({"data": data}))


def _steps(programs, models, arguments):
    model = models.add("identity_64b", 16)
    rows, missed = [], 0
    files = {}
    for steps in (1, STEPS):
        files[steps] = models.path.parent / f"{steps}.json"
        _write_steps(files[steps], steps)
    for outstanding in (1, 4, 32):
        commands = [
            _ours(programs, models, model, "--async", "--concurrency-range", outstanding, "--input-data", file)
            for file in files.values()
        ]
        log(f"processor time by steps, {outstanding} outstanding")
        (one, many), quotient = _pairs(
            arguments.rounds, *(lambda command=command: _cpu_us(command, 10_000, 300_000) for command in commands)
        )
        loops = [
            _floor(programs, models, model, "--outstanding", outstanding, "--steps", steps, "--seconds", arguments.seconds)
            for steps in files
        ]
        limit = arguments.seconds + STARTUP_SECONDS + arguments.grace
        _, bare = _pairs(arguments.rounds, *(lambda command=command: _floor_cpu_us(command, limit) for command in loops))
        text, miss = _at_most(quotient, STEPS_TARGET)
        rows.append([f"{outstanding} outstanding", f"{median(one):.2f}", f"{median(many):.2f}", text, f"{bare:.2f}"])
        missed += miss
    return table(["JSON input", "1 step, us", f"{STEPS} steps, us", "ratio", "the bare loop's"], rows), missed


def _start(programs, models):
    """Memory and time of the start with a gibibyte of data, of which nothing is touched later."""
    flags = ("--request-count", 1, "--concurrency-range", 1)
    small = models.add("start_small", 16, LEAVE_OUTPUTS)
    large = models.add("start_large", 256 * MIB, LEAVE_OUTPUTS)
    base_cpu, base = _resources(_ours(programs, models, small, "--input-data", "zero", *flags))
    raw = models.path.parent / "raw"
    raw.mkdir()
    with (raw / "INPUT0").open("wb") as file:
        for _ in range(1024):
            file.write(random.Random(1).randbytes(MIB))
    gib = 1 << 30
    rows, missed = [], 0
    for title, source in (("random", "random"), ("raw file", raw)):
        log(f"start with 1 GiB, {title}")
        began = time.monotonic()
        _, peak = _resources(_ours(programs, models, large, "--input-data", source, *flags))
        # The output is as large as the input, and is allocated once for the only slot.
        text, miss = _at_most((peak - base - gib) / gib, MEMORY_TARGET)
        rows.append([f"1 GiB, {title}", f"{time.monotonic() - began:.1f}", text])
        missed += miss
    text = models.path.parent / "large.json"
    model = models.add("start_json", 1000, LEAVE_OUTPUTS)
    values = random.Random(1)
    with text.open("w") as file:
        file.write('{"data": [')
        while file.tell() < 100_000_000:
            step = [round(values.random() * 1000, 5) for _ in range(1000)]
            file.write(("" if file.tell() < 20 else ",\n") + json.dumps({"INPUT0": step}))
        file.write("]}")
    log("start with 100 MB of JSON")
    cpu, _ = _resources(_ours(programs, models, model, "--input-data", text, *flags))
    rate = text.stat().st_size / 1e6 / (cpu - base_cpu)
    met = rate >= JSON_TARGET_MB_PER_SECOND
    verdict = f"{number(rate)} MB a second of processor time (≥ {JSON_TARGET_MB_PER_SECOND:g}: {'met' if met else 'missed'})"
    start = table(["start", "seconds in all", "peak memory / data"], rows)
    return f"{start}\n\n100 MB of JSON: {verdict}.", missed + (not met)


def study(programs, arguments):
    """All of them."""
    library = programs.paths[OURS].parent / "libtriton_bench.so"
    with tempfile.TemporaryDirectory(dir=programs.small_models.parent) as folder:
        models = Models(Path(folder) / "models", library)
        parts = [measure(programs, models, arguments) for measure in (_bandwidth, _sizes, _steps)]
        parts.append(_start(programs, models))
    text = "\n\n".join(part for part, _ in parts)
    return Report(f"## Input data\n\n{text}", sum(missed for _, missed in parts))
