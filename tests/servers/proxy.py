"""A TCP proxy that does to a connection what networks do, on command."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from tests.servers.framing import Framing, Piece, framing_for
from tests.servers.server import HOST, free_port

CHUNK_BYTES = 65_536
PATIENCE_S = 10.0

Direction = Literal["requests", "replies", "both"]
T = TypeVar("T")


class Proxy:
    """Stands before a server's port, in a thread of its own. Owner: the test or fixture.

    Counts, and drops, only replies to what changes something: to scripts for Redis; for PostgreSQL
    every reply after the start of a session. A dropped reply is one that the server has sent and nobody gets:
    its connection is cut instead.
    """

    def __init__(self, target_port: int, *, port: int | None = None) -> None:
        self.target_port = target_port
        self.port = port or free_port()
        self.replies = 0  # counted ones, dropped or not
        self.dropped = 0
        self._drop_at: set[int] = set()
        self._drop_every = 0
        self._stalled: set[str] = set()
        self._links: set[Link] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._moving = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="proxy")
        self._thread.start()
        self._do(self._listen())

    def cut(self) -> None:
        """Reset every connection; new ones are served."""
        self._do(self._cut())

    def refuse(self) -> None:
        """Reset every connection, and refuse new ones until `heal`."""
        self._do(self._refuse())

    def stall(self, direction: Direction = "both") -> None:
        """Pass nothing on in that direction until `heal`; nothing is lost by it."""
        self._do(self._stall(direction))

    def drop_reply(self, nth: int = 1) -> None:
        """Drop the nth counted reply from now on."""
        self._drop_at.add(self.replies + nth)

    def drop_every(self, n: int) -> None:
        """Drop every nth counted reply."""
        self._drop_every = n

    def heal(self) -> None:
        """Pass everything on again."""
        self._do(self._heal())

    def close(self) -> None:
        """Cut everything and end the thread."""
        if self._loop.is_closed():
            return
        self._do(self._refuse())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def is_dropped(self) -> bool:
        """Count one more reply, and say whether it is dropped."""
        self.replies += 1
        is_chosen = self.replies in self._drop_at
        self._drop_at.discard(self.replies)
        if is_chosen or (self._drop_every and self.replies % self._drop_every == 0):
            self.dropped += 1
            return True
        return False

    async def moves(self, direction: str) -> None:
        """Return as soon as that direction is not stalled."""
        while direction in self._stalled:
            await self._moving.wait()

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE_S)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)

    async def _cut(self) -> None:
        for link in list(self._links):
            link.reset()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut()
        while self._links:  # noqa: ASYNC110  bounded: each of them ends now
            await asyncio.sleep(0)

    async def _stall(self, direction: Direction) -> None:
        self._stalled |= {"requests", "replies"} if direction == "both" else {direction}
        self._moving.clear()

    async def _heal(self) -> None:
        self._drop_at.clear()
        self._drop_every = 0
        self._stalled.clear()
        self._moving.set()
        await self._listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Link:
    """One client's connection and its twin to the server. Owner: the proxy's loop."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = (reader, writer)
        self._far: asyncio.StreamWriter | None = None
        self._framing: Framing | None = None
        self._task = asyncio.current_task()

    async def run(self) -> None:
        """Carry until either side ends or somebody resets it."""
        reader, writer = self._client
        try:
            far_reader, self._far = await asyncio.open_connection(HOST, self._proxy.target_port)
            async with asyncio.TaskGroup() as both:
                there = both.create_task(self._requests(reader, self._far))
                back = both.create_task(self._replies(far_reader, writer))
                await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
                there.cancel()
                back.cancel()
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._abort()

    def reset(self) -> None:
        """End both connections at once."""
        self._abort()
        if self._task is not None:
            self._task.cancel()

    def _abort(self) -> None:
        for writer in (self._client[1], self._far):
            if writer is not None:
                with suppress(OSError, RuntimeError):
                    writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._proxy.moves("requests")
            if self._framing is None:
                self._framing = framing_for(data)
            self._framing.sent(data)
            writer.write(data)
            await writer.drain()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_inside, is_dropped = False, False
        while data := await reader.read(CHUNK_BYTES):
            await self._proxy.moves("replies")
            for piece in [Piece(data=data)] if self._framing is None else self._framing.answered(data):
                if piece.counts and not is_inside:
                    is_dropped = self._proxy.is_dropped()
                is_inside = piece.counts and not piece.ends_reply
                if is_dropped and piece.ends_reply:
                    self._abort()
                    return
                if not is_dropped:
                    writer.write(piece.data)
            await writer.drain()
