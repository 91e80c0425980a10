"""A server that says what the test wants, to whoever connects: for what a real one says too rarely."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

Answer = Callable[[Sequence[bytes]], bytes | None]  # to one command; None: hang up


async def _command(reader: asyncio.StreamReader) -> list[bytes]:
    head = await reader.readline()
    if not head:
        return []
    words = []
    for _ in range(int(head[1:])):
        size = int((await reader.readline())[1:])
        words.append((await reader.readexactly(size + 2))[:-2])
    return words


@asynccontextmanager
async def puppet(answer: Answer) -> AsyncIterator[int]:
    """Serve on a port, which is answered."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while command := await _command(reader):
            reply = answer(command)
            if reply is None:
                break
            writer.write(reply)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
