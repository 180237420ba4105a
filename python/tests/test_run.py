"""The module on the program itself: ``TRITON_SERVER_DIRECTORY`` and ``DEMO_MODELS`` name a server and a repository.

Run by scripts/check-package in an environment where the wheel is installed.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import triton_bench
from triton_bench._result import parse
from triton_bench._run import _call, words
from triton_bench._tracking import log

SERVER = os.environ["TRITON_SERVER_DIRECTORY"]
MODELS = os.environ["DEMO_MODELS"]


def measure(**flags):
    return triton_bench.run(
        model="identity_fp32", model_repository=MODELS, triton_server_directory=SERVER, p=100, s=1000000, **flags
    )


class Run(unittest.TestCase):
    def test_levels_are_measured(self):
        result = measure(concurrency_range="1:2")
        self.assertEqual([level.load.value for level in result.levels], [1, 2])
        for level in result.levels:
            self.assertGreater(level.throughput, 0)
            self.assertEqual(level.failed, 0)
            self.assertLess(level.latency.percentiles[50], level.latency.percentiles[99] + 1e-9)
            self.assertAlmostEqual(level.latency.mean, level.raw["client"]["latency"]["mean_ns"] / 1e9)
        self.assertIn("Throughput", result.report)

    def test_requirements_and_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kept.json"
            result = measure(require=["throughput>1", "p99<1ns"], summary_file=file)
            self.assertEqual(result.exit_code, 6)
            self.assertEqual([entry.passes for entry in result.requirements], [True, False])
            self.assertEqual(triton_bench.read(file).raw, result.raw)

    def test_a_resumed_run_is_written_back(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kept.json"
            measure(concurrency_range="1:2", summary_file=file)
            before = file.stat().st_mtime_ns
            again = measure(concurrency_range="1:2", resume=file)
            self.assertNotEqual(file.stat().st_mtime_ns, before)
            self.assertEqual(triton_bench.read(file).raw, again.raw)
            self.assertEqual(len(again.levels), 2)
            other = Path(folder) / "other.json"
            measure(concurrency_range="1:2", resume=str(file), summary_file=other)
            self.assertEqual(len(triton_bench.read(other).levels), 2)

    def test_mlflow_has_what_was_measured(self):
        import mlflow

        result = measure(concurrency_range="1:2")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
            mlflow.set_tracking_uri((Path(folder) / "runs").as_uri())
            mlflow.set_experiment("test")
            with mlflow.start_run() as run:
                result.log_to_mlflow()
            client = mlflow.MlflowClient()
            kept = client.get_run(run.info.run_id).data
            self.assertEqual(kept.params["concurrency-range"], "1:2")
            self.assertEqual(kept.tags["answer"], result.answer.words)
            history = client.get_metric_history(run.info.run_id, "throughput")
            measured = enumerate(level.throughput for level in result.levels)
            self.assertEqual([(one.step, one.value) for one in history], list(measured))
            self.assertEqual(kept.metrics["p99"], result.levels[1].latency.percentiles[99])
            self.assertEqual(mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/triton-bench.json"), result.raw)

    def test_a_frame_has_a_row_for_each_level(self):
        frame = measure(concurrency_range="1:2").to_dataframe()
        self.assertEqual(list(frame["load"]), [1, 2])
        self.assertEqual(list(frame["batch_size"]), [1, 1])
        self.assertTrue((frame["p99"] >= frame["p50"]).all())
        self.assertTrue((frame["p99"] < 10).all(), "times are in seconds")
        result = measure(concurrency_range="1")
        self.assertIn("infer/s", result.answer.words)
        self.assertIn(result.answer.words, " ".join(result.report.split()))
        self.assertEqual(list(frame["errors"]), [0, 0], "every figure of the catalogue is a column")
        for figure in ("throughput", "mean", "p99"):
            low, high = frame[f"{figure}_low"].dropna(), frame[f"{figure}_high"].dropna()
            self.assertTrue((low <= frame[figure][low.index]).all() and (high >= frame[figure][high.index]).all(), figure)

    def test_a_frame_has_rows_of_variants_and_rounds(self):
        result = measure(matrix="memory", rounds=2, percentile=50, on_disturbance="ignore")
        cells, rounds = result.to_dataframe(), result.to_dataframe(rows="rounds")
        self.assertEqual(list(cells["variant"])[:2], ["pageable", "system shared memory"])
        self.assertEqual(len(rounds), 2 * len(cells))
        self.assertTrue((cells["input_bandwidth"] > 0).all() and (cells["mean"] < 10).all())
        self.assertTrue((rounds["p50"] < 10).all() and set(rounds["place"]) >= {1, 2})
        self.assertGreater(cells["ratio"][1], 0)
        self.assertEqual(len(result.to_dataframe(rows="levels")), 0)
        with self.assertRaisesRegex(ValueError, "cells"):
            result.to_dataframe(rows="x")

    def test_a_frame_has_rows_of_batches(self):
        times = {"count": 20, "mean_ns": 2e6, "percentiles_ns": {"50": 1_900_000, "99.9": 3_000_000}}
        none = {"count": 0, "mean_ns": 0.0, "percentiles_ns": {"50": 0}}
        counts = {"concurrency": 4, "requests": 2, "responses": 20}
        batches = [{**counts, "first_response": times, "gap": gap, "gap_max_ns": 5_000_000} for gap in (times, none)]
        raw = {"schema": 1, "levels": [], "requirements": [], "exit_code": 0, "periodic": {"batches": batches}}
        frame = parse(json.dumps(raw), "r").to_dataframe()
        self.assertEqual(list(frame["concurrency"]), [4, 4])
        self.assertEqual([frame["first_response_avg"][0], frame["response_gap_p99.9"][0]], [0.002, 0.003])
        self.assertEqual(list(frame["response_gap_avg"].isna()), [False, True], "no gap is none, and not one of zero")
        batches[0]["gap_max_ns"] = 2_500_000
        frame = parse(json.dumps(raw), "r").to_dataframe()
        self.assertEqual(frame["response_gap_p99.9"][0], 0.0025, "percentiles are coarse, and no gap is longer than the longest")
        self.assertEqual(len(parse(json.dumps(raw), "r").to_dataframe(rows="levels")), 0)

    def test_mlflow_has_what_variants_and_batches_came_to(self):
        class Run:
            def __init__(self):
                self.metrics, self.tags = {}, {}

            def log_metrics(self, metrics, step):
                self.metrics.setdefault(step, {}).update(metrics)

            def set_tag(self, key, value):
                self.tags[key] = value

            log_params = log_dict = log_text = lambda self, *_: None

        def logged(**parts):
            run = Run()
            raw = {"schema": 1, "levels": [], "requirements": [], "exit_code": 0, "flags": [], **parts}
            log(parse(json.dumps(raw), "r"), run)
            return run.metrics

        def cell(load, figures, comparisons):
            sizes = {"size": None, "input_bytes": [None, None], "output_bytes": []}
            loads = [{"kind": "concurrency", "value": load}] * 2
            return {"loads": loads, "figures": figures, "comparisons": comparisons, "rounds": [], **sizes}

        slower = {"of": "throughput", "ratio": 0.5, "interval": {"low": 0.4, "high": 0.6}, "p": 0.01, "verdict": "worse"}
        cells = [
            cell(1, [{"throughput": 10.0, "avg": 2e6}, {"throughput": 5.0}], [{"variant": 1, "figures": [slower]}]),
            cell(2, [{}, {"throughput": 6.0}], []),
        ]
        named = [{"name": name, "flags": "", "problem": None} for name in ("as it is", "a/b, new")]
        figure = {"key": "throughput", "unit": "inferences_per_second", "title": "", "meaning": ""}
        average = {**figure, "key": "avg", "unit": "nanoseconds"}
        variants = {"variants": named, "primary": "throughput", "cells": cells}
        metrics = logged(variants=variants, catalogue=[figure, average])
        self.assertEqual(metrics[0]["as it is/throughput"], 10.0)
        self.assertAlmostEqual(metrics[0]["as it is/mean"], 0.002)
        self.assertEqual([metrics[0][f"a_b_ new/{key}"] for key in ("throughput", "ratio", "ratio_low")], [5.0, 0.5, 0.4])
        self.assertEqual((metrics[1]["a_b_ new/throughput"], metrics[1]["a_b_ new/load"]), (6.0, 2.0))
        self.assertTrue(all(re.fullmatch(r"[\w./ :-]+", key) for step in metrics.values() for key in step))
        times = {"count": 2, "mean_ns": 2e6, "percentiles_ns": {"50": 1_900_000}}
        batch = {"concurrency": 4, "requests": 2, "responses": 20, "first_response": times, "gap": times, "gap_max_ns": 1}
        metrics = logged(periodic={"batches": [batch, {**batch, "concurrency": 8}]})
        self.assertEqual([metrics[step]["concurrency"] for step in (0, 1)], [4.0, 8.0])

    def test_a_search_has_a_row_for_each_candidate(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["tune", "-m", "identity_fp32", "--model-repository", MODELS, "--triton-server-directory", SERVER]
            words += ["--search", "instances=1:2", "--budget", "6s", "--output", f"{folder}/tune"]
            subprocess.run([triton_bench.program(), *words], check=True, capture_output=True)
            tune = triton_bench.read_tune(f"{folder}/tune/result.json")
            frame = tune.to_dataframe()
            self.assertEqual(frame["number"][0], 0)
            self.assertTrue((frame["throughput"].dropna() > 0).all() and (frame["mean"].dropna() < 10).all())
            self.assertTrue((frame["latency_high"].dropna() < 10).all(), "intervals are in seconds, too")
            with self.assertRaisesRegex(ValueError, "no result.json of tune"):
                triton_bench.read_tune(__file__)

    def test_bad_flags_are_errors_in_the_program_s_words(self):
        with self.assertRaisesRegex(triton_bench.BenchError, "concurrency-range") as caught:
            measure(concurrency_range="x")
        self.assertEqual(caught.exception.exit_code, 99)

    def test_a_program_that_takes_too_long_ends(self):
        with self.assertRaises(subprocess.TimeoutExpired):
            measure(request_count=2_000_000_000, timeout=3)

    def test_what_the_program_says_is_shown_while_it_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            heard = Path(folder) / "heard"

            class Screen(io.StringIO):
                def write(self, text):
                    heard.touch()
                    return super().write(text)

            script = f"echo level 1 >&2; until [ -e {heard} ]; do sleep 0.05; done; echo report; exit 2"
            with contextlib.redirect_stderr(Screen()) as screen:
                ended = _call(["sh", "-c", script], 60)
            self.assertEqual((ended, screen.getvalue()), ((2, "report\n", "level 1\n"), "level 1\n"))

    def test_keywords_are_flags(self):
        line = words({"i": "grpc", "async": True, "H": ["a:b", "c:d"], "request_count": 5, "cpus": None})
        self.assertEqual(words({"async_": True}), ["--async"])
        several = words({"u": (f"host{number}:8000" for number in range(2)), "require": {"p99<20ms"}, "f": Path("a.csv")})
        self.assertEqual(several, ["-u", "host0:8000", "-u", "host1:8000", "--require", "p99<20ms", "-f", "a.csv"])
        self.assertEqual(line, ["-i", "grpc", "--async", "-H", "a:b", "-H", "c:d", "--request-count", "5"])

    def test_flags_with_a_truth_as_their_value_get_it(self):
        line = words({"server_metrics": True, "enable_peer_access": False, "sync": False, "ssl_https_verify_peer": False})
        self.assertEqual(line, ["--server-metrics=true", "--enable-peer-access=false", "--ssl-https-verify-peer=0"])
        text = subprocess.run([triton_bench.program(), "--help"], check=True, capture_output=True, text=True).stdout
        found = re.findall(r"^ +--(\S+?)(?:\[=| )<(?:true\|false|on\|off|0\|1|0\|1\|2)>", text, re.MULTILINE)
        self.assertGreater(len(found), 6)
        for name in found:
            self.assertEqual(len(words({name.replace("-", "_"): False})), 1, name)

    def test_other_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "other.json"
            level = {"schema": 1, "levels": [{}], "requirements": [], "exit_code": 0}
            for text, rule in [
                ("{}", "no file of"),
                ("[]", "no file of"),
                ('{"schema": 1}', "no file of"),
                (json.dumps(level), "no file of"),
                (json.dumps({**level, "levels": [None]}), "no file of"),
                (json.dumps({"schema": 99}), "schema 99"),
                ("x", "no file of"),
            ]:
                file.write_text(text)
                with self.assertRaisesRegex(ValueError, rule):
                    triton_bench.read(file)


if __name__ == "__main__":
    unittest.main()
