"""Results in MLflow."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from . import _frames

if TYPE_CHECKING:
    from ._result import Result

#: What MLflow does not take in a metric's name.
_OTHER = re.compile(r"[^\w./ :-]")
#: MLflow takes this many parameters at once, and values of this length.
_AT_ONCE, _LONGEST = 100, 500
#: A metric's name has no more than 250 characters, of which a figure's take some.
_LONGEST_PREFIX = 200


def log(result: Result, mlflow: Any) -> None:
    """Adds a result to MLflow's active run."""
    given = [(flag["name"].lstrip("-"), _shown(flag["values"])) for flag in result.raw["flags"] if flag["given"]]
    for first in range(0, len(given), _AT_ONCE):
        mlflow.log_params(dict(given[first : first + _AT_ONCE]))
    for step, metrics in _steps(result):
        mlflow.log_metrics(metrics, step=step)
    mlflow.set_tag("exit_code", str(result.exit_code))
    if result.answer is not None:
        mlflow.set_tag("answer", result.answer.words)
    mlflow.log_dict(dict(result.raw), "triton-bench.json")
    if result.report:
        mlflow.log_text(result.report, "triton-bench.txt")


def _shown(values: list[str]) -> str:
    return " ".join(values)[:_LONGEST] if values else "true"


def _steps(result: Result) -> Iterator[tuple[int, dict[str, float]]]:
    """The metrics of each level or batch, its number the step; of variants those of each at each level and size."""
    if result.raw.get("variants"):
        variants = [variant["name"] for variant in result.raw["variants"]["variants"]]
        prefixes = _distinct([_prefix(name) for name in variants])
        for number, row in enumerate(_frames.rows(result, "cells")):
            step, variant = divmod(number, len(variants))
            yield step, {f"{prefixes[variant]}/{key}": value for key, value in _metrics(row)}
    else:
        for step, row in enumerate(_frames.rows(result, None)):
            yield step, dict(_metrics(row))


def _prefix(name: str) -> str:
    """What MLflow takes of a variant's name before a ``/``."""
    return _OTHER.sub("_", name).replace("/", "_")[:_LONGEST_PREFIX].strip(". ") or "variant"


def _distinct(names: list[str]) -> list[str]:
    """The names, of which those that were there before bear a number."""
    taken: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in taken:
            number += 1
            candidate = f"{name}_{number}"
        taken.append(candidate)
    return taken


def _metrics(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in row.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            yield _OTHER.sub("_", key), float(value)
