"""The result of a run, as the program writes it with ``--summary-file`` (docs/result.schema.json)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping

from . import _frames, _tracking

if TYPE_CHECKING:
    import pandas

#: The version of the file's schema that this module reads.
SCHEMA = 1


@dataclass(frozen=True)
class Load:
    """What a level asked of the server: its kind (``concurrency``, ``request_rate``, ...) and value."""

    kind: str
    value: float | None


@dataclass(frozen=True)
class Latency:
    """A distribution of latencies, in seconds."""

    count: int
    mean: float
    std: float
    min: float
    max: float
    #: By percentile, such as ``99`` or ``99.9``.
    percentiles: Mapping[float, float]

    @classmethod
    def _of(cls, raw: Mapping[str, Any]) -> Latency:
        seconds = {float(q): ns / 1e9 for q, ns in raw["percentiles_ns"].items()}
        mean, std, least, most = (raw[f"{name}_ns"] / 1e9 for name in ("mean", "std", "min", "max"))
        return cls(raw["count"], mean, std, least, most, seconds)


@dataclass(frozen=True)
class Figure:
    """What a figure is."""

    #: Its name in ``Level.figures``.
    key: str
    #: ``nanoseconds``, ``tokens_per_second``, ``share``, ...
    unit: str
    #: Its name in reports.
    title: str
    #: What it is, in a sentence.
    meaning: str

    @classmethod
    def _of(cls, raw: Mapping[str, Any]) -> Figure:
        # Later programs may say more of it.
        return cls(raw["key"], raw["unit"], raw["title"], raw["meaning"])


@dataclass(frozen=True)
class Failure:
    """Failures with one reason."""

    #: A short stable word, such as ``unavailable`` or ``http_500``.
    code: str
    #: The server's own text.
    message: str
    count: int


@dataclass(frozen=True)
class Requirement:
    """A requirement (``--require``) and what became of it at a level."""

    #: As it was written.
    text: str
    outcome: str
    #: Whether the run may pass for all that.
    passes: bool
    raw: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Answer:
    """The answer to what the run was asked."""

    #: In a sentence.
    words: str
    #: ``sure``, ``undecided`` or ``not_measured``.
    sure: str
    #: What is missing where it is not sure, and the command that would probably settle it.
    missing: str | None
    command: str | None
    #: Whether the requirements hold; ``None`` where there are none.
    passed: bool | None
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def _of(cls, raw: Mapping[str, Any]) -> Answer:
        missing, gate = raw["missing"] or {}, raw["gate"] or {}
        return cls(raw["words"], raw["sure"], missing.get("what"), missing.get("command"), gate.get("passed"), raw)


@dataclass(frozen=True)
class Level:
    """One level of a run, or one stage or rate of a sweep."""

    load: Load
    #: ``valid``, ``unstable``, ``disturbed``, ... as the report says it.
    outcome: str
    requests: int
    failed: int
    duration: float
    #: ``None`` where no request succeeded.
    latency: Latency | None
    failures: tuple[Failure, ...]
    #: Every figure by its key (``throughput``, ``p99``, ``ttft_p99``, ...), times in nanoseconds.
    figures: Mapping[str, float] = field(repr=False)
    #: All that the file says of the level.
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def throughput(self) -> float:
        """Inferences a second."""
        return float(self.figures.get("throughput", 0.0))

    @classmethod
    def _of(cls, raw: Mapping[str, Any]) -> Level:
        client = raw["client"]
        load = raw["load"]
        latency = client.get("latency")
        return cls(
            load=Load(load["kind"], load.get("value")),
            outcome=raw["outcome"],
            requests=client["requests"],
            failed=client["failed"],
            duration=client["duration_s"],
            latency=Latency._of(latency) if latency and latency["count"] else None,
            failures=tuple(_failure(entry) for entry in client["errors"]),
            figures=raw["figures"],
            raw=raw,
        )


def _failure(entry: Any) -> Failure:
    error, count = entry
    return Failure(error["code"], error["message"], count)


@dataclass(frozen=True)
class Result:
    """What a run came to."""

    levels: tuple[Level, ...]
    requirements: tuple[Requirement, ...]
    #: The program's exit code: 0 is good; see the program's --help.
    exit_code: int
    #: All that the file says.
    raw: Mapping[str, Any] = field(repr=False)
    #: The answer to what the flags asked; ``None`` where nothing was measured.
    answer: Answer | None = None
    #: What each key of a level's ``figures`` is.
    catalogue: Mapping[str, Figure] = field(default_factory=dict, repr=False)
    #: What the program printed; empty where the result was read from a file.
    report: str = field(default="", repr=False)

    def to_dataframe(self, rows: str | None = None) -> pandas.DataFrame:
        """A row for each level or stage, with every figure of ``catalogue``; times in seconds. Columns that end in ``_low`` and
        ``_high`` are the ends of 95 % intervals, empty where they are not known. Needs pandas.

        Of variants (``--variant``, ``--matrix``) a row for each at each level and size, ``rows="cells"``, or, with
        ``rows="rounds"``, for each in each round. Of a periodic load a row for each batch, ``rows="batches"``. Of several
        servers (``-u`` twice) a row for each at each level, ``rows="servers"``.
        """
        import pandas

        return pandas.DataFrame(_frames.rows(self, rows))

    def log_to_mlflow(self) -> None:
        """Adds the result to MLflow's active run, or to a new one where there is none. Needs mlflow or mlflow-skinny.

        The flags that were given are parameters; the figures of each level or batch are metrics, its number the step, times in
        seconds; those of variants begin with the variant's name and ``/``. The answer is a tag, the whole result the artifact
        ``triton-bench.json``.
        """
        import mlflow

        _tracking.log(self, mlflow)


@dataclass(frozen=True)
class Tune:
    """What the command ``tune`` found: ``result.json`` in its folder."""

    #: All that the file says (docs/tune.schema.json).
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def winner(self) -> int | None:
        """The number of the candidate to take; 0 is the present configuration, ``None`` if there is none."""
        winner: int | None = self.raw["verdict"].get("winner")
        return winner

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each candidate: settings, status, figures; times in seconds. Needs pandas."""
        import pandas

        return pandas.DataFrame(_frames.candidates(self.raw))


