"""Above the connection limit, connections without a key are closed first."""

import asyncio
import contextlib

from tests.support import http2
from tracereel_collector.http.connections import IDLE_SECONDS, ConnectionLimits
from tracereel_collector.http.grpc_listener import GrpcListener

PING = http2.frame(http2.PING, 0, bytes(8))


async def is_open(reader):
    try:
        async with asyncio.timeout(0.5):
            return await reader.read(1) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def test_connections_without_a_key_are_closed_first():
    async def run():
        ports = asyncio.Queue()

        async def serve(reader, writer):
            ports.put_nowait(writer.get_extra_info("peername")[1])
            with contextlib.suppress(ConnectionError):
                while await reader.read(1000):
                    pass
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        listener = GrpcListener(ConnectionLimits(max_connections=2))
        inner = server.sockets[0].getsockname()[1]
        await listener.start("127.0.0.1", 0, server_port=inner, together=False)
        port = listener._listening.sockets[0].getsockname()[1]

        known, keep = await asyncio.open_connection("127.0.0.1", port)
        listener.clients[await ports.get()].is_admitted = True
        busy, stranger = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(IDLE_SECONDS + 0.1)
        stranger.write(http2.PREFACE + PING)
        await asyncio.sleep(0.05)
        _, third = await asyncio.open_connection("127.0.0.1", port)
        found = await asyncio.gather(is_open(known), is_open(busy))
        listener.close()
        listener.end_all()
        for each in (keep, stranger, third):
            each.close()
            with contextlib.suppress(ConnectionError):
                await each.wait_closed()
        server.close()
        await asyncio.sleep(0.1)
        return found

    assert asyncio.run(run()) == [True, False]
