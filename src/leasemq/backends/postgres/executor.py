"""Requests to the server: each on a lane, each carried out to its end whoever waits for it.

Lanes keep apart what must not wait for one another: claims, which may be lost in a crash and so are not
synced (the job is ready again then); the other writes; reads; and the slow upkeep of a sweep.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from leasemq.backends.postgres.faults import Trial
from leasemq.backends.postgres.loops import PerLoop
from leasemq.backends.postgres.routine import Routine
from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.wire import Attempts, Row, Terms, Wire
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, LeaseMQError

Execute = Callable[[str], Awaitable[None]]


class Catalogue(Protocol):
    """The functions of one release. `functions.py` has it."""

    def routine(self, name: str) -> Routine:
        """Answer the function of an operation."""

    def install(self, execute: Execute) -> Coroutine[object, object, None]:
        """Create the functions that are missing. Repeatable, and safe from many processes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneShape:
    """What the connections of a lane are: how many, whether commits are synced, the longest statement."""

    connections: int
    synchronous_commit: bool = True
    statement_ms: int | None = None  # None: as the settings say


CLAIMS, WRITES, READS, UPKEEP = "claims", "writes", "reads", "upkeep"

SHAPES: Mapping[str, LaneShape] = {
    CLAIMS: LaneShape(connections=1, synchronous_commit=False),
    WRITES: LaneShape(connections=2),
    READS: LaneShape(connections=1),
    UPKEEP: LaneShape(connections=1, statement_ms=600_000),  # a vacuum that is cut short was for nothing
}

_UPKEEP = frozenset({"prune", "tidy", "drain", "purge", "obliterate", "vacuum"})


def lane_of(routine: Routine) -> str:
    """Answer on which lane an operation goes."""
    if routine.name == "claim":
        return CLAIMS
    if routine.name in _UPKEEP:
        return UPKEEP
    return READS if routine.is_read else WRITES


@dataclass(slots=True)
class _Request:
    """Owner: its lane."""

    routine: Routine
    values: Sequence[object]
    answer: asyncio.Future[list[Row]]
    trial: Trial
    until_ms: int = 0  # from its first try on: it is not tried again after that
    stands_in_line: bool = False  # was undone because others held a lock


class Lane:
    """Requests in the order of their making, and the wires that carry them. Owner: one loop's `Lanes`.

    A wire's task lives while there is something to carry. It is born outside a TaskGroup, because the
    error of a request must reach its caller and nobody else; `close` waits for it.

    A request that was undone because others held a lock is tried again, after those that came meanwhile:
    to stand in a line of others who work is no trouble. One wire at a time stands there; the rest go on.
    """

    def __init__(self, wires: Sequence[Wire], settings: Settings) -> None:
        self._resting = list(wires)
        self._limit = settings.request_limit
        self._place = settings.place
        self._request_ms = settings.request_ms
        self._waiting: deque[_Request] = deque()
        self._in_line: deque[tuple[_Request, LeaseMQError]] = deque()  # with what the last try was told
        self._carrying: dict[asyncio.Task[None], Wire] = {}
        self._in_flight: dict[Wire, _Request] = {}

    def ask(self, routine: Routine, values: Sequence[object]) -> asyncio.Future[list[Row]]:
        """Answer where the answer will be. Raises: BackendUnavailable when too many requests wait already."""
        if not self._resting and len(self._waiting) + len(self._in_line) >= self._limit:
            raise BackendUnavailable(
                f"{self._limit} requests wait for {self._place} already: "
                "send larger batches, or raise request_limit"
            )
        trial = Trial(place=self._place, is_read=routine.is_read)
        request = _Request(routine, values, asyncio.get_running_loop().create_future(), trial)
        if self._resting:
            self._start(request)
        else:
            self._waiting.append(request)
        return request.answer

    async def close(self) -> None:
        """Wait for every request, then give the connections back."""
        while self._carrying:
            await asyncio.wait(list(self._carrying))
        self.drop()

    def drop(self) -> None:
        """Give the connections back, whatever is under way."""
        for wire in (*self._resting, *self._carrying.values()):
            wire.close()

    def _start(self, request: _Request) -> None:
        wire = self._resting.pop(self._best())
        task = asyncio.get_running_loop().create_task(self._carry(wire, request))
        self._carrying[task] = wire
        task.add_done_callback(partial(self._ended, wire))

    def _best(self) -> int:
        """Answer the place of the open wire that was used last: its plans are at hand on the server."""
        return max((place for place, wire in enumerate(self._resting) if wire.is_open), default=0)

    async def _carry(self, wire: Wire, first: _Request) -> None:
        request: _Request | None = first
        while request is not None:
            self._in_flight[wire] = request
            request.until_ms = request.until_ms or boot_ms() + self._request_ms
            try:
                rows = await wire.run(request.routine, request.values, request.trial)
            except LeaseMQError as error:
                request.stands_in_line = request.trial.is_locked_out and boot_ms() < request.until_ms
                if request.stands_in_line:
                    self._in_line.append((request, error))
                else:
                    _fail(request, error)
                if wire.is_cut_off:
                    self._refuse_waiting(error)
            else:
                if not request.answer.done():
                    request.answer.set_result(rows)
            del self._in_flight[wire]
            request = self._next(request)
        self._resting.append(wire)  # here: whoever was just answered may ask again before this task has ended

    def _refuse_waiting(self, error: LeaseMQError) -> None:
        """Tell those who wait what the first was told, unless another wire carries on.

        Each would otherwise wait for a try of its own, and each try longer than the one before.
        """
        if not any(wire.is_open for wire in self._carrying.values()):
            for request in self._taken_waiting():
                _fail(request, BackendUnavailable(*error.args))

    def _taken_waiting(self) -> list[_Request]:
        waiting = [*self._waiting, *(request for request, _ in self._in_line)]
        self._waiting.clear()
        self._in_line.clear()
        return waiting

    def _next(self, before: _Request) -> _Request | None:
        """Answer whose turn it is after a request, those who stand in line and others by turns."""
        if before.stands_in_line:
            return self._next_waiting() or self._next_in_line()
        return self._next_in_line() or self._next_waiting()

    def _next_waiting(self) -> _Request | None:
        while self._waiting:
            request = self._waiting.popleft()
            if not request.answer.done():  # else its caller was cancelled before it was sent
                return request
        return None

    def _next_in_line(self) -> _Request | None:
        while self._in_line and not any(request.stands_in_line for request in self._in_flight.values()):
            request, error = self._in_line.popleft()
            if boot_ms() >= request.until_ms:
                _fail(request, error)
            elif not request.answer.done():  # else nobody asks for what was undone
                return request
        return None

    def _ended(self, wire: Wire, task: asyncio.Task[None]) -> None:
        """A defect reaches whoever waits for it, the end of the loop all of them."""
        del self._carrying[task]
        defect = None if task.cancelled() else task.exception()
        if not task.cancelled() and defect is None:
            return
        request = self._in_flight.pop(wire, None)
        self._resting.append(wire)
        wire.close()
        if defect is None:
            for abandoned in (*([request] if request else []), *self._taken_waiting()):
                abandoned.answer.cancel()
        elif request is not None:
            _fail(request, defect)
        following = self._next_waiting() or self._next_in_line()
        if following is not None:
            self._start(following)


