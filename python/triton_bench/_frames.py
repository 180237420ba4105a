"""The rows of data frames: levels, batches, variants in cells, rounds, candidates of a search. Times are in seconds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Iterator, Mapping

if TYPE_CHECKING:
    from ._result import Figure, Level, Result

Row = dict[str, Any]
#: What a result has rows of, the first that is there by default.
KINDS = ("levels", "cells", "rounds", "servers", "batches")
#: Figures of variants that the catalogue does not have, with times in nanoseconds.
_SERVER = ("server_queue", "server_compute")
#: The end of a key that is of a mean or a percentile, as of all times.
_POINT = re.compile(r"(^|_)(avg|p[0-9.]+)$")


def rows(result: Result, of: str | None) -> list[Row]:
    """The rows of one kind; of the first that the result has where none is named."""
    if of is not None and of not in KINDS:
        raise ValueError(f"rows={of!r}: it must be one of {', '.join(KINDS)}")
    variants: Mapping[str, Any] = result.raw.get("variants") or {}
    periodic: Mapping[str, Any] = result.raw.get("periodic") or {}
    if of == "batches" or (of is None and periodic):
        return [_batch(one) for one in periodic.get("batches", [])]
    if of == "levels" or (of is None and not variants):
        return [of_level(one, result.catalogue) for one in result.levels]
    if of == "servers":
        addresses = result.raw.get("servers", [])
        return [row for level in result.levels for row in _servers(level, addresses)]
    return list(_rounds(variants) if of == "rounds" else _cells(variants, result.catalogue))


def of_level(level: Level, catalogue: Mapping[str, Figure]) -> Row:
    """The row of a level, with every figure of the catalogue that it has."""
    row: Row = {
        "kind": level.load.kind,
        "load": level.load.value,
        "batch_size": level.raw["client"]["batch_size"],
        "outcome": level.outcome,
        "throughput": level.throughput,
        "requests": level.requests,
        "failed": level.failed,
        "duration": level.duration,
    }
    if level.latency:
        row["mean"] = level.latency.mean
        row.update({f"p{q:g}": value for q, value in level.latency.percentiles.items()})
    for key, value in _figures(level.figures, catalogue).items():
        row.setdefault(key, value)
    for estimate in level.raw["intervals"]:
        name, scale = _name(estimate["of"])
        interval = estimate.get("interval") or {}
        for end in ("low", "high"):
            row[f"{name}_{end}"] = interval[end] * scale if interval else None
    return row


def _batch(batch: Mapping[str, Any]) -> Row:
    """The row of a batch of a periodic load."""
    row: Row = {key: batch[key] for key in ("concurrency", "requests", "responses")}
    for name, times in (("first_response", batch["first_response"]), ("response_gap", batch["gap"])):
        if times["count"]:
            row[f"{name}_avg"] = times["mean_ns"] / 1e9
            # Percentiles are coarse; the longest gap is exact.
            most = batch["gap_max_ns"] if name == "response_gap" else float("inf")
            row.update({f"{name}_p{float(q):g}": min(value, most) / 1e9 for q, value in times["percentiles_ns"].items()})
        else:
            row[f"{name}_avg"] = None
    row["response_gap_max"] = batch["gap_max_ns"] / 1e9 if batch["gap"]["count"] else None
    return row


def _servers(level: Level, addresses: list[str]) -> Iterator[Row]:
    """A row for each server that requests were spread over."""
    hosts = level.raw.get("hosts") or [{}] * len(addresses)
    for address, client, host in zip(addresses, level.raw["client"].get("servers", []), hosts):
        row: Row = {"kind": level.load.kind, "load": level.load.value, "server": address}
        row.update({key: client[key] for key in ("batch_size", "requests", "failed")})
        seconds = client["duration_s"]
        row["throughput"] = client["requests"] * client["batch_size"] / seconds if seconds else 0.0
        latency = client.get("latency")
        if latency and latency["count"]:
            row["mean"] = latency["mean_ns"] / 1e9
            row.update({f"p{q}": value / 1e9 for q, value in latency["percentiles_ns"].items()})
        # Of its metrics, which `--collect-metrics` reads, those that are one number, and the load of language models.
        row.update({key: value for key, value in host.items() if isinstance(value, (int, float))})
        for key, values in (host.get("load") or {}).items():
            if values:
                row.update({key: values["mean"], f"{key}_max": values["max"]})
        yield row


def _figures(figures: Mapping[str, float], catalogue: Mapping[str, Figure]) -> Row:
    """Those of the catalogue and of the server; the mean latency is called as elsewhere in this module."""
    row: Row = {}
    for key, value in figures.items():
        if key in _SERVER or (key in catalogue and catalogue[key].unit == "nanoseconds"):
            row["mean" if key == "avg" else key] = value / 1e9
        elif key in catalogue:
            row[key] = value
    return row


def _place(cell: Mapping[str, Any], number: int) -> Row:
    load = cell["loads"][number]
    return {"kind": load["kind"], "load": load.get("value"), "size": cell["size"]}


def _cells(variants: Mapping[str, Any], catalogue: Mapping[str, Figure]) -> Iterator[Row]:
    """A row for each variant at each level and size: its figures, and the ratio of the main one to the first variant's."""
    for cell in variants.get("cells", []):
        compared = {one["variant"]: one for one in cell["comparisons"]}
        for number, variant in enumerate(variants["variants"]):
            row = {**_place(cell, number), "variant": variant["name"], "flags": variant["flags"]}
            row.update(_figures(cell["figures"][number], catalogue))
            row["input_bytes"] = cell["input_bytes"][number]
            row["output_bytes"] = cell["output_bytes"][number] if cell["output_bytes"] else None
            row["problem"] = variant["problem"]
            row.update(_change(compared.get(number), variants["primary"]))
            yield row


