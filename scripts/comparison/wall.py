"""Wall time of a level. A run of four levels minus a run of one, divided by three, is what a level costs without the
server's start and end; the sum of its windows is what it had to cost."""

from .programs import ACCEPTED_STATUS, OURS, UPSTREAM, WINDOWS, Load, RunFailed, log, run
from .report import Report, table

WINDOW_SECONDS = 1.0
MORE_LEVELS = 3
OVERHEAD_TARGET_PERCENT = 5.0
STARTUP_SECONDS = 5.0
LOADS = [("sync, 1", "sync", 1), ("async, 1", "async", 1), ("async, 4", "async", 4), ("async, 16", "async", 16)]


def _seconds(programs, name, load, levels, grace):
    """Wall time of a whole run; None where a level took `grace` seconds more than its windows, or a failure
    (upstream's only)."""
    measured = WINDOWS * WINDOW_SECONDS
    command = programs.command(name, load, measured)
    result = run(command, levels * (measured + grace) + STARTUP_SECONDS)
    if result is None:
        return None
    status, _, _, seconds = result
    if status in ACCEPTED_STATUS:
        return seconds
    message = f"{name} ended with status {status} in the wall-time study; to see it, run: {' '.join(command)}"
    if name == OURS:
        raise RunFailed(message)
    log(message)
    return None


def _overhead_percent(programs, name, mode, outstanding, grace):
    """How much longer than its windows a level takes; None where a run had no end."""
    one = _seconds(programs, name, Load(mode, outstanding), 1, grace)
    if one is None:
        return None
    many = _seconds(programs, name, Load(mode, outstanding, last=outstanding + MORE_LEVELS), 1 + MORE_LEVELS, grace)
    if many is None:
        return None
    return ((many - one) / MORE_LEVELS / (WINDOWS * WINDOW_SECONDS) - 1.0) * 100.0


def study(programs, arguments):
    """Two runs of each program under each load."""
    names = [name for name in (OURS, UPSTREAM) if name in programs.paths]
    rows, missed = [], 0
    for title, mode, outstanding in LOADS:
        row = [f"{title} outstanding"]
        for name in names:
            log(f"wall time: {title}: {name}")
            percent = _overhead_percent(programs, name, mode, outstanding, arguments.grace)
            row.append("no end in time" if percent is None else f"{percent:.1f} %")
            missed += name == OURS and (percent is None or percent > OVERHEAD_TARGET_PERCENT)
        rows.append(row)
    text = (
        f"## Wall time of a level\n\nTime over the sum of {WINDOWS} windows of {WINDOW_SECONDS:g} s; target for"
        f" {OURS}: at most {OVERHEAD_TARGET_PERCENT:g} %.\n\n{table(['load', *names], rows)}"
    )
    return Report(text, missed)
