"""A worker's maintenance: sweeps of its queues, and the follow-ups of the ends that it has just written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from leasemq.backend import Backend
from leasemq.clock import Clock
from leasemq.errors import BackendUnavailable, IndeterminateWrite, LeaseMQError
from leasemq.events import Herald, SweepFailed
from leasemq.maintenance import Chore, Sweep, Swept, follow_up
from leasemq.protocol.model import Settlement
from leasemq.worker.dice import Dice
from leasemq.worker.link import Link
from leasemq.worker.retention import Owed

QUIET_STEPS = 4  # of all queues where nothing happens one gets one more kind of work at each of these steps
ASKED_APART_MS = 1_000  # a lease that ends so soon after it was told of, and then has not ended, is no news
LAPSE_JITTER_MS = 250  # so that many idle workers do not look for the same dead one at once
EMPTY_OUTBOX_MS = 1_000  # after a look that found nothing, how long until the next

_MINOR = (Chore.ADVANCE, Chore.FOLLOW_UP, Chore.PRUNE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a sweeper takes a step, and what it leaves to others."""

    every_ms: int
    told_for_ms: int  # for so long a claim's word on the leases counts
    position: int  # among the worker's sweepers
    count: int  # of these


class Sweeper:
    """Sweeps one queue at a steady pace, from a random phase, so that many workers do not sweep at once.

    Each step looks for expired leases, unless a claim has done so and nothing was heard of the queue since.
    The other kinds of work go along while the queue is in use, and take turns, far apart, while it is quiet,
    as do quiet queues: an idle worker costs its backend next to nothing, however many it has. Between two
    steps it looks where a lease is expected to end (a claim that came back short has said when), prunes what
    this worker's own jobs have left, and goes on with the kinds of work that reached their bound: bound by
    bound, so that no flood holds up the others. Each queue has a sweeper, so that none waits for another
    that cannot be reached.
    """

    def __init__(
        self,
        queue: str,
        sweep: Sweep,
        link: Link,
        dice: Dice,
        clock: Clock,
        *,
        pace: Pace,
        on_swept: Callable[[str, Swept], None],
        on_renewed: Callable[[str], None],
    ) -> None:
        self._queue = queue
        self._sweep = sweep
        self._link = link
        self._dice = dice
        self._clock = clock
        self._lapse_ms: int | None = None  # when a lease of the queue can end, as last heard
        self._told_ms: int | None = None  # when that was
        self._is_told = asyncio.Event()
        self._pace = pace
        self._on_swept = on_swept
        self._on_renewed = on_renewed
        self._is_in_use = True  # at first: who was here before may have left work of any kind
        self._unfinished = frozenset[Chore]()
        self._owed = Owed(clock)
        self._steps = 0

    def note_use(self, settlements: Iterable[Settlement]) -> None:
        """Ends of attempts were stored on this queue."""
        self._sweep.note_write(self._queue)
        self._is_in_use = True
        if self._owed.add(settlements):
            self._is_told.set()

    def expect(self, lapse_in_ms: int | None) -> None:
        """The first running lease of this queue ends then, if nobody renews it; None: none runs."""
        self._told_ms = self._clock()
        if lapse_in_ms is None:
            self._lapse_ms = None
            return
        jitter_ms = int(self._dice.roll() * LAPSE_JITTER_MS)
        self._lapse_ms = self._clock() + lapse_in_ms + 1 + jitter_ms
        self._is_told.set()

    def doubt(self) -> None:
        """Something happens in this queue: what is known of its leases may be true no more."""
        self._told_ms = None

    async def run(self) -> None:
        """Sweep for ever."""
        await self._rest(int(self._dice.roll() * self._pace.every_ms))
        while True:
            if chores := self._chores():
                await self._step(chores)
            self._steps += 1
            await self._rest(self._pace.every_ms)

    async def _rest(self, rest_ms: int) -> None:
        """Wait, and do meanwhile what need not wait."""
        until_ms = self._clock() + rest_ms
        while self._clock() < until_ms:
            self._is_told.clear()
            if urgent := self._urgent():
                await self._step(urgent)
            times = (until_ms, self._lapse_ms, self._owed.due_ms)
            next_ms = min(at_ms for at_ms in times if at_ms is not None)
            wait_ms = 0 if self._unfinished else max(0, next_ms - self._clock())
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1_000):
                    await self._is_told.wait()
        await asyncio.sleep(0)

    def _urgent(self) -> Collection[Chore]:
        """Answer what is not to wait for the next step; with the rest of a flood goes a look for the dead."""
        chores = set(self._unfinished)
        if self._owed.is_due:
            chores.add(Chore.PRUNE)
        if chores or self._has_lapsed():
            chores.add(Chore.RECOVER)
        return chores

    def _has_lapsed(self) -> bool:
        return self._lapse_ms is not None and self._lapse_ms <= self._clock()

    async def _step(self, chores: Collection[Chore]) -> None:
        who = f"sweep {self._queue}"
        told_ms = None
        if self._has_lapsed():
            self._lapse_ms, told_ms, self._told_ms = None, self._told_ms, None
        try:
            swept = await self._sweep.step(self._queue, chores)
        except (BackendUnavailable, IndeterminateWrite) as error:
            self._link.failed(who, error)
            await self._link.pause(who)
            self._unfinished = frozenset(chores)
            return
        self._link.worked(who)
        if swept.recover_in_ms is not None:
            self._lapse_ms = self._clock() + swept.recover_in_ms
        if Chore.PRUNE in chores:
            self._owed.pay(self._sweep.prune_batch)
        self._unfinished = swept.unfinished
        if swept.recovered:  # the dead may have left follow-ups too
            self._unfinished |= {Chore.FOLLOW_UP}
        self._on_swept(self._queue, swept)
        is_renewed = swept.recovered == 0 and swept.recover_in_ms is None
        if is_renewed and told_ms is not None and self._clock() - told_ms >= ASKED_APART_MS:
            self._on_renewed(self._queue)

    def _chores(self) -> Collection[Chore]:
        if self._is_in_use:
            self._is_in_use = False
            return tuple(Chore)
        turn, is_between = divmod(self._steps, QUIET_STEPS)
        round_, position = divmod(turn, self._pace.count)
        is_others = is_between or position != self._pace.position
        minor = () if is_others else (_MINOR[round_ % len(_MINOR)],)
        # A claim that came back short has just looked at the leases, and said when to look again.
        is_told = self._told_ms is not None and self._clock() - self._told_ms < self._pace.told_for_ms
        return minor if is_told else (Chore.RECOVER, *minor)


