"""A tritonserver of its own for a study."""

import socket
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .programs import RunFailed, end, start

START_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    ports: dict  # protocol to port
    files: Path  # a folder that lasts as long as the server

    def url(self, protocol):
        return f"127.0.0.1:{self.ports[protocol]}"


def _free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def running_server(programs, repository):
    """A tritonserver on free ports with the models of `repository`, ended when the block is left."""
    http, grpc = _free_ports(2)
    command = [
        str(programs.server / "bin/tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={programs.server / 'backends'}",
        f"--http-port={http}", f"--grpc-port={grpc}", "--allow-metrics=false", "--log-info=false",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w+") as said:
        process = start(command, output=said)
        try:
            limit = time.monotonic() + START_SECONDS
            while not all(_listens(port) for port in (http, grpc)):
                if process.poll() is not None or time.monotonic() > limit:
                    said.seek(0)
                    raise RunFailed(f"tritonserver does not answer: {said.read()[-500:]}")
                time.sleep(0.1)
            yield Server({"http": http, "grpc": grpc}, Path(folder))
        finally:
            end(process)
