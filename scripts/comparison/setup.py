"""Fetches, builds and generates what the studies run, and says what machine they run on."""

import os
import platform
import subprocess
from datetime import date
from pathlib import Path

from .programs import BEFORE, FLOOR, OURS, UPSTREAM, Programs, RunFailed, log

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def _do(*words):
    """Runs a step of the preparation and returns the last line of its standard output."""
    try:
        done = subprocess.run(list(map(str, words)), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as failure:
        raise RunFailed(f"preparation: {failure}; its messages are above") from failure
    return (done.stdout.strip().splitlines() or [""])[-1]


def prepare(with_upstream, before):
    """Makes everything ready; costs a second when nothing has changed since the last time."""
    log("preparing programs, server and models")
    server = Path(_do("scripts/install-triton"))
    _do("bash", "-euc", "source scripts/lib/common.sh; source scripts/lib/packages.sh; require_build; require load_generators")
    _do("cargo", "build", "--release", "--locked", "-p", "triton-bench", "-p", "bench-backends")
    floor = TARGET / "floor"
    _do("cc", "-std=gnu17", "-O2", "-o", floor, ROOT / "benches/floor.c", "-ldl", "-lpthread")
    # Upstream loads every model that a repository holds, so each study gets a repository of one model.
    small, large = TARGET / "comparison/small", TARGET / "comparison/large"
    _do("scripts/make-demo-models", small, "identity_fp32")
    _do("scripts/make-demo-models", large, "identity_fp32_1mib")
    paths = {OURS: TARGET / "release/triton-bench", FLOOR: floor}
    if with_upstream:
        paths[UPSTREAM] = Path(_do("scripts/install-upstream"))
    if before:
        paths[BEFORE] = before
    return Programs(server, small, large, paths)


def _processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def describe_machine():
    processors = len(os.sched_getaffinity(0))
    return f"{date.today()}, {_processor()}, {processors} processors, Linux {platform.release()}"