def _requirement(raw: Mapping[str, Any]) -> Requirement:
    return Requirement(raw["text"], raw["outcome"], raw["passes"], raw)


def read(path: str | os.PathLike[str]) -> Result:
    """Reads a file of ``--summary-file``.

    Raises ``ValueError`` where it is no such file, or of another schema.
    """
    return parse(Path(path).read_text(encoding="utf-8"), str(path))


def read_tune(path: str | os.PathLike[str]) -> Tune:
    """Reads ``result.json`` of a folder of ``tune``.

    Raises ``ValueError`` where it is no such file.
    """
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
        missing = {"candidates", "settings", "verdict"} - raw.keys()
        if not missing:
            return Tune(raw)
        raise KeyError(*missing)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no result.json of tune: {error!r}") from None


def parse(text: str, name: str) -> Result:
    """The same of the file's text; ``name`` is said where it cannot be read."""
    try:
        raw = json.loads(text)
        schema = raw["schema"]
        if schema == SCHEMA:
            return Result(
                levels=tuple(Level._of(level) for level in raw["levels"]),
                requirements=tuple(_requirement(entry) for entry in raw["requirements"]),
                exit_code=raw["exit_code"],
                raw=raw,
                answer=Answer._of(raw["answer"]) if raw.get("answer") else None,
                catalogue={row["key"]: Figure._of(row) for row in raw.get("catalogue", [])},
            )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{name} is no file of --summary-file: {error!r}") from None
    raise ValueError(f"{name} has schema {schema}, and this module reads {SCHEMA}; install the version that wrote it")
