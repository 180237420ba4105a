"""What a client over the network costs: its rate, and its processor time per request that the server answered."""

import resource
from dataclasses import dataclass, field

from .programs import OURS, log, median, run
from .report import number, ratio


@dataclass
class Costs:
    """The figures of one load: of each program, one per round, None where a run gave none."""

    rates: dict = field(default_factory=dict)
    costs: dict = field(default_factory=dict)  # microseconds of processor time per request


def _children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _observe(command, limit, served):
    """(standard output, requests that the server answered, processor seconds) of a run; `served` counts what it has answered so far."""
    before, answered = _children_seconds(), served()
    result = run(command, limit)
    if result is None:
        return "", 0, 0.0
    status, output, complaint, _ = result
    if status not in (0, 2):
        log(f"status {status}: {(complaint.strip().splitlines() or ['it said nothing'])[-1]}; run: {' '.join(command)}")
        return "", 0, 0.0
    return output, served() - answered, _children_seconds() - before


def measure(case, name, command, few, limit, served, rate_of):
    """One run. Starting and ending is left out of the cost: `few`, a run of few requests, says what that takes (None: nothing).
    `rate_of` reads the rate from the output."""
    few_requests, few_cpu = 0, 0.0
    if few:
        _, few_requests, few_cpu = _observe(few, limit, served)
    output, requests, cpu = _observe(command, limit, served)
    rate = rate_of(output)
    cost = (cpu - few_cpu) / (requests - few_requests) * 1e6 if requests > few_requests and cpu > few_cpu else None
    case.rates.setdefault(name, []).append(rate)
    case.costs.setdefault(name, []).append(cost)
    log(f"{case.title}: {name}: {number(rate)} requests/s, {ratio(cost)} us of processor time each")


def quotient(figures, other):
    """Median over the rounds of our figure divided by the other's in the same round."""
    pairs = zip(figures.get(OURS, []), figures.get(other, []))
    return median([ours / theirs for ours, theirs in pairs if ours and theirs])
