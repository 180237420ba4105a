#!/usr/bin/env python3
"""Runs the test backend in a real tritonserver and checks every promise of its README.

Needs the tritonserver program, the built library, and Python's tritonclient[grpc,http] with numpy:
    check.py --server DIR/bin/tritonserver --backend target/release/libtriton_bench.so
"""

import argparse
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

TYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"]
DECOUPLED = "model_transaction_policy { decoupled: true }"


def tensor(kind, name, datatype, dims, more=""):
    datatype = {"BYTES": "STRING"}.get(datatype, datatype)
    return f'{kind} [{{ name: "{name}" data_type: TYPE_{datatype} dims: {dims} {more} }}]\n'


def config(datatype="INT32", dims="[4]", batch=0, extra="", count=1, **parameters):
    text = f'backend: "bench"\nmax_batch_size: {batch}\n{extra}\n'
    text += tensor("input", "INPUT0", datatype, dims) + tensor("output", "OUTPUT0", datatype, dims)
    text += f"instance_group [{{ kind: KIND_CPU count: {count} }}]\n"
    for key, value in parameters.items():
        key = "final" if key == "final_" else key
        text += f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
    return text


def models(folder):
    found = {f"identity_{t.lower()}": config(t, "[-1]", batch=4) for t in TYPES}
    found["two"] = (
        'backend: "bench"\ninstance_group [{ kind: KIND_CPU }]\n'
        + tensor("input", "INPUT0", "FP32", "[-1,2]") + tensor("input", "INPUT1", "BYTES", "[1]", "optional: true")
        + tensor("output", "OUTPUT0", "FP32", "[-1,2]") + tensor("output", "OUTPUT1", "BYTES", "[1]")
    )
    found["batched"] = config(batch=8, extra="dynamic_batching { preferred_batch_size: [4] max_queue_delay_microseconds: 200000 }",
                              stamp_file=f"{folder}/batched.jsonl")
    found["slow"] = config(delay_us=20000, count=2) + tensor("output", "STAMP", "INT64", "[2]")
    found["busy"] = config(delay_us=5000, delay_mode="busy", batch=4) + tensor("output", "STAMP", "INT64", "[2]")
    found["stall"] = config(stall_after_requests=3, stall_us=300000)
    found["failing"] = config(fail_every=3, counter_file=f"{folder}/failing.json")
    found["failing_execute"] = config(fail_every=2, fail_mode="execute")
    for final in ("flag", "null"):
        for mode in ("inline", "thread"):
            for release in ("after", "before"):
                found[f"stream_{final}_{mode}_{release}"] = config(
                    extra=DECOUPLED, repeat=3, gap_us=3000, final_=final, repeat_mode=mode, release=release)
    found["stream_input"] = config(extra=DECOUPLED) + tensor("input", "REPEAT", "INT32", "[1]")
    found["stream_failing"] = config(extra=DECOUPLED, repeat=2, fail_every=2)
    found["stream_cancel"] = config(extra=DECOUPLED, repeat=100, gap_us=20000, repeat_mode="thread", cancellable="true",
                                    counter_file=f"{folder}/cancel.json")
    found["sequence"] = config(dims="[1]", batch=1, extra="sequence_batching { max_sequence_idle_microseconds: 60000000 "
                               'control_input [{ name: "CORRID" control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING }] }] }',
                               accumulate="true", counter_file=f"{folder}/sequence.json", stamp_file=f"{folder}/sequence.jsonl")
    found["loose_sequence"] = config("INT64", accumulate="true", counter_file=f"{folder}/loose.json")
    found["echo"] = config(echo_parameters="true", stamp_file=f"{folder}/echo.jsonl")
    found["nonsense"] = config(report_nonsense_times="true")
    found["cancellable"] = config(delay_us=3000000, cancellable="true", counter_file=f"{folder}/cancellable.json")
    found["early"] = config(release="before")
    found["bad_init"] = config(init_fail="out of coffee")
    found["bad_key"] = config(dealy_us="5")
    found["bad_decoupled"] = config(repeat="5")
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, options, folder):
        self.repository = os.path.join(folder, "models")
        for name, text in models(folder).items():
            version = os.path.join(self.repository, name, "1")
            os.makedirs(version)
            with open(os.path.join(self.repository, name, "config.pbtxt"), "w") as file:
                file.write(text)
            os.symlink(os.path.abspath(options.backend), os.path.join(version, "libtriton_bench.so"))
        self.log = open(os.path.join(folder, "log"), "w+")
        port = free_port()
        home = os.path.dirname(os.path.dirname(os.path.abspath(options.server)))
        self.process = subprocess.Popen(
            [options.server, "--model-repository", self.repository, "--backend-directory", os.path.join(home, "backends"),
             "--allow-http=false", "--allow-metrics=false", f"--grpc-port={port}", "--grpc-address=127.0.0.1",
             "--model-control-mode=explicit", "--load-model=*", "--exit-on-error=false", "--disable-auto-complete-config"],
            stdout=self.log, stderr=subprocess.STDOUT)
        self.client = triton.InferenceServerClient(f"127.0.0.1:{port}")
        deadline = time.time() + 60
        while time.time() < deadline and self.process.poll() is None:
            try:
                if self.client.is_server_live():
                    break
            except InferenceServerException:
                time.sleep(0.1)

    def text(self):
        self.log.flush()
        with open(self.log.name) as file:
            return file.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def values(datatype, shape):
    if datatype == "BYTES":
        flat = [b"", b"a", "\u00e4\u20ac".encode(), bytes(range(256))] * 100
        return np.array(flat[: int(np.prod(shape))], dtype=object).reshape(shape)
    raw = np.arange(int(np.prod(shape)))
    return (raw % 2 if datatype == "BOOL" else raw).reshape(shape).astype(triton_to_np_dtype(datatype))


