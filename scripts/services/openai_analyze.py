"""Draws folders of reports as `inference-perf --analyze` does:  openai_analyze.py FOLDER...

Loads the module that the flag calls, and nothing of the package around it, whose other requirements (a newer Python,
transformers) drawing does not have. Fails where a folder lacks a picture that its stages are enough for.
"""

import importlib.util
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")


def module():
    for folder in sys.path:
        path = pathlib.Path(folder) / "inference_perf/analysis/analyze.py"
        if path.exists():
            spec = importlib.util.spec_from_file_location("analyze", path)
            found = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found)
            return found
    sys.exit("inference_perf is not installed")


WANTED = {
    "rates": ["latency_vs_qps.png", "throughput_vs_qps.png", "goodput_vs_qps.png", "throughput_vs_latency.png"],
    "closed": ["latency_vs_concurrency.png", "throughput_vs_concurrency.png", "throughput_vs_latency.png"],
}

for folder in map(pathlib.Path, sys.argv[1:]):
    module().analyze_reports([str(folder)])
    missing = [name for name in WANTED[folder.name] if not (folder / name).exists()]
    if missing:
        sys.exit(f"{folder}: not drawn: {', '.join(missing)}")
    print(f"inference-perf draws {folder.name}: {', '.join(WANTED[folder.name])}")
