"""Results in MLflow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from . import _frames

if TYPE_CHECKING:
    from ._result import Level, Result

#: What MLflow does not take in a metric's name.
_OTHER = re.compile(r"[^\w./ :-]")
#: MLflow takes this many parameters at once, and values of this length.
_AT_ONCE, _LONGEST = 100, 500


def log(result: Result, mlflow: Any) -> None:
    """Adds a result to MLflow's active run."""
    given = [(flag["name"].lstrip("-"), _shown(flag["values"])) for flag in result.raw["flags"] if flag["given"]]
    for first in range(0, len(given), _AT_ONCE):
        mlflow.log_params(dict(given[first : first + _AT_ONCE]))
    for step, level in enumerate(result.levels):
        mlflow.log_metrics(dict(_metrics(result, level)), step=step)
    mlflow.set_tag("exit_code", str(result.exit_code))
    if result.answer is not None:
        mlflow.set_tag("answer", result.answer.words)
    mlflow.log_dict(dict(result.raw), "triton-bench.json")
    if result.report:
        mlflow.log_text(result.report, "triton-bench.txt")


def _shown(values: list[str]) -> str:
    return " ".join(values)[:_LONGEST] if values else "true"


def _metrics(result: Result, level: Level) -> Iterator[tuple[str, float]]:
    row: Mapping[str, Any] = _frames.of_level(level, result.catalogue)
    for key, value in row.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield _OTHER.sub("_", key), float(value)
