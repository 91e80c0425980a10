"""A worker's maintenance: sweeps of its queues, and the follow-ups of the ends that it has just written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

from leasemq.backend import Backend
from leasemq.clock import Clock
from leasemq.errors import BackendUnavailable, IndeterminateWrite, LeaseMQError
from leasemq.events import Herald, SweepFailed
from leasemq.maintenance import Chore, Sweep, Swept, follow_up
from leasemq.worker.dice import Dice
from leasemq.worker.link import Link

QUIET_STEPS = 4  # a queue where nothing happens gets one more kind of work only at each of these steps
LAPSE_JITTER_MS = 250  # so that many idle workers do not look for the same dead one at once
EMPTY_OUTBOX_MS = 1_000  # after a look that found nothing, how long until the next

_MINOR = (Chore.ADVANCE, Chore.FOLLOW_UP, Chore.PRUNE)


class Sweeper:
    """Sweeps at a steady pace, from a random phase, so that many workers do not sweep at once.

    Each step looks for expired leases. The other kinds of work go along while the queue is in use, and
    take turns, far apart, while it is quiet: an idle worker costs its backend next to nothing. Between
    two steps it looks when a lease is expected to end: a claim that came back short has said when.
    """

    def __init__(
        self,
        sweep: Sweep,
        link: Link,
        dice: Dice,
        clock: Clock,
        *,
        every_ms: int,
        on_swept: Callable[[str, Swept], None],
    ) -> None:
        self._sweep = sweep
        self._link = link
        self._dice = dice
        self._clock = clock
        self._lapses: dict[str, int] = {}  # when a lease of the queue can end, as last heard
        self._is_told = asyncio.Event()
        self._every_ms = every_ms
        self._on_swept = on_swept
        self._in_use: set[str] = set()
        self._steps = 0

    def note_use(self, queue: str) -> None:
        """Something happened on this queue."""
        self._in_use.add(queue)

    def expect(self, queue: str, lapse_in_ms: int | None) -> None:
        """The first running lease of this queue ends then, if nobody renews it; None: none runs."""
        if lapse_in_ms is None:
            self._lapses.pop(queue, None)
            return
        jitter_ms = int(self._dice.roll() * LAPSE_JITTER_MS)
        self._lapses[queue] = self._clock() + lapse_in_ms + 1 + jitter_ms
        self._is_told.set()

    async def run(self) -> None:
        """Sweep for ever."""
        await self._rest(int(self._dice.roll() * self._every_ms))
        while True:
            more = False
            for queue in self._sweep.queues:
                more |= await self._step(queue, self._chores(queue))
            self._steps += 1
            await self._rest(0 if more else self._every_ms)

    async def _rest(self, rest_ms: int) -> None:
        """Wait, and look for expired leases where one is expected meanwhile."""
        until_ms = self._clock() + rest_ms
        while (now_ms := self._clock()) < until_ms:
            for queue in [queue for queue, at_ms in self._lapses.items() if at_ms <= now_ms]:
                del self._lapses[queue]
                await self._step(queue, (Chore.RECOVER,))
            next_ms = min([until_ms, *self._lapses.values()])
            self._is_told.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0, next_ms - self._clock()) / 1_000):
                    await self._is_told.wait()
        await asyncio.sleep(0)

    async def _step(self, queue: str, chores: Collection[Chore]) -> bool:
        who = f"sweep {queue}"
        try:
            swept = await self._sweep.step(queue, chores)
        except (BackendUnavailable, IndeterminateWrite) as error:
            self._link.failed(who, error)
            await self._link.pause(who)
            return True
        self._link.worked(who)
        self._on_swept(queue, swept)
        return swept.more

    def _chores(self, queue: str) -> Collection[Chore]:
        if queue in self._in_use:
            self._in_use.discard(queue)
            return tuple(Chore)
        turn, is_between = divmod(self._steps, QUIET_STEPS)
        if is_between:
            return (Chore.RECOVER,)
        return (Chore.RECOVER, _MINOR[turn % len(_MINOR)])


class FollowUps:
    """Carries out what the worker's own settlements left in the outbox, right after them.

    No answer of the backend says whether an end had dependants, and a look costs a round trip. So: a look
    follows every terminal settlement, but after one that found nothing the next waits a second. A worker
    without dependants pays at most one look a second; with them, the next look follows at once.
    """

    def __init__(self, backend: Backend, link: Link, herald: Herald, *, batch: int) -> None:
        self._backend = backend
        self._link = link
        self._herald = herald
        self._batch = batch
        self._asked: set[str] = set()
        self._is_asked = asyncio.Event()

    def ask(self, queue: str) -> None:
        """A job of this queue has ended."""
        self._asked.add(queue)
        self._is_asked.set()

    async def run(self) -> None:
        """Look when asked, for ever."""
        while True:
            await self._is_asked.wait()
            self._is_asked.clear()
            queues, self._asked = self._asked, set()
            found = 0
            for queue in sorted(queues):
                found += await self._look(queue)
            if not found:
                await asyncio.sleep(EMPTY_OUTBOX_MS / 1_000)

    async def _look(self, queue: str) -> int:
        who = f"outbox {queue}"
        try:
            found = await follow_up(self._backend, queue, self._batch)
        except (BackendUnavailable, IndeterminateWrite) as error:
            self._link.failed(who, error)
            self.ask(queue)
            await self._link.pause(who)
            return 1
        except LeaseMQError as error:
            told = f"{type(error).__name__}: {error}"
            self._herald.tell(SweepFailed(queue=queue, chore=Chore.FOLLOW_UP.value, error=told))
            found = 0
        self._link.worked(who)
        if found >= self._batch:
            self.ask(queue)
        return found
