"""What users write against the module, for mypy --strict (scripts/check-package); it is not run."""

from __future__ import annotations

from typing import Mapping

import pandas

import triton_bench


def measured(**flags: str) -> triton_bench.Result:
    return triton_bench.run("mlp", model_repository=".demo", require=["p99<20ms"], async_=True, timeout=60.0, **flags)


def figures(result: triton_bench.Result) -> Mapping[str, float]:
    latency = result.levels[0].latency
    if latency is None:
        return {}
    return {"throughput": result.levels[0].throughput, "p99": latency.percentiles[99]}


def frame(result: triton_bench.Result) -> pandas.DataFrame:
    return result.to_dataframe(rows="rounds")


def track(result: triton_bench.Result) -> None:
    result.log_to_mlflow()


def search(path: str) -> tuple[int | None, pandas.DataFrame]:
    tune = triton_bench.read_tune(path)
    return tune.winner, tune.to_dataframe()


def complaint(failure: triton_bench.BenchError) -> tuple[int, str]:
    return failure.exit_code, str(failure)


def wrong() -> None:
    # An ignored error that is none is an error, too.
    triton_bench.run(model=3)  # type: ignore[arg-type]
    triton_bench.read("result.json").levels[0].latency.mean  # type: ignore[union-attr]
