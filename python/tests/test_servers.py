"""Rows of the servers that requests were spread over. It needs the program and pandas, and no Triton: the servers are here."""

import json
import threading
import unittest
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import triton_bench


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


if __name__ == "__main__":
    unittest.main()