def _change(comparison: Mapping[str, Any] | None, primary: Any) -> Row:
    figures = comparison["figures"] if comparison else []
    for figure in figures:
        if figure["of"] == primary:
            interval = figure["interval"] or {}
            row = {"ratio": figure["ratio"], "ratio_low": interval.get("low"), "ratio_high": interval.get("high")}
            return {**row, "p": figure["p"], "verdict": figure["verdict"]}
    return dict.fromkeys(("ratio", "ratio_low", "ratio_high", "p", "verdict"))


def _rounds(variants: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each variant in each round."""
    for cell in variants.get("cells", []):
        for measured in cell["rounds"]:
            for place, number in enumerate(measured["order"]):
                unit = measured["units"][number]
                if unit is None:
                    continue
                row = {**_place(cell, number), "start": measured["start"], "round": measured["number"], "place": place + 1}
                row["variant"] = variants["variants"][number]["name"]
                row["counts"] = not measured["set_aside"] and unit["problem"] is None
                row.update({key: unit[key] for key in ("requests", "failed", "disturbed", "problem")})
                row.update(_value(value["of"], value["value"]) for value in unit["values"])
                # Figures that requirements are about, which the catalogue need not have: only times have points.
                for each in unit.get("named", []):
                    key, value = each["key"], each["value"]
                    if value is not None:
                        row.setdefault("mean" if key == "avg" else key, value / 1e9 if _POINT.search(key) else value)
                yield row


def _value(of: Any, value: float) -> tuple[str, float]:
    name, scale = _name(of)
    return name, value * scale


def _name(of: Any) -> tuple[str, float]:
    """The column of a statistic, and what makes its value one: times are in nanoseconds in files."""
    if isinstance(of, dict):
        return f"p{of['percentile']:g}", 1e-9
    return ("throughput", 1.0) if of == "throughput" else ({"mean_latency": "mean"}.get(of, of), 1e-9)


def candidates(raw: Mapping[str, Any]) -> list[Row]:
    """A row for each candidate of a search: its settings, what became of it, and its figures."""
    return [_candidate(one, raw["settings"], raw["percentile"]) for one in raw["candidates"]]


def _candidate(one: Mapping[str, Any], settings: list[str], percentile: float) -> Row:
    # Files of before call it its fate.
    status = one.get("status", one.get("fate"))
    row: Row = {"number": one["number"], "status": status, "meets": one["meets"], "reason": one.get("reason")}
    row.update(zip(settings, one["values"]))
    for key, value in (one.get("figures") or {}).items():
        if key == "latency_ns":
            row[f"p{percentile:g}"] = value / 1e9
        elif key.endswith("_interval"):
            row.update(_ends(key.removesuffix("_interval"), value or {}))
        elif isinstance(value, (int, float)):
            name, scale = _second(key)
            row[name] = value * scale
    return row


def _ends(name: str, interval: Mapping[str, float]) -> Row:
    """Both ends of an interval, of which those of latencies are in nanoseconds."""
    scale = 1e9 if name == "latency" else 1.0
    ends = {end: interval.get(end) for end in ("low", "high")}
    return {f"{name}_{end}": None if value is None else value / scale for end, value in ends.items()}


def _second(key: str) -> tuple[str, float]:
    """The name of a figure in seconds, and the factor."""
    for end, scale in (("_ns", 1e-9), ("_us", 1e-6), ("_s", 1.0)):
        if key.endswith(end):
            return key[: -len(end)], scale
    return key, 1.0
