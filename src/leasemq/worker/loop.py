"""Read this first: how a worker claims, runs and settles, and in which order it shuts down.

    claim ──> Attempts.start ──> execute ──> decide ──> Lane (group commit) ──> settled
      ^                                                                            │
      └── a slot is free · a push · a due time · `idle_ms`     the Keeper renews meanwhile

Beside the claiming loop run the crew's chores: the listener, the sweep, the follow-ups, the registry; around
them the Keeper and the watches; around all a lane per queue, so that leases are given back whatever fails.
Each is patient with an outage for ever; any other error is a bug, and ends the run with that error.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

from leasemq.backend import Backend
from leasemq.clock import Clock, boot_ms
from leasemq.events import Draining, Observer, WorkerStopped
from leasemq.logs import herald_for, this_worker
from leasemq.worker.aside import advance_due, release_strays_within, take_late, take_the_last
from leasemq.worker.company import THIS_PROCESS, Company, Entry
from leasemq.worker.crew import Crew, health_of
from leasemq.worker.health import Health
from leasemq.worker.hooks import NO_HOOKS, Hooks
from leasemq.worker.keeper import Drive, in_thread
from leasemq.worker.registry import retire
from leasemq.worker.routine import Routine, by_name
from leasemq.worker.settings import WorkerSettings
from leasemq.worker.suspects import make_way

STOPPED, HURRIED, CRASHED, CLOGGED = 0, 1, 70, 75  # exit codes; 70: a bug; 75: too many slots are stuck
REACT_MS, FLUSH_MS = 500, 400  # after the drain: for functions to end, then for their releases
HURRY_REACT_MS, HURRY_FLUSH_MS = 200, 250  # the same after a second stop


class Worker:
    """Runs jobs of some queues in this process's loop, until it is stopped.

    Args:
        routines: What it can run, by task name.
        observer: Hears what happens; None: the log does.
        random: Dice and ids; None: a stream of its own, seeded by the system.
        keeper: Who drives the renewals: a thread, or a task for loops in virtual time.
        clock: Never steps and counts suspension.
        company: The workers of this process; a test that imitates several processes makes one for each.
        hooks: Awaited before the first claim, and after the last settlement.
    """

    def __init__(  # noqa: PLR0913  the last ones are for tests and for what an app adds
        self,
        backend: Backend,
        routines: Mapping[str, Routine],
        settings: WorkerSettings | None = None,
        *,
        observer: Observer | None = None,
        random: random.Random | None = None,
        keeper: Drive = in_thread,
        clock: Clock = boot_ms,
        company: Company = THIS_PROCESS,
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        self.settings: WorkerSettings = settings or WorkerSettings()
        self._backend = backend
        self._routines = by_name(routines)
        self._observer = observer
        self._random = random
        self._drive = keeper
        self._clock = clock
        self._company = company
        self._hooks = hooks
        self._was_told_to_stop = False
        self._stopping, self._hurry = asyncio.Event(), asyncio.Event()
        self._on_hurry: Callable[[], None] = lambda: None
        self._crew: Crew | None = None

    def health(self) -> Health:
        """Answer how it is, now. From any thread, also while the loop does not turn."""
        return health_of(self._crew, self.settings, is_stopping=self._stopping.is_set())

    def stop(self) -> None:
        """First call: drain. Second: release what runs within half a second, and exit non-zero.

        To be called in the worker's loop (a signal handler of the loop is), before `run` or during it.
        """
        if self._was_told_to_stop:  # a worker may also stop of itself, with code 75
            self._hurry.set()
            self._on_hurry()
        self._was_told_to_stop = True
        self._stopping.set()

    async def run(self) -> int:
        """Work until stopped; answers 0, 1 if hurried or leases were left behind, 75 if its slots were stuck.

        Cancelling it releases what runs, within a second.
        """
        return await self._hooks.around(self._work, self._stopping, self._hurry)

    async def _work(self) -> int:
        crew = Crew(
            self._backend,
            self._routines,
            self.settings,
            herald_for(self._observer),
            self._clock,
            self._random,
            self._company,
            self._stopping,
        )
        crew.tell_started()
        self._crew, self._on_hurry = crew, crew.attempts.nudge
        self._company.join(crew.member)
        code = CRASHED
        try:
            async with asyncio.TaskGroup() as settling:
                lanes = [settling.create_task(lane) for lane in crew.settling()]
                try:
                    await self._keep(crew)
                finally:
                    for lane in lanes:
                        lane.cancel()
            code = HURRIED if self._hurry.is_set() or crew.attempts.held else STOPPED
            code = CLOGGED if crew.attempts.is_clogged else code
        finally:
            await crew.attempts.close()
            self._company.quit(crew.member)
            await retire(self._backend, crew.incarnation)
            crew.herald.tell(
                WorkerStopped(worker=self.settings.name, exit_code=code, unsettled=crew.attempts.held)
            )
            this_worker.reset(crew.logs_as)
        return code

    async def _keep(self, crew: Crew) -> None:
        """Renew and watch while jobs are claimed and run; the lanes around this outlive a bug in it."""
        async with asyncio.TaskGroup() as keeping:
            watches = [keeping.create_task(one) for one in crew.watches(in_threads=self._drive is in_thread)]
            renewing = keeping.create_task(self._drive(crew.keeper))
            try:
                async with asyncio.TaskGroup() as group:
                    chores = [group.create_task(chore) for chore in crew.chores()]
                    claiming = group.create_task(self._claim_until_stopped(crew))
                    claiming.add_done_callback(lambda _: crew.attempts.nudge())
                    await self._stopping.wait()
                    await self._drain(crew, claiming)
                    for chore in [claiming, *chores]:
                        chore.cancel()
            finally:  # also when this run is cancelled, or something met a bug
                await self._hand_back(crew)
                crew.keeper.stop()
                await asyncio.wait({renewing}, timeout=HURRY_REACT_MS / 1_000)
                for watch in [renewing, *watches]:
                    watch.cancel()

    async def _claim_until_stopped(self, crew: Crew) -> None:
        """Claim into free slots, many with one claim, from the queue whose turn it is."""
        await crew.is_hearing.wait()  # what is pushed during the first claim must not be lost
        async with asyncio.TaskGroup() as aside:  # for what need not hold up the other queues
            crew.claims.aside = aside
            while not self._stopping.is_set():
                crew.attempts.raise_bug()
                take_late(crew)
                advance_due(crew, aside)
                if crew.suspect_queue is not None and (suspect := await make_way(crew)) is not None:
                    await self._claim(crew, suspect, crew.attempts.room)
                room = crew.room
                queue = crew.outlook.next(self._clock()) if room > 0 else None
                if queue is None:
                    await crew.attention(crew.outlook.wait_ms(self._clock(), has_room=room > 0))
                else:
                    await self._claim(crew, queue, min(room, self.settings.claim_most))
            await take_the_last(crew)

    async def _claim(self, crew: Crew, queue: str, limit: int) -> None:
        """Ask one queue, and start what it gives; a suspect only if this process holds nothing at all."""
        entry = crew.company.enter(crew.member)
        if entry is Entry.CLOSED:
            return
        crew.outlook.begin_asking(queue, self._clock())
        answered = await crew.claims.claim(queue, limit, takes_suspect=entry is Entry.ALONE)
        if answered is not None:
            crew.take(answered)  # starts what came, unless it came after a stop, or far too late
        crew.company.leave(crew.member, stays_alone=crew.suspect_held or crew.suspect_queue is not None)

    async def _drain(self, crew: Crew, claiming: asyncio.Task[None]) -> None:
        """Claim no more; let what runs finish and its settlements be answered, within the drain time."""
        crew.herald.tell(
            Draining(
                worker=self.settings.name, running=crew.attempts.running, drain_ms=self.settings.drain_ms
            )
        )
        if not crew.claims.is_asking:
            claiming.cancel()

        await crew.attempts.within(
            self.settings.drain_ms,
            lambda: self._hurry.is_set() or (claiming.done() and crew.attempts.held == 0),
        )

    async def _hand_back(self, crew: Crew) -> None:
        """End what still runs and release it. What does not end is left behind; its job is released too."""
        hurried, calm = (HURRY_REACT_MS, HURRY_FLUSH_MS), (REACT_MS, FLUSH_MS)
        react_ms, flush_ms = hurried if self._hurry.is_set() else calm
        crew.attempts.interrupt_all()
        if crew.claims.is_asking:  # leases may have come that nobody here has heard of
            await release_strays_within(crew, HURRY_REACT_MS)
        await crew.attempts.within(react_ms, lambda: crew.attempts.running == 0)
        crew.attempts.abandon_all()
        await crew.attempts.within(flush_ms, lambda: crew.attempts.held == 0)
