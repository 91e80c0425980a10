"""What one run of a worker is made of, and who tells whom. Made anew, in the loop, by each `Worker.run`."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from uuid import uuid4

from leasemq.backend import Backend
from leasemq.clock import Clock
from leasemq.events import Herald, LeasesInDanger, WorkerStarted
from leasemq.logs import this_worker
from leasemq.maintenance import Sweep, Swept
from leasemq.protocol.insight import WorkerInfo
from leasemq.protocol.keeping import margin_ms, stop_at_ms
from leasemq.protocol.model import Ref, State, Wake
from leasemq.worker.attempts import Attempts
from leasemq.worker.claims import Answered, Claims
from leasemq.worker.company import Company, Member
from leasemq.worker.dice import Dice
from leasemq.worker.ears import listen
from leasemq.worker.executors import Executors
from leasemq.worker.forks import never_turn_in_a_fork
from leasemq.worker.health import Health, Phase
from leasemq.worker.keeper import Keeper, Round
from leasemq.worker.link import Link
from leasemq.worker.outlook import Outlook
from leasemq.worker.registry import JOBS_SHOWN, VERSION, announce, tasks_shown
from leasemq.worker.routine import Routine, by_name
from leasemq.worker.settings import ANNOUNCE_TTL_MS, WorkerSettings
from leasemq.worker.settler import Bounds, Ending, Lane
from leasemq.worker.sweeper import FollowUps, Pace, Sweeper
from leasemq.worker.threads import in_own_thread
from leasemq.worker.transacting import Transactions
from leasemq.worker.watchdog import Watchdog

Loop = Callable[[], Coroutine[object, object, None]]


class Crew:
    """The parts of one run, wired. Owner: the worker's `run`."""

    def __init__(
        self,
        backend: Backend,
        routines: Mapping[str, Routine],
        settings: WorkerSettings,
        herald: Herald,
        clock: Clock,
        source: random.Random | None,
        company: Company,
        stopping: asyncio.Event,
    ) -> None:
        self.backend = backend
        self.settings = settings
        self.herald = herald
        self.clock = clock
        self.stopping = stopping
        self.incarnation = uuid4().hex if source is None else f"{source.getrandbits(128):032x}"
        # First of all, so that whatever is made here logs as this worker.
        self.logs_as = this_worker.set((settings.name, self.incarnation))
        self.queues = tuple(settings.queues)
        self._tasks = tasks_shown(by_name(routines))
        self.suspect_queue: str | None = None  # a suspect waits there for this process to run empty
        self.suspect_held = False  # one runs here, with the process to itself
        self.is_hearing = asyncio.Event()
        self._attention = asyncio.Event()
        self._holds_others = asyncio.Event()  # than a moment ago
        self.advancing: set[str] = set()  # queues whose due jobs are being made to wait in order
        self._early_cancels: set[Ref] = set()  # heard while a claim was out: of jobs that it may bring
        self._margin_ms = margin_ms(settings.lease_ms, settings.heartbeat_for(settings.lease_ms))
        self._dice = Dice(source)
        self.claim_lease_ms = settings.claim_lease_for(routines.values())
        self.link = Link(herald, clock, self._dice.roll)
        self.keeper = Keeper(backend.renewer, clock, self._dice.roll, self._hear_round)
        self.link.on_hope = self.keeper.look_now
        self.follow_ups = {
            queue: FollowUps(queue, backend, self.link, herald, batch=settings.sweep_batch)
            for queue in self.queues
        }
        self.lanes = self._make_lanes()
        self.attempts = self._make_attempts(routines)
        loop = asyncio.get_running_loop()
        never_turn_in_a_fork(loop)
        self.company = company
        self.member = Member(held=lambda: self.attempts.held, wake=lambda: _wake(loop, self._attention))
        self.claims = Claims(
            backend,
            self.link,
            clock,
            self._dice,
            stopping,
            queues=self.queues,
            worker=settings.name,
            incarnation=self.incarnation,
            lease_ms=self.claim_lease_ms,
            on_aside=self._close,
            on_late=self.draw_attention,
        )
        self.idle_ms = settings.idle_for(routines.values())
        self.outlook = Outlook(settings.queues, self.idle_ms, clock(), settings.turn_for(routines.values()))
        self.sweepers = self._make_sweepers(routines, source)

    def _make_lanes(self) -> dict[str, Lane]:
        bounds = Bounds(count=self.settings.settle_batch, size_bytes=self.settings.settle_batch_bytes)
        return {
            queue: Lane(queue, self.backend, self.link, self.keeper, self._dice, bounds, self._settled)
            for queue in self.queues
        }

    def _make_attempts(self, routines: Mapping[str, Routine]) -> Attempts:
        return Attempts(
            routines=routines,
            settings=self.settings,
            lanes=self.lanes,
            keeper=self.keeper,
            executors=Executors(self.stopping, routines.values()),
            herald=self.herald,
            dice=self._dice,
            transactions=Transactions(self.backend, self.keeper, self._dice, self._settled_alone),
            on_change=self._notice,
            on_offer=lambda queue: self.follow_ups[queue].ask_now(),
        )

    def _make_sweepers(
        self, routines: Mapping[str, Routine], source: random.Random | None
    ) -> dict[str, Sweeper]:
        sweep = Sweep(
            self.backend,
            self.queues,
            batch=self.settings.sweep_batch,
            lease_ms=self.settings.lease_ms,
            clock=self.clock,
            source=source,
            tell=self.herald.tell,
            event_age_ms=self.settings.event_age_ms,
            keep_newest=self.settings.keep_newest,
            prove=lambda: self.backend.announce(self._info(), ANNOUNCE_TTL_MS),
        )
        return {
            queue: Sweeper(
                queue,
                sweep,
                self.link,
                self._dice,
                self.clock,
                pace=Pace(
                    every_ms=self.settings.sweep_for(routines.values()),
                    told_for_ms=self.settings.told_for(routines.values()),
                    position=position,
                    count=len(self.queues),
                ),
                on_swept=self._swept,
                on_renewed=self._ask,
            )
            for position, queue in enumerate(self.queues)
        }

    def settling(self) -> list[Coroutine[object, object, None]]:
        """Answer what writes ends: it outlives all else, so that what the rest leaves can be given back."""
        return [_for_ever(lane.run) for lane in self.lanes.values()]

    def watches(self, *, in_threads: bool) -> list[Coroutine[object, object, None]]:
        """Answer what watches over leases, and over the loop where threads can."""
        loops: list[Loop] = [self._watch_deadlines]
        return [_for_ever(loop) for loop in ([*loops, self._watch_loop] if in_threads else loops)]

    async def _watch_loop(self) -> None:
        stall_after_ms = self.settings.longest_stall_ms
        watchdog = Watchdog(asyncio.get_running_loop(), self.herald, self.clock, stall_after_ms)
        self.attempts.overdue.on_begin = watchdog.began
        await in_own_thread(watchdog.watch, watchdog.stop, "leasemq-watchdog")

    def chores(self) -> list[Coroutine[object, object, None]]:
        """Answer what runs beside the claiming loop, until it is cancelled."""
        chores: list[Loop] = [
            partial(
                listen,
                self.backend,
                self.queues,
                self.link,
                timeout_ms=self.idle_ms,
                on_open=self._open,
                on_wake=self._hear,
            ),
            *(one.run for one in self.follow_ups.values()),
            partial(announce, self.backend, self.link, self._info, self._holds_others),
        ]
        if self.settings.sweep:
            chores += [sweeper.run for sweeper in self.sweepers.values()]
        return [_for_ever(loop) for loop in chores]

    @property
    def room(self) -> int:
        """How many jobs may be claimed now; 0 or less: none."""
        return 0 if self.company.is_closed_to(self.member) else self.attempts.room - self.claims.kept

    def tell_started(self) -> None:
        """Say who begins to claim."""
        self.herald.tell(
            WorkerStarted(
                worker=self.settings.name,
                incarnation=self.incarnation,
                queues=self.queues,
                slots=self.settings.concurrency,
            )
        )

    def _close(self, queue: str) -> None:
        """Its claim goes on aside."""
        self.outlook.close(queue)

    def draw_attention(self) -> None:
        """Let the claiming loop look again."""
        self._attention.set()

    async def attention(self, timeout_ms: int) -> None:
        """Return when something may have changed for the claiming loop, or after the time-out."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._attention.wait()
        except TimeoutError:
            pass
        self._attention.clear()

    def take(self, answered: Answered) -> None:
        """Start what a claim brought, unless it came after a stop, or so late that it may have ended."""
        queue, claimed = answered.queue, answered.claimed
        now_ms, lease_ms = self.clock(), self.claim_lease_ms
        is_more_likely = claimed.reason is None and bool(claimed.leases)
        self.outlook.took(queue, len(claimed.leases), now_ms, is_more_likely=is_more_likely)
        self.outlook.promise(queue, now_ms, claimed.next_due_in_ms)
        if claimed.reason is not None:
            self.sweepers[queue].expect(claimed.next_lapse_in_ms)
        self.suspect_queue = queue if claimed.suspect_waits else self.suspect_queue
        is_late = stop_at_ms(answered.sent_ms, lease_ms, self.settings.heartbeat_for(lease_ms)) <= now_ms
        take = self.attempts.give_back if self.stopping.is_set() or is_late else self.attempts.start
        take(claimed.leases, answered.sent_ms, lease_ms)
        self.attempts.cancel(self._early_cancels)
        if not self.claims.is_asking:
            self._early_cancels.clear()
        self.suspect_held = self.attempts.has_suspect
        self._holds_others.set()

    async def _watch_deadlines(self) -> None:
        tick_ms = max(1, self._margin_ms // 2)
        known, untold, next_line_ms = frozenset[int](), 0, 0
        while True:
            wait_ms = self.keeper.watch_in_ms()
            await asyncio.sleep((wait_ms or tick_ms) / 1_000)
            in_danger = self.keeper.in_danger()
            self.attempts.endanger(in_danger)
            untold += len(frozenset(in_danger) - known)
            known = frozenset(in_danger)
            if untold and self.clock() >= next_line_ms:
                self.herald.tell(LeasesInDanger(count=untold))
                untold, next_line_ms = 0, self.clock() + self.settings.lease_ms

    def _notice(self) -> None:
        """A slot or a lease was given back, here."""
        self._attention.set()
        self._holds_others.set()
        if self.attempts.is_clogged:  # this worker has hardly any slots left: another shall take its place
            self.stopping.set()
        if self.suspect_held and not self.attempts.has_suspect:
            self.suspect_held = False
            self.company.open(self.member)
        self.company.tell_soloist()

    def _open(self) -> None:
        """The listener was opened, or could not be: whatever was pushed before may have been missed."""
        self.outlook.hear_all()
        for sweeper in self.sweepers.values():
            sweeper.doubt()
        self.is_hearing.set()
        self._attention.set()

    def _hear(self, wake: Wake) -> None:
        if self.outlook.hear(wake.queues):
            for queue in wake.queues.intersection(self.queues):
                self.sweepers[queue].doubt()
            self._attention.set()
        if wake.cancels:
            self.attempts.cancel(wake.cancels)
            if self.claims.is_asking:
                self._early_cancels.update(wake.cancels)

    def _hear_round(self, news: Round) -> None:
        if news.error is not None:
            self.link.failed("renew", news.error)
        else:
            self.link.worked("renew")
        for serial, renewal in news.answers:
            self.attempts.hear_renewal(serial, renewal)
        for lane in self.lanes.values():
            lane.kick()

    def _settled_alone(self, ending: Ending) -> None:
        self._settled([ending])

    def _settled(self, endings: Sequence[Ending]) -> None:
        """Settlements of one queue were answered."""
        queue = endings[0].lease.ref.queue
        self.attempts.settled(endings)
        settlements = [ending.settlement for ending in endings]
        if self.settings.sweep:
            self.sweepers[queue].note_use(settlements)
        has_ended = False
        for settlement in settlements:
            if settlement.state is State.SCHEDULED:
                self.outlook.promise(queue, self.clock(), settlement.delay_ms)
                self._attention.set()
            elif settlement.state is not State.WAITING:
                has_ended = True
        if has_ended:
            self.follow_ups[queue].ask()

    def _swept(self, queue: str, swept: Swept) -> None:
        self.outlook.promise(queue, self.clock(), swept.next_due_in_ms)
        if swept.promoted or swept.recovered or swept.followed:
            self.outlook.hear([queue])
            self._attention.set()

    def _ask(self, queue: str) -> None:
        """A lease that was to end there did not: a claim will tell which one is the next."""
        self.outlook.hear([queue])
        self._attention.set()

    def _info(self) -> WorkerInfo:
        held = sorted((ref for ref, _ in self.attempts.known()), key=lambda ref: (ref.queue, ref.id))
        return WorkerInfo(
            worker=self.settings.name,
            incarnation=self.incarnation,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=VERSION,
            queues=self.queues,
            slots=self.settings.concurrency,
            running=self.attempts.running,
            jobs=tuple(held[:JOBS_SHOWN]),
            tasks=self._tasks,
        )


async def _for_ever(loop: Loop) -> None:
    await loop()
    raise AssertionError(f"{loop} has ended, but it is to run until it is cancelled")


def health_of(crew: Crew | None, settings: WorkerSettings, *, is_stopping: bool) -> Health:
    """Answer how a worker is, now; before its run there is no crew. From any thread."""
    is_claiming = crew is not None and crew.claims.has_asked
    phase = Phase.DRAINING if is_stopping else Phase.CLAIMING if is_claiming else Phase.STARTING
    known = Health(phase=phase, slots=settings.concurrency, lease_ms=settings.lease_ms)
    if crew is None:
        return known
    return replace(
        known,
        running=crew.attempts.running,
        held=crew.attempts.held,
        stuck=crew.attempts.overdue.stuck,
        is_connected=crew.link.is_up,
        keeper_silent_ms=crew.clock() - crew.keeper.looked_ms,
    )


def _wake(loop: asyncio.AbstractEventLoop, attention: asyncio.Event) -> None:
    """Set an event of some loop, from any thread; a loop that is closed needs no waking."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(attention.set)