class FollowUps:
    """Carries out what the worker's own settlements left in the outbox of one queue, right after them.

    No answer of the backend says whether an end had dependants, and a look costs a round trip. So: a look
    follows every terminal settlement, but after one that found nothing the next waits a second. A worker
    without dependants pays at most one look a second; with them, the next look follows at once, and so
    does the one after a child was offered.
    """

    def __init__(self, queue: str, backend: Backend, link: Link, herald: Herald, *, batch: int) -> None:
        self._queue = queue
        self._backend = backend
        self._link = link
        self._herald = herald
        self._batch = batch
        self._is_asked = asyncio.Event()
        self._is_sure = asyncio.Event()

    def ask(self) -> None:
        """A job of this queue has ended."""
        self._is_asked.set()

    def ask_now(self) -> None:
        """A job of this queue has left something to do: look without waiting."""
        self._is_sure.set()
        self._is_asked.set()

    async def run(self) -> None:
        """Look when asked, for ever."""
        while True:
            await self._is_asked.wait()
            self._is_asked.clear()
            self._is_sure.clear()
            if not await self._look():
                with suppress(TimeoutError):
                    async with asyncio.timeout(EMPTY_OUTBOX_MS / 1_000):
                        await self._is_sure.wait()

    async def _look(self) -> int:
        who = f"outbox {self._queue}"
        try:
            found = await follow_up(self._backend, self._queue, self._batch)
        except (BackendUnavailable, IndeterminateWrite) as error:
            self._link.failed(who, error)
            self.ask()
            await self._link.pause(who)
            return 1
        except LeaseMQError as error:
            told = f"{type(error).__name__}: {error}"
            self._herald.tell(SweepFailed(queue=self._queue, chore=Chore.FOLLOW_UP.value, error=told))
            found = 0
        self._link.worked(who)
        if found >= self._batch:
            self.ask()
        return found
