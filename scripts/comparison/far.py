"""A network between a client and a server on this machine: what either sends arrives later, in order."""

import asyncio
import contextlib
import multiprocessing
import random

ONE_WAY_S, JITTER_S = 0.020, 0.001


async def carry(reader, writer):
    """Hands on what is read, each piece after the way's time and some more."""
    loop, due = asyncio.get_running_loop(), 0.0
    while data := await reader.read(1 << 16):
        due = max(due, loop.time() + ONE_WAY_S + random.expovariate(1 / JITTER_S))
        loop.call_at(due, writer.write, data)
    # After the last piece.
    loop.call_at(due, writer.close)


async def connect(address, reader, writer):
    """Both directions of one connection."""
    there, back = await asyncio.open_connection(*address)
    with contextlib.suppress(OSError):
        await asyncio.gather(carry(reader, back), carry(there, writer))


async def serve(address, ports):
    async def handle(reader, writer):
        await connect(address, reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    ports.put(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def be_between(address, ports):
    """What the process of the network does."""
    asyncio.run(serve(address, ports))


@contextlib.contextmanager
def far_away(url):
    """The address, HOST:PORT, under which the server at that one is behind such a network."""
    host, port = url.rsplit(":", 1)
    ports = multiprocessing.Queue()
    process = multiprocessing.Process(target=be_between, args=((host, int(port)), ports), daemon=True)
    process.start()
    try:
        yield f"127.0.0.1:{ports.get(timeout=10)}"
    finally:
        process.kill()
        process.join()
