"""The programs under comparison: how each is asked for the same load, run within a time limit, and read."""

import os
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

OURS, UPSTREAM, FLOOR = "triton-bench", "perf_analyzer", "bare loop"
BEFORE = "earlier build"  # of triton-bench, with --before
WINDOWS = 3  # both measuring programs need three windows for a verdict on stability
# Allows windows to differ by this many percent, which ends every level after WINDOWS windows.
ANY_STABILITY = "999"
# Both programs end with 2 where a level did not settle; its figures are there nevertheless, or the parser complains.
ACCEPTED_STATUS = (0, 2)
NUMBER = r"([0-9.]+(?:e[+-]?[0-9]+)?)"
LEVEL_LINE = re.compile(rf"^Concurrency: \d+, throughput: {NUMBER} infer/sec", re.MULTILINE)
FLOOR_LINE = re.compile(rf"^\w+ \d+: {NUMBER} infer/sec", re.MULTILINE)


class RunFailed(Exception):
    """A program that the comparison cannot do without failed; the message says which, how, and what to do."""


@dataclass(frozen=True)
class Load:
    """What the server has to bear: `outstanding` requests at a time, waited for in one of the three modes."""

    mode: str  # sync, spin, async
    outstanding: int
    pinned: bool = False  # everything, the server included, on processor 0
    stamped: bool = False  # the bare loop reads the clock once for each response
    last: int = 0  # where above `outstanding`: further levels, one request apart, up to this one


@dataclass(frozen=True)
class Programs:
    """Where the programs, the server and the two model repositories are."""

    server: Path
    small_models: Path
    large_models: Path
    paths: dict  # name of the program to its path

    def command(self, name, load, seconds, large=False):
        """The words that start program `name` under `load` for `seconds` of measurement."""
        build = _floor_command if name == FLOOR else _analyzer_command
        pin = ["taskset", "-c", "0"] if load.pinned and name not in (OURS, BEFORE) else []
        return pin + build(self, name, load, seconds, large)

    def others(self):
        """Those beside ours and the floor that were asked for."""
        return [name for name in (UPSTREAM, BEFORE) if name in self.paths]


def _analyzer_command(programs, name, load, seconds, large):
    command = [
        str(programs.paths[name]),
        "-m", "identity_fp32_1mib" if large else "identity_fp32",
        "--service-kind", "triton_c_api",
        "--triton-server-directory", str(programs.server),
        "--model-repository", str(programs.large_models if large else programs.small_models),
        "--concurrency-range", f"{load.outstanding}:{max(load.last, load.outstanding)}",
        "-p", str(round(seconds * 1000 / WINDOWS)),
        "-r", str(WINDOWS),
        "-s", ANY_STABILITY,
    ]  # fmt: skip
    if load.mode == "async":
        command.append("--async")
    if name in (OURS, BEFORE) and load.mode == "spin":
        command += ["--wait", "spin"]
    if name in (OURS, BEFORE) and load.pinned:
        command += ["--cpus", "0"]
    return command


def _floor_command(programs, name, load, seconds, _large):
    stamp = ["--stamp"] if load.stamped else []
    return [
        str(programs.paths[name]),
        "--server", str(programs.server),
        "--repository", str(programs.small_models),
        "--model", "identity_fp32",
        "--mode", "chain" if load.mode == "async" else load.mode,
        "--outstanding", str(load.outstanding),
        "--seconds", str(seconds),
        *stamp,
    ]  # fmt: skip


def log(message):
    print(f"compare-upstream: {message}", file=sys.stderr, flush=True)


def start(command, output=subprocess.PIPE):
    """Starts a program in a process group of its own, so that ending it ends all that it started."""
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True, start_new_session=True
    )


def end(process):
    """Ends the program and its process group, and collects it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate()


def run(command, limit):
    """Runs to the end. Returns (status, standard output, standard error, seconds), or None after `limit` seconds."""
    began = time.monotonic()
    process = start(command)
    try:
        output, complaint = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end(process)
        return None
    except BaseException:
        end(process)
        raise
    return process.returncode, output, complaint, time.monotonic() - began


def throughput(name, command, limit):
    """Inferences per second of one run; None where the program exceeded `limit` seconds, or failed (upstream only)."""
    result = run(command, limit)
    if result is None:
        return None
    status, output, complaint, _ = result
    found = (FLOOR_LINE if name == FLOOR else LEVEL_LINE).search(output)
    if found and status in ACCEPTED_STATUS:
        return float(found.group(1))
    reason = (complaint.strip().splitlines() or output.strip().splitlines() or ["it said nothing"])[-1]
    message = f"{name} ended with status {status}: {reason}; to see it, run: {' '.join(command)}"
    if name != UPSTREAM:
        raise RunFailed(message)
    log(message)
    return None


def median(values):
    """Median of the values that are there; None without any."""
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None