def given(name, array, datatype):
    result = triton.InferInput(name, list(array.shape), datatype)
    result.set_data_from_numpy(array)
    return result


def int32(*numbers):
    return given("INPUT0", np.array(numbers, dtype=np.int32), "INT32")


FOUR = (1, 2, 3, 4)


class Checks:
    def __init__(self, server, folder):
        self.server, self.client, self.folder = server, server.client, folder

    def lines(self, name):
        time.sleep(0.1)
        with open(os.path.join(self.folder, name)) as file:
            return [json.loads(line) for line in file]

    def fails(self, *args, **kwargs):
        try:
            self.client.infer(*args, **kwargs)
        except InferenceServerException as error:
            return str(error)
        raise AssertionError("the request succeeded")

    def check_identity(self):
        for datatype in TYPES:
            for shape in ([1, 1], [4, 7], [2, 0], [3, 100]):
                array = values(datatype, shape)
                answer = self.client.infer(f"identity_{datatype.lower()}", [given("INPUT0", array, datatype)])
                output = answer.as_numpy("OUTPUT0")
                if array.size == 0:
                    assert list(answer.get_output("OUTPUT0").shape) == shape, (datatype, shape)
                else:
                    assert output.shape == array.shape and (output == array).all(), (datatype, shape)
        big = values("FP32", [1, 3_000_000])
        assert (self.client.infer("identity_fp32", [given("INPUT0", big, "FP32")]).as_numpy("OUTPUT0") == big).all()

    def check_optional_and_requested(self):
        first, second = values("FP32", [3, 2]), np.array([b"x"], dtype=object)
        both = [given("INPUT0", first, "FP32"), given("INPUT1", second, "BYTES")]
        answer = self.client.infer("two", both)
        assert (answer.as_numpy("OUTPUT0") == first).all() and answer.as_numpy("OUTPUT1")[0] == b"x"
        answer = self.client.infer("two", both[:1])
        assert answer.as_numpy("OUTPUT1") is None and (answer.as_numpy("OUTPUT0") == first).all()
        answer = self.client.infer("two", both, outputs=[triton.InferRequestedOutput("OUTPUT1")])
        assert answer.as_numpy("OUTPUT0") is None and answer.as_numpy("OUTPUT1")[0] == b"x"

    def check_batching(self):
        done = queue.Queue()
        for row in range(4):
            self.client.async_infer("batched", [given("INPUT0", np.full((1, 4), row, np.int32), "INT32")],
                                    lambda result, error, row=row: done.put((row, result, error)))
        for _ in range(4):
            row, result, error = done.get(timeout=5)
            assert error is None and (result.as_numpy("OUTPUT0") == row).all()
        lines = self.lines("batched.jsonl")
        assert [line["batch_index"] for line in lines] == [0, 1, 2, 3] and {line["batch_size"] for line in lines} == {4}, lines
        statistics = self.client.get_inference_statistics("batched", as_json=True)["model_stats"][0]
        assert statistics["inference_count"] == "4" and statistics["execution_count"] == "1", statistics

    def check_delay(self):
        for model, delay, shape in (("slow", 20_000_000, [4]), ("busy", 5_000_000, [2, 4])):
            late = []
            for _ in range(20):
                answer = self.client.infer(model, [given("INPUT0", values("INT32", shape), "INT32")])
                stamps = answer.as_numpy("STAMP").reshape(-1, 2)
                assert len(stamps) == (shape[0] if len(shape) == 2 else 1) and (stamps == stamps[0]).all()
                assert abs(time.monotonic_ns() - stamps[0][1]) < 1_000_000_000
                late.append(int(stamps[0][1] - stamps[0][0]) - delay)
            late.sort()
            print(f"    {model}: ends {late[0] / 1000:.1f} to {late[-1] / 1000:.1f} us late, median {late[10] / 1000:.1f}")
            assert 0 <= late[0] < 100_000, late  # other load delays the others
        done, begin = queue.Queue(), time.monotonic()
        for _ in range(6):
            self.client.async_infer("slow", [int32(*FOUR)], lambda result, error: done.put(error))
        assert [done.get(timeout=5) for _ in range(6)] == [None] * 6
        took = time.monotonic() - begin
        assert 0.060 <= took < 0.110, f"6 requests of 20 ms on 2 instances took {took}"

    def check_stall(self):
        took = []
        for _ in range(6):
            begin = time.monotonic()
            self.client.infer("stall", [int32(*FOUR)])
            took.append(time.monotonic() - begin)
        assert [t > 0.3 for t in took] == [False, False, True, False, False, False], took

    def check_failures(self):
        for ordinal in range(1, 10):
            if ordinal % 3:
                self.client.infer("failing", [int32(*FOUR)])
            else:
                assert f"request {ordinal} failed" in self.fails("failing", [int32(*FOUR)])
        self.client.infer("failing_execute", [int32(*FOUR)])
        assert "request 2 failed" in self.fails("failing_execute", [int32(*FOUR)])
        statistics = self.client.get_inference_statistics("failing", as_json=True)["model_stats"][0]["inference_stats"]
        assert statistics["fail"]["count"] == "3" and statistics["success"]["count"] == "6", statistics

    def stream(self, model, inputs, parameters=None, cancel_after=None, want=None):
        """Times, outputs and errors of one request, up to the final flag."""
        arrived = queue.Queue()
        client = self.client
        client.start_stream(lambda result, error: arrived.put((time.monotonic(), result, error)))
        client.async_stream_infer(model, inputs, parameters=parameters, enable_empty_final_response=True)
        found = []
        while True:
            if cancel_after is not None and len(found) == cancel_after:
                client.stop_stream(cancel_requests=True)
                return found
            when, result, error = arrived.get(timeout=5)
            if error is not None:
                found.append((when, None, str(error), True))
                break
            final = result.get_response().parameters["triton_final_response"].bool_param
            output = result.as_numpy("OUTPUT0")
            found.append((when, output, None, final))
            if final:
                break
        client.stop_stream()
        return found

    def check_streams(self):
        again = 0
        for final in ("flag", "null"):
            for mode in ("inline", "thread"):
                for release in ("after", "before"):
                    name = f"stream_{final}_{mode}_{release}"
                    found = self.stream(name, [int32(*FOUR)])
                    assert len(found) == (3 if final == "flag" else 4), (name, found)
                    assert [entry[3] for entry in found] == [False] * (len(found) - 1) + [True], (name, found)
                    assert all((entry[1] == FOUR).all() for entry in found[:3]), (name, found)
                    # Two gaps of 3 ms. A client that gets to run late sees the first response late, so it may look again.
                    for _ in range(3):
                        if found[2][0] - found[0][0] > 0.005:
                            break
                        again += name == "stream_flag_inline_after"
                        found = self.stream(name, [int32(*FOUR)])
                    assert found[2][0] - found[0][0] > 0.005, (name, found)
                    for count in (0, 1, 7):
                        found = self.stream(name, [int32(*FOUR)], parameters={"repeat": count})
                        contents = [entry for entry in found if entry[1] is not None]
                        assert len(contents) == count and found[-1][3], (name, count, found)
        for count in (0, 1, 5):
            repeat = given("REPEAT", np.array([count], dtype=np.int32), "INT32")
            found = self.stream("stream_input", [int32(*FOUR), repeat])
            assert len([entry for entry in found if entry[1] is not None]) == count, found
        repeat = given("REPEAT", np.array([-1], dtype=np.int32), "INT32")
        assert "repeat is -1" in self.stream("stream_input", [int32(*FOUR), repeat])[-1][2]
        assert len(self.stream("stream_failing", [int32(*FOUR)])) == 2
        found = self.stream("stream_failing", [int32(*FOUR)])
        assert len(found) == 1 and "request 2 failed" in found[0][2], found
        statistics = self.client.get_inference_statistics("stream_flag_inline_after", as_json=True)["model_stats"][0]
        assert statistics["inference_stats"]["success"]["count"] == str(4 + again), statistics

    def check_cancellation(self):
        self.stream("stream_cancel", [int32(*FOUR)], cancel_after=3)
        done, begin = queue.Queue(), time.monotonic()
        call = self.client.async_infer("cancellable", [int32(*FOUR)], lambda result, error: done.put(error))
        time.sleep(0.2)
        call.cancel()
        assert done.get(timeout=2) is not None
        self.server.client.unload_model("cancellable")
        self.server.client.unload_model("stream_cancel")
        for file in ("cancellable.json", "cancel.json"):
            totals = self.unloaded(file)
            assert totals["cancelled"] == 1 and totals["failures"] == 0, (file, totals)
        assert time.monotonic() - begin < 2.5

    def unloaded(self, file):
        path = os.path.join(self.folder, file)
        deadline = time.monotonic() + 5
        while os.path.getsize(path) == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        with open(path) as content:
            return json.load(content)

    def check_sequences(self):
        def send(model, number, identity, start=False, end=False):
            shape = (1, 1) if model == "sequence" else (4,)
            datatype = "INT32" if model == "sequence" else "INT64"
            array = np.full(shape, number, np.int32 if model == "sequence" else np.int64)
            answer = self.client.infer(model, [given("INPUT0", array, datatype)], sequence_id=identity,
                                       sequence_start=start, sequence_end=end)
            return int(answer.as_numpy("OUTPUT0").flat[0])

        for model in ("sequence", "loose_sequence"):
            for identity in (7, "seven"):
                assert send(model, 1, identity, start=True) == 1
                assert send(model, 10, identity) == 11
                assert send(model, -5, identity, end=True) == 6
        for arguments in ((1, 99), (1, 7), (1, 0, True)):
            try:
                send("loose_sequence", *arguments)
                raise AssertionError(f"{arguments} was accepted")
            except InferenceServerException as error:
                assert "sequence violation" in str(error), error
        assert send("loose_sequence", 1, 5, start=True) == 1
        try:
            send("loose_sequence", 1, 5, start=True)
            raise AssertionError("a second start was accepted")
        except InferenceServerException as error:
            assert "started again" in str(error)
        for name, file, started, ended, bad in (("sequence", "sequence.json", 2, 2, 0), ("loose_sequence", "loose.json", 4, 2, 4)):
            self.client.unload_model(name)
            totals = self.unloaded(file)
            assert (totals["sequences_started"], totals["sequences_ended"], totals["violations"]) == (started, ended, bad), totals
        lines = self.lines("sequence.jsonl")
        assert [line["correlation"] for line in lines] == [7, 7, 7, "seven", "seven", "seven"], lines
        assert [(line["start"], line["end"]) for line in lines[:3]] == [(True, False), (False, False), (False, True)]

    def check_parameters_and_journal(self):
        asked = {"text": "v\u00e4lue", "number": -3, "truth": True}
        answer = self.client.infer("echo", [int32(*FOUR)], request_id="r1", parameters=asked)
        got = answer.get_response().parameters
        assert got["text"].string_param == asked["text"] and got["number"].int64_param == -3 and got["truth"].bool_param
        (line,) = self.lines("echo.jsonl")
        assert line["parameters"] == asked and line["id"] == "r1" and line["bytes"] == 16 and line["outcome"] == "ok", line
        checksum = 0xCBF29CE484222325
        for byte in np.array(FOUR, dtype=np.int32).tobytes():
            checksum = (checksum ^ byte) * 0x100000001B3 % 2**64
        assert line["checksum"] == f"{checksum:016x}" and abs(time.monotonic_ns() - line["ns"]) < 2e9, line

    def check_statistics(self):
        self.client.infer("nonsense", [int32(*FOUR)])
        self.client.infer("early", [int32(*FOUR)])
        statistics = self.client.get_inference_statistics("nonsense", as_json=True)["model_stats"][0]["inference_stats"]
        assert int(statistics["compute_infer"]["ns"]) > 2**63, statistics

    def check_failed_loads(self):
        text = self.server.text()
        for part in ("out of coffee", '"dealy_us" is unknown', "parameter repeat needs model_transaction_policy"):
            assert part in text, part

    def check_totals(self):
        self.client.unload_model("failing")
        totals = self.unloaded("failing.json")
        assert (totals["requests"], totals["failures"], totals["responses"], totals["max_simultaneous_requests"]) == (9, 3, 9, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--backend", required=True)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="bench-check-")
    server = Server(options, folder)
    failed = 0
    try:
        checks = Checks(server, folder)
        for name in [name for name in dir(Checks) if name.startswith("check_")]:
            try:
                getattr(checks, name)()
                print(f"ok      {name}")
            except Exception as error:  # every check is to be heard
                failed += 1
                print(f"FAILED  {name}: {type(error).__name__}: {error}")
    finally:
        code = server.stop()
        if code != 0 or failed:
            failed += code != 0
            print(f"the server's exit status is {code}; the end of its log:\n" + "\n".join(server.text().splitlines()[-25:]))
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