class Lanes:
    """What one event loop has open. Owner: the executor."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        attempts = Attempts()
        self._lanes: dict[str, Lane] = {}
        for name, shape in SHAPES.items():
            longest_ms = shape.statement_ms or settings.statement_ms
            terms = Terms(
                settings=replace(settings, statement_ms=longest_ms),
                attempts=attempts,
                install=catalogue.install,
                synchronous_commit=shape.synchronous_commit,
            )
            wires = [Wire(terms) for _ in range(shape.connections)]
            self._lanes[name] = Lane(wires, settings)

    def ask(self, routine: Routine, values: Sequence[object]) -> asyncio.Future[list[Row]]:
        """See `Lane.ask`."""
        return self._lanes[lane_of(routine)].ask(routine, values)

    async def close(self) -> None:
        """Finish what was asked for and give all connections back."""
        for lane in self._lanes.values():
            await lane.close()

    def drop(self) -> None:
        """Give all connections back at once: their loop is closed."""
        for lane in self._lanes.values():
            lane.drop()


class Executor:
    """Calls functions from whatever loop runs; opens nothing before its use. Owner: the backend object."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        self.settings = settings
        self._catalogue = catalogue
        self._places: PerLoop[Lanes] = PerLoop(partial(Lanes, settings, catalogue), Lanes.drop)
        self._is_closed = False

    async def call(self, name: str, *values: object) -> list[Row]:
        """Call the function of an operation; its answer's rows.

        Cancelling the caller takes nothing back that was sent.

        Raises:
            BackendUnavailable: It did not happen, or it only reads.
            IndeterminateWrite: It was sent, and its answer was lost.
        """
        return await self._here().ask(self._catalogue.routine(name), values)

    async def run(self, routine: Routine) -> list[Row]:
        """Run a statement that is no function, alone in its transaction. Raises: as `call`."""
        return await self._here().ask(routine, ())

    def open(self) -> None:
        """Take requests again after a close."""
        self._is_closed = False

    async def close(self) -> None:
        """Finish what was asked for in this loop and give all connections back. Repeatable."""
        self._is_closed = True
        lanes = self._places.taken(asyncio.get_running_loop())
        if lanes is not None:
            await lanes.close()

    def _here(self) -> Lanes:
        if self._is_closed:
            raise BackendUnavailable(f"the backend on {self.settings.place} is closed: prepare it again")
        return self._places.of(asyncio.get_running_loop())


def _fail(request: _Request, error: BaseException) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
