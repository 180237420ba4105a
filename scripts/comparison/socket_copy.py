#!/usr/bin/env python3
"""The floor for large tensors over HTTP: sends one ready-made inference over and over and throws its reply away.

usage: socket_copy.py HOST:PORT MODEL BYTES CONNECTIONS SECONDS

Each connection has a thread that waits for its reply, and moves bytes with as few system calls as the socket allows.
Prints requests a second."""

import socket
import sys
import threading
import time

READ_BYTES = 1 << 20


def _request(host, model, size):
    header = (
        f'{{"inputs":[{{"name":"INPUT0","shape":[1,{size // 4}],"datatype":"FP32","parameters":{{"binary_data_size":{size}}}}}],'
        '"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]}'
    ).encode()
    head = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/octet-stream\r\n"
        f"Inference-Header-Content-Length: {len(header)}\r\nContent-Length: {len(header) + size}\r\n\r\n"
    ).encode()
    return head + header + bytes(size)


def _read_reply(connection, buffer):
    """Reads one reply to its last byte; the server says its length."""
    count = connection.recv_into(buffer)
    head, blank, _ = bytes(buffer[: min(count, 4096)]).partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200") or not blank:
        raise SystemExit(f"socket_copy: error: unexpected reply {head[:200]!r}")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    left = int(fields[b"content-length"]) - (count - len(head) - len(blank))
    while left > 0:
        count = connection.recv_into(buffer, min(left, len(buffer)))
        if count == 0:
            raise SystemExit("socket_copy: error: the server closed the connection within a reply")
        left -= count


def _copy(address, request, until, counts):
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer, count = memoryview(bytearray(READ_BYTES)), 0
        while time.monotonic() < until:
            connection.sendall(request)
            _read_reply(connection, buffer)
            count += 1
        counts.append(count)


def main():
    url, model, size, connections, seconds = sys.argv[1:]
    host, _, port = url.rpartition(":")
    request, counts = _request(url, model, int(size)), []
    began = time.monotonic()
    threads = [
        threading.Thread(target=_copy, args=((host, int(port)), request, began + float(seconds), counts))
        for _ in range(int(connections))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counts) < len(threads):
        sys.exit(1)
    print(f"{sum(counts) / (time.monotonic() - began):.3f}")


if __name__ == "__main__":
    main()
