"""The slots of a worker: what runs, and what has ended but is not settled yet.

A lease is *held* from the claim's answer until its settlement is answered; it takes a *slot* only while its
function runs. Tasks of attempts are born here and not in a TaskGroup, for one reason: a function that
refuses its cancellation would hold a group, and with it the worker's exit, for ever.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from leasemq.events import (
    HandlerStuck,
    Herald,
    JobStarted,
    JobUnknown,
    LeaseInDanger,
    LeaseWasLost,
    SettlementRefused,
)
from leasemq.protocol.decide import Happened, Interrupted, Unfit, decide
from leasemq.protocol.model import Fence, Lease, Note, Noted, NoteKind, Outcome, Ref, Renewal, Settled
from leasemq.protocol.retry import Retry
from leasemq.worker.attempt import Attempt
from leasemq.worker.begun import Begun, kept, overrides
from leasemq.worker.dice import Dice
from leasemq.worker.execute import execute, out_of_time
from leasemq.worker.executors import Executors
from leasemq.worker.keeper import Keeper
from leasemq.worker.overdue import Overdue, leave_behind, stop
from leasemq.worker.routine import Routine
from leasemq.worker.settings import WorkerSettings
from leasemq.worker.settler import Ending, Lane
from leasemq.worker.transacting import Transactions, ignored


class Attempts:
    """Every lease that this worker holds. Owner: the worker, in its loop."""

    def __init__(  # noqa: PLR0913  a part of the crew is given each other part that it tells
        self,
        *,
        routines: Mapping[str, Routine],
        settings: WorkerSettings,
        lanes: Mapping[str, Lane],
        keeper: Keeper,
        executors: Executors,
        herald: Herald,
        dice: Dice,
        transactions: Transactions,
        on_change: Callable[[], None],
        on_offer: Callable[[str], None],
    ) -> None:
        self._routines = routines
        self._settings = settings
        self._lanes = lanes
        self._keeper = keeper
        self._herald = herald
        self._dice = dice
        self._transactions = transactions
        transactions.on_lost = partial(self._lose, write="transaction")
        transactions.on_cancelled = self._cancel
        self._on_change = on_change
        self._on_offer = on_offer
        self._loop = asyncio.get_running_loop()
        self.overdue = Overdue(
            self._loop,
            keeper.clock,
            herald,
            slots=settings.concurrency,
            abandon_after_ms=settings.abandon_after_ms,
            give_up=self._give_up,
        )
        self._executors = executors
        self._serials = itertools.count(1)
        self._held: dict[int, Lease] = {}
        self._running: dict[int, Attempt] = {}
        self._suspects: set[int] = set()
        self._changed = asyncio.Event()
        self._bug: BaseException | None = None  # an error of ours, out of an attempt's task

    # ---- what there is

    @property
    def running(self) -> int:
        """How many functions run."""
        return len(self._running)

    @property
    def held(self) -> int:
        """How many leases are not settled yet, running ones included."""
        return len(self._held)

    @property
    def has_suspect(self) -> bool:
        """Whether one of the leases is a suspect's."""
        return bool(self._suspects)

    @property
    def room(self) -> int:
        """How many more may start: none beside a suspect, none while too many ends are unwritten."""
        if self._suspects:
            return 0
        unwritten = len(self._held) - len(self._running)
        backlog = 2 * max(self._settings.settle_batch, self._settings.concurrency) - unwritten
        if self.is_clogged:
            return 0
        taken = len(self._running) + self.overdue.stuck
        return max(0, min(self._settings.concurrency - taken, backlog))

    @property
    def is_clogged(self) -> bool:
        """Whether stuck functions have taken so many slots that this worker must end."""
        return self.overdue.is_clogged

    def known(self) -> set[tuple[Ref, Fence]]:
        """Answer which leases are held."""
        return {(held.ref, held.fence) for held in self._held.values()}

    # ---- beginnings

    def start(self, leases: Iterable[Lease], sent_ms: int, lease_ms: int) -> None:
        """Start what was claimed, each in a task of its own. The claim was sent at `sent_ms`."""
        begun = [self._begun(lease) for lease in leases]
        for one in begun:
            self._held[one.serial] = one.lease
            if one.lease.suspect:
                self._suspects.add(one.serial)
        self._keeper.hold(kept(begun, self._settings, sent_ms, lease_ms))
        for one in begun:
            self._begin(one)

    def give_back(self, leases: Iterable[Lease], sent_ms: int, lease_ms: int) -> None:
        """Release leases whose functions are not to be started."""
        for lease in leases:
            one = self._begun(lease)
            self._held[one.serial] = lease
            self._keeper.hold(kept([one], self._settings, sent_ms, lease_ms))
            self._end(one.serial, lease, Interrupted())

    def _begun(self, lease: Lease) -> Begun:
        return Begun(next(self._serials), lease, self._routines.get(lease.task), overrides(lease))

    def _begin(self, begun: Begun) -> None:
        serial, lease, routine, own = begun
        if routine is None:
            self._end(serial, lease, Unfit())
            return
        attempt = Attempt(
            lease=lease,
            routine=routine,
            serial=serial,
            loop=self._loop,
            write_note=self._write_note,
            transactions=self._transactions,
            retry=routine.retry,
            timeout_ms=own.timeout_ms or routine.timeout_ms,
            cancel_requested=lease.cancel_requested,
        )
        self._running[serial] = attempt
        if self._herald.tells_each_job:
            self._herald.tell(
                JobStarted(ref=lease.ref, task=routine.name, attempt=lease.attempts, fence=lease.fence.number)
            )
        task = self._loop.create_task(execute(attempt, self._executors), context=self._executors.context())
        attempt.task = task
        task.add_done_callback(partial(self._reap, attempt))
        self.overdue.begin(attempt, own.lease_ms or routine.lease_ms or self._settings.lease_ms)

    # ---- ends

    def _reap(self, attempt: Attempt, task: asyncio.Task[Happened | None]) -> None:
        """Give the slot back, whatever the end was, and send the settlement."""
        self.overdue.end(attempt)
        is_settled = self._running.pop(attempt.serial, None) is None  # its job was given up
        attempt.is_over = True
        self._changed.set()
        if task.cancelled():  # before its first step
            happened: Happened | None = None if attempt.lost else Interrupted()
        elif (error := task.exception()) is not None:
            self._bug, happened = error, Interrupted()
        else:
            happened = task.result()
        self._on_change() if is_settled else self._conclude(attempt, happened)

    def _give_up(self, attempt: Attempt) -> None:
        """Settle without its function, which keeps its slot."""
        del self._running[attempt.serial]
        attempt.is_over = True
        self._conclude(attempt, out_of_time(attempt, still_runs=True) if attempt.timed_out else Interrupted())

    def _conclude(self, attempt: Attempt, happened: Happened | None) -> None:
        if attempt.completed is not None:
            if (surplus := ignored(attempt.completed, happened)) is not None:
                self._herald.tell(surplus)
            self._transactions.told(attempt.completed)
            return
        if attempt.lost or happened is None:
            self._let_go([attempt.serial])
            return
        self._end(
            attempt.serial,
            attempt.lease,
            happened,
            retry=attempt.retry,
            cancel_requested=attempt.cancel_requested,
        )

    def _end(
        self,
        serial: int,
        lease: Lease,
        happened: Happened,
        *,
        retry: Retry | None = None,
        cancel_requested: bool = False,
    ) -> None:
        if isinstance(happened, Unfit):
            self._herald.tell(
                JobUnknown(ref=lease.ref, task=lease.task, attempt=lease.attempts, fence=lease.fence.number)
            )
        settlement = decide(
            lease,
            happened,
            settlement_id=self._dice.settlement_id(),
            retry=retry,
            dice=self._dice.roll(),
            cancel_requested=cancel_requested,
        )
        ending = Ending(serial=serial, lease=lease, settlement=settlement, happened=happened, retry=retry)
        self._lanes[lease.ref.queue].end(ending)
        self._on_change()

    def settled(self, endings: Sequence[Ending]) -> None:
        """Take settlements' answers, or that there will be none."""
        for ending in endings:
            is_plain = ending.answer is Settled.APPLIED and not self._herald.tells_each_job
            if not is_plain or ending.settlement.outcome is not Outcome.COMPLETED:
                self._tell_settled(ending)
        self._let_go([ending.serial for ending in endings])

    def _tell_settled(self, ending: Ending) -> None:
        lease, settlement = ending.lease, ending.settlement
        if ending.refusal is not None:
            self._herald.tell(
                SettlementRefused(
                    ref=lease.ref,
                    task=lease.task,
                    attempt=lease.attempts,
                    fence=lease.fence.number,
                    outcome=settlement.outcome,
                    error=ending.refusal,
                )
            )
        elif ending.answer in (Settled.LOST, Settled.GONE):
            self._tell_lost(lease, settlement.outcome.value, ending.answer)
        elif self._herald.tells_each_job or settlement.outcome is not Outcome.COMPLETED:
            self._herald.tell(ending.told())

    def _let_go(self, serials: Sequence[int]) -> None:
        for serial in serials:
            del self._held[serial]
        self._suspects.difference_update(serials)
        self._keeper.drop_all(serials)
        self._changed.set()
        self._on_change()

    # ---- interventions

    def hear_renewal(self, serial: int, renewal: Renewal) -> None:
        """Take what a renewal told about a lease. Of one that has ended, its settlement will tell."""
        attempt = self._running.get(serial)
        if attempt is None:
            return
        if renewal is Renewal.LOST:
            self._lose(attempt, "renew")
        elif renewal is Renewal.CANCEL_REQUESTED:
            self._cancel(attempt)

    def cancel(self, refs: Collection[Ref]) -> None:
        """Cancellation of these jobs was recorded."""
        for attempt in [one for one in self._running.values() if one.lease.ref in refs]:
            self._cancel(attempt)

    def endanger(self, serials: Iterable[int]) -> None:
        """These leases may have ended before they can be renewed: stop what can be stopped."""
        for serial in serials:
            attempt = self._running.get(serial)
            if attempt is None or attempt.interrupted or attempt.lost:
                continue
            attempt.interrupted = True
            lease = attempt.lease
            self._herald.tell(
                LeaseInDanger(
                    ref=lease.ref, task=lease.task, attempt=lease.attempts, fence=lease.fence.number
                )
            )
            stop(attempt)

    def interrupt_all(self) -> None:
        """Tell everything to end: a thread sees the flag, and what it still returns counts."""
        for attempt in list(self._running.values()):
            attempt.interrupted = True
            stop(attempt)

    def abandon_all(self) -> None:
        """Give back the jobs of functions that did not end although they were told to."""
        for attempt in list(self._running.values()):
            self._tell_stuck(attempt.lease)
            self._give_up(attempt)
            leave_behind(attempt)

    async def within(self, time_ms: int, is_so: Callable[[], bool]) -> None:
        """Return when it is so, or after this time; asked again when something is given back."""
        with suppress(TimeoutError):
            async with asyncio.timeout(time_ms / 1_000):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()

    def raise_bug(self) -> None:
        """Raise what an attempt's task ended with, if it was an error of ours."""
        if self._bug is not None:
            raise self._bug

    def nudge(self) -> None:
        """Let `within` ask again."""
        self._changed.set()

    async def close(self) -> None:
        """Let the threads end, and the program, whatever is stuck; end the child processes."""
        for attempt in self.overdue.leave_all():
            leave_behind(attempt)
        await self._executors.close()

    def _cancel(self, attempt: Attempt) -> None:
        if not attempt.cancel_requested:
            attempt.cancel_requested = True
            stop(attempt)

    def _lose(self, attempt: Attempt, write: str) -> None:
        if not attempt.lost:
            attempt.lost = True
            self._keeper.drop(attempt.serial)
            self._tell_lost(attempt.lease, write, Settled.LOST)
            # Not before the next turn: a function whose note was refused sees LeaseLost, then this.
            self._loop.call_soon(stop, attempt)

    def _tell_stuck(self, lease: Lease) -> None:
        self._herald.tell(
            HandlerStuck(ref=lease.ref, task=lease.task, attempt=lease.attempts, fence=lease.fence.number)
        )

    def _tell_lost(self, lease: Lease, write: str, answer: Settled) -> None:
        self._herald.tell(
            LeaseWasLost(
                ref=lease.ref,
                task=lease.task,
                attempt=lease.attempts,
                fence=lease.fence.number,
                write=write,
                answer=answer,
            )
        )

    async def _write_note(self, attempt: Attempt, note: Note) -> Noted:
        queue = attempt.lease.ref.queue
        answer = await self._lanes[queue].write(note)
        if answer is Noted.LOST and not attempt.is_over:
            self._lose(attempt, note.kind.value)
        elif answer is Noted.HELD and note.kind is NoteKind.OFFER:
            self._on_offer(queue)
        return answer
