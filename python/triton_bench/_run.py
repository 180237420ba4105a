"""Starting the program."""

from __future__ import annotations
import contextlib

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import IO, Iterable, Mapping, Union

from ._result import Result, parse

#: What a flag may be: text or a number, ``True`` for one that stands alone, ``True`` or ``False`` for one that takes that as its value,
#: a list for one that is repeated.
Value = Union[str, int, float, bool, "os.PathLike[str]", None]

#: Flags that take true or false as a value; all others that are on or off stand alone.
_BOOLEAN = frozenset(
    ("enable-peer-access", "strict-model-config", "model-namespacing", "server-metrics", "ssl-grpc-use-ssl")
)
#: The same as 1 or 0.
_NUMERIC = frozenset(("ssl-https-verify-peer", "ssl-https-verify-host"))

#: An interrupted program reports what it has and stops its server, in seconds.
ENDS_WITHIN = 20


class BenchError(RuntimeError):
    """The program measured nothing; the message is its own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def program() -> str:
    """The path of triton-bench: the one that was installed with this module, else the one on ``PATH``.

    Raises ``FileNotFoundError`` where there is none.
    """
    beside = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    found = shutil.which("triton-bench", path=os.pathsep.join(map(str, beside))) or shutil.which("triton-bench")
    if found is None:
        raise FileNotFoundError("triton-bench is neither installed with this module nor on PATH: pip install triton-bench")
    return found


def words(flags: dict[str, Value | Iterable[Value]]) -> list[str]:
    """Keywords as the program's flags: ``concurrency_range="1:4"`` is ``--concurrency-range 1:4``, ``i="grpc"`` is ``-i grpc``, and
    ``async_=True``, as Python keeps the word for itself, ``--async``. ``False`` leaves a flag out, unless it takes that as its value:
    ``enable_peer_access=False`` is ``--enable-peer-access=false``."""
    line: list[str] = []
    for name, value in flags.items():
        flag = f"-{name}" if len(name) == 1 else "--" + name.removesuffix("_").replace("_", "-")
        if isinstance(value, Mapping):
            raise TypeError(f"{name}: a dictionary is no value of a flag; give texts such as 'name:value'")
        is_one = not isinstance(value, Iterable) or isinstance(value, (str, bytes, os.PathLike))
        for each in [value] if is_one else value:  # type: ignore[union-attr]
            if isinstance(each, bool) and flag[2:] in _BOOLEAN:
                # Joined, because these take no word that follows.
                line.append(f"{flag}={str(each).lower()}")
            elif isinstance(each, bool) and flag[2:] in _NUMERIC:
                line.append(f"{flag}={each:d}")
            elif each is None or each is False:
                continue
            elif each is True:
                line.append(flag)
            else:
                line += [flag, os.fspath(each) if isinstance(each, os.PathLike) else str(each)]
    return line


def run(model: str | None = None, *, timeout: float | None = None, **flags: Value | Iterable[Value]) -> Result:
    """Measures, and returns what came of it.

    The keywords are the program's flags. Standard error goes where this process' goes, as it comes. With ``resume="run.json"`` that file is
    written back unless ``summary_file`` names another. A run that missed a requirement or did not
    become stable is a result; its ``exit_code`` says so. After ``timeout`` seconds the program is ended.

    Raises :class:`BenchError` where nothing was measured, ``subprocess.TimeoutExpired`` after ``timeout``.
    """
    # A run that is resumed writes its file back unless it is given another.
    kept = flags.pop("summary_file", None) or flags.get("resume")
    if model is not None:
        flags = {"m": model, **flags}
    with tempfile.TemporaryDirectory(prefix="triton-bench-") as folder:
        file = Path(os.fspath(kept)) if kept else Path(folder) / "result.json"  # type: ignore[arg-type]
        before = _written(file)
        line = [program(), *words(flags), "--summary-file", str(file)]
        code, report, said = _call(line, timeout)
        # A run that could not write one of its other files, or was interrupted, has a result for all that.
        if _written(file) == before:
            last = said.strip().splitlines()[-1:] or [f"triton-bench ended with {code} and measured nothing"]
            raise BenchError(last[0], code)
        result = parse(file.read_text(encoding="utf-8"), str(file))
    return dataclasses.replace(result, exit_code=code, report=report)


def _call(line: list[str], timeout: float | None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a program, of which the last is also shown as it comes. One that takes too long
    is interrupted, so that it leaves no server and no shared memory behind, and killed only where that does not help."""
    # In a session of its own, because a terminal's Ctrl-C would reach it beside ours, and two interrupts mean to leave at once.
    child = subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    said: list[str] = []
    listener = threading.Thread(target=_pass_on, args=(child.stderr, said), daemon=True)
    # The listener has it; `communicate` would keep it until the end.
    child.stderr = None
    listener.start()
    try:
        report, _ = child.communicate(timeout=timeout)
    except BaseException:
        child.send_signal(signal.SIGINT)
        try:
            child.communicate(timeout=ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
        raise
    finally:
        listener.join(ENDS_WITHIN)
    return child.returncode, report.decode("utf-8", "replace"), "".join(said)


def _pass_on(stream: IO[bytes], said: list[str]) -> None:
    """Shows what comes, line by line, and keeps it."""
    with stream:
        for line in stream:
            said.append(line.decode("utf-8", "replace"))
            # What cannot be shown must not end the run: it would lose the reader of its pipe.
            with contextlib.suppress(AttributeError, OSError, ValueError):
                sys.stderr.write(said[-1])
                sys.stderr.flush()


def _written(file: Path) -> int | None:
    """When a file was written; ``None`` where there is none."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None
