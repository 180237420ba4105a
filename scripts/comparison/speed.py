"""Throughput on the native identity model, FP32 [1, 16]. Rounds are interleaved, so that what the machine does meanwhile
falls on all programs alike; ratios are taken within a round, and the table shows their medians."""

from dataclasses import dataclass, field

from .programs import BEFORE, FLOOR, OURS, UPSTREAM, Load, log, median, throughput
from .report import Report, at_least, number, ratio, spread, table

STARTUP_SECONDS = 5.0  # server start, running in and shutdown, generously
GIVE_UP_AFTER = 2  # runs without a result after which upstream is not asked again


@dataclass
class Case:
    title: str
    load: Load
    floor_target: float | None
    upstream_target: float | None
    rates: dict = field(default_factory=dict)  # program to one rate, or None, per round


def cases():
    return [
        Case("sync, 1 thread, one processor", Load("sync", 1, pinned=True), 0.95, 1.45),
        Case("sync, 1 thread, free", Load("sync", 1), 1.0, 1.0),
        Case("spin, 1 thread", Load("spin", 1), None, None),
        Case("spin, 1 thread, bare loop with a clock", Load("spin", 1, stamped=True), 0.9, None),
        Case("async, 1 outstanding", Load("async", 1), 0.85, None),
        Case("async, 4 outstanding", Load("async", 4), 0.85, None),
        Case("async, 16 outstanding", Load("async", 16), 0.85, None),
    ]


ASYNC_BEST_TARGET = 4.0  # our best asynchronous rate over upstream's best


def _names(programs, case):
    """Upstream has no spinning mode."""
    return [name for name in programs.paths if not (name == UPSTREAM and case.load.mode == "spin")]


def _measure(programs, case, name, arguments):
    rates = case.rates.setdefault(name, [])
    if name == UPSTREAM and len(rates) >= GIVE_UP_AFTER and median(rates) is None:
        return rates.append(None)
    command = programs.command(name, case.load, arguments.seconds)
    rates.append(throughput(name, command, arguments.seconds + STARTUP_SECONDS + arguments.grace))
    log(f"{case.title}: {name}: {number(rates[-1])} infer/sec")


def _ratio(case, base):
    """Median over the rounds of our rate divided by the other program's in the same round."""
    pairs = zip(case.rates.get(OURS, []), case.rates.get(base, []))
    return median([ours / other for ours, other in pairs if ours and other])


def _row(case):
    to_floor, floor_missed = at_least(_ratio(case, FLOOR), case.floor_target)
    to_upstream, upstream_missed = at_least(_ratio(case, UPSTREAM), case.upstream_target)
    rates = [spread(case.rates.get(name)) for name in (FLOOR, OURS, UPSTREAM)]
    ours_missing = median(case.rates[OURS]) is None
    return [case.title, *rates, to_floor, to_upstream], floor_missed + upstream_missed + ours_missing


def _best_async(measured):
    """The verdict on the best asynchronous rates, whichever number outstanding they come from."""
    best = {}
    for name in (OURS, UPSTREAM):
        rates = [median(case.rates.get(name, [])) for case in measured if case.load.mode == "async"]
        best[name] = max((rate for rate in rates if rate is not None), default=None)
    quotient = best[OURS] / best[UPSTREAM] if best[OURS] and best[UPSTREAM] else None
    text, missed = at_least(quotient, ASYNC_BEST_TARGET)
    return f"Best asynchronous rate over upstream's best: {text}", missed


def study(programs, arguments):
    """All cases, `--rounds` times."""
    measured = cases()
    for round_number in range(1, arguments.rounds + 1):
        log(f"round {round_number} of {arguments.rounds}")
        for case in measured:
            for name in _names(programs, case):
                _measure(programs, case, name, arguments)
    header = ["load", *(f"{name}, infer/s" for name in (FLOOR, OURS, UPSTREAM)), "to bare loop", "to upstream"]
    rows = [_row(case) for case in measured]
    best, best_missed = _best_async(measured)
    if BEFORE in programs.paths:
        header.append("to the earlier build")
        rows = [([*row, ratio(_ratio(case, BEFORE))], missed) for case, (row, missed) in zip(measured, rows)]
    text = (
        f"## Throughput\n\nNative identity model, FP32 [1, 16]; medians (and extremes) of {arguments.rounds} interleaved"
        f" rounds of {arguments.seconds:g} s.\n\n{table(header, [row for row, _ in rows])}\n\n{best}"
    )
    return Report(text, sum(missed for _, missed in rows) + best_missed)
