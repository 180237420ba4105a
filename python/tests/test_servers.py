"""Rows of the servers that requests were spread over. It needs the program and pandas, and no Triton: the servers are here."""

import json
import threading
import unittest
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import triton_bench
from triton_bench import _frames
from triton_bench._result import parse


class Answering(BaseHTTPRequestHandler):
    """Answers every prompt in one word."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer({"data": [{"id": "m"}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"object": "chat.completion", "choices": [{"message": {"content": "yes"}}]})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serving():
    """The URL of a server that runs meanwhile."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Servers(unittest.TestCase):
    def test_a_frame_has_a_row_for_each_server(self):
        with serving() as first, serving() as second:
            flags = {"service_kind": "openai", "endpoint": "v1/chat/completions", "prompt_tokens": 5, "request_count": 40}
            result = triton_bench.run(model="m", u=[first, second], concurrency_range="1:2", **flags)
            alone = triton_bench.run(model="m", u=first, **flags)
        frame = result.to_dataframe(rows="servers")
        self.assertEqual(list(frame["server"]), [first, second] * 2)
        self.assertEqual(list(frame["load"]), [1, 1, 2, 2])
        self.assertEqual(list(frame["requests"]), [20] * 4)
        self.assertTrue((frame["throughput"] > 0).all() and (frame["p99"] < 10).all())
        self.assertEqual(len(alone.to_dataframe(rows="servers")), 0, "one server is the whole level")

    def test_what_servers_say_of_their_load_is_in_their_rows(self):
        latency = {"count": 0}
        client = {"batch_size": 1, "requests": 4, "failed": 0, "duration_s": 2.0, "latency": latency, "errors": []}
        load = {"running": {"mean": 2.5, "max": 4.0}, "waiting": None}
        level = {"load": {"kind": "concurrency", "value": 2}, "outcome": "valid", "figures": {}, "intervals": []}
        level |= {"client": {**client, "servers": [client]}, "hosts": [{"pending_requests": 1.5, "load": load}]}
        raw = {"schema": 1, "levels": [level], "requirements": [], "exit_code": 0, "servers": ["a:8000"]}
        rows = _frames.rows(parse(json.dumps(raw), "x"), "servers")
        expected = {"server": "a:8000", "throughput": 2.0, "running": 2.5, "running_max": 4.0, "pending_requests": 1.5}
        self.assertEqual(rows[0] | expected, rows[0])

    def test_what_requirements_of_variants_are_about_is_in_their_rounds(self):
        with serving() as first:
            flags = {"service_kind": "openai", "endpoint": "v1/chat/completions", "prompt_tokens": 5, "p": 100, "gate_time": "3s"}
            gate = {"goodput": "latency<10s", "require": "good>=1%"}
            result = triton_bench.run(model="m", u=first, variant=["one:-c 1", "two:-c 2"], **gate, **flags)
        rounds = result.to_dataframe(rows="rounds")
        self.assertTrue((rounds["goodput_share"] == 1).all(), rounds)
        named = [{"key": key, "value": 2e9} for key in ("ttft_p99.9", "itl_avg", "output_length")]
        unit = {"values": [], "named": named, "requests": 1, "failed": 0, "disturbed": False, "problem": None}
        measured = {"order": [0], "units": [unit], "start": 1, "number": 1, "set_aside": False}
        cell = {"loads": [{"kind": "concurrency", "value": 1}], "size": None, "rounds": [measured]}
        row = next(_frames._rounds({"variants": [{"name": "a"}], "cells": [cell]}))
        self.assertEqual((row["ttft_p99.9"], row["itl_avg"], row["output_length"]), (2.0, 2.0, 2e9), "only times are in ns")


if __name__ == "__main__":
    unittest.main()
