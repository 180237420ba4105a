"""Starts triton-bench and reads what it measured.

``run`` takes the program's flags as keywords and returns a :class:`Result`; ``read`` reads a file of ``--summary-file``.
"""

from ._result import Answer, Failure, Figure, Latency, Level, Load, Requirement, Result, Tune, read, read_tune
from ._run import BenchError, program, run

__all__ = [
    "Answer",
    "BenchError",
    "Failure",
    "Figure",
    "Latency",
    "Level",
    "Load",
    "Requirement",
    "Result",
    "Tune",
    "program",
    "read",
    "read_tune",
    "run",
]
