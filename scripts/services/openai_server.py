"""Servers and readers for scripts/services/openai.

record PORT FILE                  writes down every request: path, content type, X-Own, body
answer PORT                       answers every request with a stream of five tokens
events PORT STREAMS EVENTS SECS   waits for STREAMS requests, then sends each EVENTS events, evenly over SECS seconds
timed COMMAND...                  runs a command and says what processor time it took
"""

import resource
import socket
import subprocess
import sys
import threading
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = (
    b'data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}\n\n'
)
DONE = b"data: [DONE]\n\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def listen(port):
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    return listener


def receive(connection, rest=b""):
    """One request: its head, its body and what follows; none where the connection ends."""
    while b"\r\n\r\n" not in rest:
        data = connection.recv(65536)
        if not data:
            return None
        rest += data
    head, rest = rest.split(b"\r\n\r\n", 1)
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    length = int(fields[b"content-length"])
    while len(rest) < length:
        rest += connection.recv(65536)
    return head, fields, rest[:length], rest[length:]


def record(port, path):
    answer = b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'
    reply = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer)

    def talk(connection):
        rest = b""
        while (request := receive(connection, rest)) is not None:
            head, fields, body, rest = request
            line = [head.split(b"\r\n")[0], fields.get(b"content-type", b""), fields.get(b"x-own", b""), body]
            with open(path, "ab") as log:
                log.write(b" | ".join(line).replace(b"\n", b"\\n") + b"\n")
            connection.sendall(reply)

    listener = listen(port)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=talk, args=(connection,), daemon=True).start()


def answer(port):
    def talk(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rest = b""
        while (request := receive(connection, rest)) is not None:
            rest = request[3]
            connection.sendall(HEAD)
            for _ in range(5):
                time.sleep(0.002)
                connection.sendall(chunk(CHUNK))
            connection.sendall(chunk(DONE) + chunk(b""))

    listener = listen(port)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=talk, args=(connection,), daemon=True).start()


def events(port, streams, count, seconds):
    listener, waiting = listen(port), []
    lock = threading.Lock()

    def take(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive(connection) is not None:
            with lock:
                waiting.append(connection)

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=take, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    while len(waiting) < streams:
        time.sleep(0.01)
    for connection in waiting:
        connection.sendall(HEAD)
    piece, sent, start = chunk(CHUNK), [0] * streams, time.monotonic()
    while min(sent) < count:
        for index, connection in enumerate(waiting):
            due = min(count, int((time.monotonic() - start) / seconds * count) + 1)
            if due > sent[index]:
                connection.sendall(piece * (due - sent[index]))
                sent[index] = due
        time.sleep(0.0005)
    for connection in waiting:
        connection.sendall(chunk(DONE) + b"0\r\n\r\n")
    time.sleep(60)


def timed(command):
    started = time.monotonic()
    code = subprocess.run(command, check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime
    print(f"processor time: {spent:.2f} s in {time.monotonic() - started:.2f} s", flush=True)
    sys.exit(code)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "record":
        record(int(rest[0]), rest[1])
    elif what == "answer":
        answer(int(rest[0]))
    elif what == "events":
        events(int(rest[0]), int(rest[1]), int(rest[2]), float(rest[3]))
    elif what == "timed":
        timed(rest)
    else:
        sys.exit(__doc__)
