"""Resident memory during a minute of 1 MiB inputs at full asynchronous rate: it must not grow with the number of requests."""

import subprocess
import time
from pathlib import Path

from .programs import ACCEPTED_STATUS, OURS, UPSTREAM, WINDOWS, Load, RunFailed, end, log, start
from .report import Report, table

OUTSTANDING = 4
GROWTH_TARGET_MIB = 64
LIMIT_MIB = 4096  # a program that gets here is ended: the machine belongs to others too
SAMPLE_SECONDS = 0.25
STARTUP_SECONDS = 1.0


def resident_mib(pid):
    """Resident memory of a process; None once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), None)


def _watch(process, seconds):
    """Samples (seconds since start, MiB) until the process ends, passes the limit, or overstays."""
    began, samples = time.monotonic(), []
    while process.poll() is None:
        passed, resident = time.monotonic() - began, resident_mib(process.pid)
        if resident is not None:
            samples.append((passed, resident))
        if passed > seconds or (resident or 0) > LIMIT_MIB:
            return samples, False
        time.sleep(SAMPLE_SECONDS)
    return samples, True


def _soak(programs, name, arguments):
    """(cells of a table row, whether the program ran to its end and kept its memory)."""
    command = programs.command(name, Load("async", OUTSTANDING), arguments.soak, large=True)
    log(f"memory: {name} for {arguments.soak:g} s")
    process = start(command, output=subprocess.DEVNULL)
    try:
        samples, finished = _watch(process, arguments.soak + arguments.grace)
    finally:
        end(process)
    if not samples or (name == OURS and finished and process.returncode not in ACCEPTED_STATUS):
        raise RunFailed(f"{name} ended with status {process.returncode} in the memory study; run: {' '.join(command)}")
    later = [mib for passed, mib in samples if passed >= arguments.soak / WINDOWS + STARTUP_SECONDS]
    peak = max((mib for _, mib in samples), default=0.0)
    growth = max(later) - later[0] if later else None
    how = "ran to its end" if finished else "ended by us, over the limit" if peak > LIMIT_MIB else "ended by us, too slow"
    row = [name, _mib(later[0] if later else None), _mib(peak), _mib(growth), f"{how} after {samples[-1][0]:.0f} s"]
    return row, finished and growth is not None and growth <= GROWTH_TARGET_MIB


def _mib(value):
    return "-" if value is None else f"{value:.0f}"


def study(programs, arguments):
    """One long run of each program."""
    rows, missed = [], False
    for name in (OURS, UPSTREAM):
        if name in programs.paths:
            row, kept = _soak(programs, name, arguments)
            rows.append(row)
            missed |= name == OURS and not kept
    header = ["program", "after first window, MiB", "peak, MiB", "growth, MiB", "end"]
    text = (
        f"## Resident memory\n\nIdentity of 1 MiB, {OUTSTANDING} outstanding, asynchronous, {arguments.soak:g} s."
        f" A program over {LIMIT_MIB} MiB is ended. Target: triton-bench grows by at most {GROWTH_TARGET_MIB} MiB after"
        f" its first window: {'missed' if missed else 'met'}.\n\n{table(header, rows)}"
    )
    return Report(text, int(missed))
