"""One connection with many requests in flight: each is written behind the other, and answered in that order.

A caller that is cancelled leaves its request where it stands; the answer is read and dropped. So nobody
ever reads another's.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import hiredis
from redis import exceptions as driver
from redis.asyncio import Connection

from leasemq.backends.redis.faults import broken_off, code_of, text_of, unreachable
from leasemq.backends.redis.settings import Settings
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, LeaseMQError

Word = bytes | str | int
Command = tuple[Word, ...]
Reply = bytes | int | list["Reply"] | None
Answer = Reply | driver.RedisError  # what a server says, be it an error
Connect = Callable[[], Awaitable[Connection]]

_pack_command: Any = hiredis.pack_command  # the driver's own packer of this kind is four times slower

_AT_ONCE = 256  # requests that are written together; all of them are in doubt if that fails
_IDLE_MS = 60_000  # unused for so long, a connection is tried with a PING before a write is risked on it
_PROBE_SECONDS = 1.0
_TRIALS = 8  # of one call: somebody may empty the script cache again and again
_SECOND_LOOK_SECONDS = 0.1  # whoever was frozen itself finds the time past before it finds the answer
_PAUSES_MS = (0, 20, 50, 100, 200, 400)  # before the next attempt to connect, after so many that failed
_ELSEWHERE = frozenset({"READONLY", "MASTERDOWN", "LOADING"})  # perhaps another server is the primary now


@dataclass(slots=True)
class _Request:
    """One command and who waits for its reply. Owned by its Lane."""

    what: str
    is_read: bool
    packed: bytes
    load: bytes  # makes the server know the script that the command names; empty: it names none
    answer: asyncio.Future[Answer]
    trials: int = 0
    written: int = 0  # its place among all that were written
    is_loading: bool = False  # `load` goes before it, and is answered before it
    refusal: driver.RedisError | None = None  # of `load`


class Lane:
    """One connection, opened at first use, and again after it was lost. Owner: the Link, in one loop.

    Its task is born outside a TaskGroup, because it serves whoever comes and spans nobody's life; `close`
    ends it.
    """

    def __init__(self, settings: Settings, place: str, connect: Connect) -> None:
        self.place = place
        self._settings = settings
        self._connect = connect
        self.loads = 0  # scripts that the server had forgotten, or did not know yet
        self._waiting: deque[_Request] = deque()
        self._again: deque[_Request] = deque()  # refused for lack of their script: they go before the others
        self._written = 0
        self._loaded: dict[bytes, int] = {}  # when each script was sent last, on this connection
        self._sent: deque[_Request] = deque()
        self._has_work = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._heard_ms = 0  # boot clock: when the server was last heard, or its silence began to count
        self._failures = 0
        self._is_leaving = False  # this connection leads to the wrong server: it takes nothing more
        self._is_closed = False

    async def ask(self, command: Command, what: str, *, is_read: bool, load: bytes = b"") -> Answer:
        """Send a command and answer its reply. `load` is sent before it if the server lacks its script.

        Raises: BackendUnavailable, IndeterminateWrite.
        """
        if self._is_closed:
            raise BackendUnavailable(f"the backend on {self.place} is closed: prepare it again")
        if len(self._waiting) >= self._settings.request_limit:
            raise BackendUnavailable(
                f"{self._settings.request_limit} requests wait for {self.place} already: "
                "send larger batches, or raise request_limit"
            )
        request = _request(command, what, is_read=is_read, load=load)
        self._waiting.append(request)
        self._has_work.set()
        self._start()
        return await request.answer

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, or one is being made."""
        return self._serving is not None

    def leave(self) -> None:
        """Finish what was sent on this connection, and make another for what comes."""
        self._is_leaving = True
        self._has_work.set()

    async def close(self) -> None:
        """Wait for what is under way, then close the connection. Repeatable."""
        self._is_closed = True
        self._has_work.set()
        while self._serving is not None:
            await asyncio.wait({self._serving})

    def _start(self) -> None:
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve(), name=f"redis {self.place}")
            self._serving.add_done_callback(self._ended)

    def _ended(self, serving: asyncio.Task[None]) -> None:
        """Go on with what was never sent; a defect of ours reaches those who wait."""
        self._serving = None
        left = (*self._sent, *self._again, *self._waiting)
        if serving.cancelled():
            for request in left:
                request.answer.cancel()
        elif (defect := serving.exception()) is not None:
            _fail(left, lambda _: defect)
        elif self._waiting or self._again:
            self._start()
            return
        for requests in (self._sent, self._again, self._waiting):
            requests.clear()

    async def _serve(self) -> None:
        """Serve one connection to its end."""
        try:
            connection = await self._connected()
        except LeaseMQError as error:
            refusal = error
            _fail((*self._again, *self._waiting), lambda _: refusal)
            self._again.clear()
            self._waiting.clear()
            return
        why = "it was closed"
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write_on(connection))
                group.create_task(self._read_on(connection))
                group.create_task(self._watch())
        except* (driver.RedisError, OSError) as ends:
            why = text_of(ends.exceptions[0]) or type(ends.exceptions[0]).__name__
        finally:
            lost, self._sent = self._sent, deque()
            _fail(lost, lambda one: broken_off(why, one.what, self.place, is_read=one.is_read))
            await given_up(connection)

    async def _connected(self) -> Connection:
        """Open a connection, after a pause that grows with each failure. Raises: BackendUnavailable."""
        if pause_ms := _PAUSES_MS[min(self._failures, len(_PAUSES_MS) - 1)]:
            await asyncio.sleep(pause_ms / 1_000)
        self._failures += 1
        try:
            connection = await self._connect()
        except (driver.RedisError, OSError, TimeoutError) as error:
            raise unreachable(error, self.place) from error
        self._failures = 0
        self._is_leaving = False
        self._has_work.set()  # what was never sent on the connection before
        self._loaded.clear()
        self._heard_ms = boot_ms()
        return connection

    async def _write_on(self, connection: Connection) -> None:
        """Write what waits, as much as has gathered. Raises: ConnectionError when it is over."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while (self._again or self._waiting) and not self._is_leaving:
                if not self._sent and boot_ms() - self._heard_ms > _IDLE_MS:
                    await self._try_out(connection)
                await self._write(connection, self._group())
            if (self._is_leaving or self._is_closed) and not self._sent:
                raise driver.ConnectionError("it was given up")

    def _group(self) -> list[_Request]:
        """Take what is written next."""
        source = self._again or self._waiting
        return [source.popleft() for _ in range(min(_AT_ONCE, len(source)))]

    async def _write(self, connection: Connection, group: Sequence[_Request]) -> None:
        if not self._sent:
            self._heard_ms = boot_ms()
        chunks: list[bytes] = []
        for request in group:
            self._written += 1
            request.written = self._written
            request.trials += 1
            if request.is_loading:
                self._loaded[request.load] = self._written
                chunks.append(request.load)
            chunks.append(request.packed)
        self._sent.extend(group)  # before the first byte: from here on they are in doubt
        await connection.send_packed_command(chunks, check_health=False)

    async def _try_out(self, connection: Connection) -> None:
        """Make sure that somebody is still there. Raises: ConnectionError."""
        probe = _request(("PING",), "a PING", is_read=True)
        await self._write(connection, [probe])
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await probe.answer
        except TimeoutError as error:
            raise driver.ConnectionError("it answered no more") from error

    async def _read_on(self, connection: Connection) -> None:
        """Give each request its answer. Raises: ConnectionError when it ends."""
        while True:
            reply = await read(connection)
            self._heard_ms = boot_ms()
            if not self._sent:
                raise driver.ConnectionError("it answered what nobody asked")
            self._take(reply)

    def _take(self, reply: Answer) -> None:
        request = self._sent[0]
        code = code_of(reply) if isinstance(reply, driver.RedisError) else ""
        if code in _ELSEWHERE:
            self.leave()
        if request.is_loading:  # the command's own reply comes next
            request.is_loading = False
            request.refusal = reply if isinstance(reply, driver.RedisError) else None
            return
        self._sent.popleft()
        if code == "NOSCRIPT" and request.load and request.refusal is None and request.trials < _TRIALS:
            self._repeat(request)
        elif not request.answer.done():  # else its caller was cancelled
            request.answer.set_result(request.refusal or reply if code else reply)
        if not self._sent and (self._is_leaving or self._is_closed):
            self._has_work.set()

    def _repeat(self, request: _Request) -> None:
        """Send it again, now with its script; nothing was begun. Once for all that were refused together."""
        if self._loaded.get(request.load, 0) <= request.written:
            request.is_loading = True
            self._loaded[request.load] = self._written + len(self._again) + 1
            self.loads += 1
        self._again.append(request)
        self._has_work.set()

    async def _watch(self) -> None:
        """Notice a server that answers no more, though the connection stands. Raises: ConnectionError."""
        timeout_ms = self._settings.timeout_ms
        while True:
            heard_ms = self._heard_ms
            rest_ms = heard_ms + timeout_ms - boot_ms() if self._sent else timeout_ms
            if rest_ms > 0:
                await asyncio.sleep(rest_ms / 1_000)
                continue
            await asyncio.sleep(_SECOND_LOOK_SECONDS)
            if self._sent and self._heard_ms == heard_ms:
                raise driver.ConnectionError(f"no answer within {timeout_ms} ms")


async def read(connection: Connection) -> Answer:
    """Answer the next reply, which may be an error. Raises: what the driver does when the connection ends."""
    try:
        return cast(Reply, await connection.read_response(timeout=math.inf, disconnect_on_error=False))
    except driver.ResponseError as error:
        return error
    except driver.ConnectionError as error:
        if error.status_code is None:
            raise
        return error  # the driver counts some answers (LOADING, NOAUTH) as lost connections


async def given_up(connection: Connection) -> None:
    """Close a connection at once, whatever is still in its buffers."""
    writer = connection._writer  # `close` would wait for ever for a peer that takes nothing more
    if writer is not None:
        writer.transport.abort()
    await connection.disconnect(nowait=True)


def packed(command: Command) -> bytes:
    """Answer a command as it goes over the wire."""
    return cast(bytes, _pack_command(command))


def _request(command: Command, what: str, *, is_read: bool, load: bytes = b"") -> _Request:
    return _Request(
        what=what,
        is_read=is_read,
        packed=packed(command),
        load=load,
        answer=asyncio.get_running_loop().create_future(),
    )


def _fail(requests: Iterable[_Request], error_of: Callable[[_Request], BaseException]) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(error_of(request))
