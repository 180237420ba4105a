"""Markdown tables and verdicts. Figures that are missing (None) say so in words."""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Report:
    """A study's text, and how many of its targets were missed."""

    text: str
    missed: int


def table(header, rows):
    """A Markdown table whose first column is text and whose others are figures."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def number(value):
    return "no result" if value is None else f"{value:,.0f}".replace(",", " ")


def spread(values):
    """Median and extremes of the values that are there; `values` is None for what was not asked for."""
    if values is None:
        return "-"
    present = sorted(value for value in values if value is not None)
    if not present:
        return "no result in time"
    return f"{number(statistics.median(present))} ({number(present[0])}–{number(present[-1])})"


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


def at_least(value, target):
    """(text, missed) for a ratio that should reach a target; no target, or nothing to compare with, misses nothing."""
    if target is None:
        return ratio(value), False
    if value is None:
        return f"- (≥ {target:g})", False
    return f"{value:.2f} (≥ {target:g}: {'met' if value >= target else 'missed'})", value < target


def at_most(value, target):
    """The same for a ratio that should not be above its target."""
    if target is None:
        return ratio(value), False
    if value is None:
        return f"- (≤ {target:g})", False
    return f"{value:.2f} (≤ {target:g}: {'met' if value <= target else 'missed'})", value > target
