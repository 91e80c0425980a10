"""Settlements by group commit: at once when idle; when busy, whatever gathered during the last round trip.

Each queue has a lane. In it a job's notes (progress, log, checkpoint, children) go before its settlement.
A settlement is repeated with its own id until it is answered, however long that takes, and its lease is
renewed until then; a batch that the backend refuses is split until the bad item stands alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from leasemq.backend import Backend
from leasemq.errors import BackendUnavailable, IndeterminateWrite, LeaseMQError
from leasemq.events import JobEnded
from leasemq.protocol.decide import Happened, Hopeless, Reason, decide
from leasemq.protocol.failure import decode_error, describe_exception, encode_error
from leasemq.protocol.model import Lease, Note, Noted, Settled, Settlement
from leasemq.protocol.retry import Retry
from leasemq.worker.dice import Dice
from leasemq.worker.keeper import Keeper
from leasemq.worker.link import Link

NOTES_PER_CALL = 500


class Ending(msgspec.Struct, kw_only=True, eq=False):
    """One attempt's end on its way to the backend. Owned by its lane."""

    serial: int
    lease: Lease
    settlement: Settlement
    happened: Happened
    retry: Retry | None = None
    is_repeat: bool = False  # an earlier try may have been applied
    answer: Settled | None = None  # None: not answered, or (with `refusal`) never will be
    refusal: str | None = None

    @property
    def size_bytes(self) -> int:
        """About how much it adds to a request."""
        return 256 + len(self.settlement.result or b"") + len(self.settlement.error or b"")

    def told(self) -> JobEnded:
        """Answer what is told of it once it is recorded."""
        lease, settlement = self.lease, self.settlement
        error = settlement.error
        return JobEnded(
            ref=lease.ref,
            task=lease.task,
            attempt=lease.attempts,
            fence=lease.fence.number,
            outcome=settlement.outcome,
            reason=settlement.reason,
            delay_ms=settlement.delay_ms,
            error_type=None if error is None else decode_error(error).type,
        )


OnSettled = Callable[[Ending], None]
OnAnswered = Callable[[Sequence[Ending]], None]  # of one queue, at least one


@dataclass(slots=True)
class _Written:
    note: Note
    answered: asyncio.Future[Noted]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much goes into one request."""

    count: int
    size_bytes: int


class Lane:
    """The writes of one queue, in order. Owner: the worker."""

    def __init__(
        self,
        queue: str,
        backend: Backend,
        link: Link,
        keeper: Keeper,
        dice: Dice,
        bounds: Bounds,
        told: OnAnswered,
    ) -> None:
        self.queue = queue
        self._backend = backend
        self._link = link
        self._keeper = keeper
        self._dice = dice
        self._bounds = bounds
        self._told = told
        self._endings: deque[Ending] = deque()
        self._notes: deque[_Written] = deque()
        self._filled = asyncio.Event()
        self._who = f"settle {queue}"

    def end(self, ending: Ending) -> None:
        """Send this settlement as soon as the lane is free."""
        self._keeper.end(ending.serial)
        self._endings.append(ending)
        self._filled.set()

    def write(self, note: Note) -> asyncio.Future[Noted]:
        """Send this note as soon as the lane is free, and before every settlement that follows."""
        answered: asyncio.Future[Noted] = asyncio.get_running_loop().create_future()
        self._notes.append(_Written(note, answered))
        self._filled.set()
        return answered

    def kick(self) -> None:
        """Look again: what had to wait need not any more."""
        if self._endings:
            self._filled.set()

    async def run(self) -> None:
        """Send what is put in, for ever."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            # Both are taken now: a note that comes later belongs before a settlement that comes later.
            notes, endings = self._taken_notes(), self._taken_endings()
            for start in range(0, len(notes), NOTES_PER_CALL):
                await self._write(notes[start : start + NOTES_PER_CALL])
            if endings:
                await self._settle(endings)

    def _taken_notes(self) -> list[_Written]:
        notes = list(self._notes)
        self._notes.clear()
        return notes

    def _taken_endings(self) -> list[Ending]:
        """Take a batch, but leave what is being renewed at this moment to the next one."""
        batch: list[Ending] = []
        room_bytes = self._bounds.size_bytes
        while self._endings and len(batch) < self._bounds.count and (not batch or room_bytes > 0):
            ending = self._endings.popleft()
            room_bytes -= ending.size_bytes
            batch.append(ending)
        busy = self._keeper.begin_settling([ending.serial for ending in batch])
        more = bool(self._endings)
        if busy:
            self._endings.extendleft(reversed([ending for ending in batch if ending.serial in busy]))
            batch = [ending for ending in batch if ending.serial not in busy]
        if more:
            self._filled.set()
        return batch

    async def _settle(self, batch: Sequence[Ending]) -> None:
        """Settle once. What did not get through is next again, with whatever has ended meanwhile."""
        settlements = [ending.settlement for ending in batch]
        try:
            answers = await self._backend.settle(self.queue, settlements)
        except (BackendUnavailable, IndeterminateWrite) as error:
            self._link.failed(self._who, error)
            for ending in batch:
                ending.is_repeat |= isinstance(error, IndeterminateWrite)
            self._endings.extendleft(reversed(batch))
            # Between two tries they are renewed like all others, also where only settlements fail.
            self._keeper.settling_failed([ending.serial for ending in batch])
            await self._link.pause(self._who)
            self._filled.set()
        except LeaseMQError as error:
            await self._part(batch, error)
        else:
            self._link.worked(self._who)
            self._take_answers(batch, answers)

    async def _part(self, batch: Sequence[Ending], error: LeaseMQError) -> None:
        """Find the item that the backend refuses; the others go through."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._settle(batch[:middle])
            await self._settle(batch[middle:])
            return
        ending = batch[0]
        if ending.settlement.result is not None:
            told = encode_error(describe_exception(error))
            ending.happened = Hopeless(error=told, reason=Reason.RESULT_NOT_SERIALIZABLE)
            self._decide_again(ending, cancel_requested=ending.settlement.seen_cancel)
            return
        ending.refusal = f"{type(error).__name__}: {error}"
        self._told([ending])

    def _take_answers(self, batch: Sequence[Ending], answers: Sequence[Settled]) -> None:
        answered: list[Ending] = []
        for ending, answer in zip(batch, answers, strict=True):
            if answer is Settled.CANCEL_REQUESTED:
                self._decide_again(ending, cancel_requested=True)
                continue
            if answer is Settled.HELD:
                raise AssertionError(f"{self.queue}: a holder's settlement was answered as a sweep's")
            # Gone at a repeat: applied by the try whose answer was lost, and its record is not kept.
            is_applied = answer is Settled.GONE and ending.is_repeat
            ending.answer = Settled.REPLAYED if is_applied else answer
            answered.append(ending)
        if answered:
            self._told(answered)

    def _decide_again(self, ending: Ending, *, cancel_requested: bool) -> None:
        ending.settlement = decide(
            ending.lease,
            ending.happened,
            settlement_id=self._dice.settlement_id(),
            retry=ending.retry,
            dice=self._dice.roll(),
            cancel_requested=cancel_requested,
        )
        ending.is_repeat = False
        self.end(ending)

    async def _write(self, written: Sequence[_Written]) -> None:
        while True:
            try:
                answers = await self._backend.note(self.queue, [one.note for one in written])
            except (BackendUnavailable, IndeterminateWrite) as error:
                self._link.failed(self._who, error)
                await self._link.pause(self._who)
            except LeaseMQError as error:
                await self._part_notes(written, error)
                return
            else:
                self._link.worked(self._who)
                for one, answer in zip(written, answers, strict=True):
                    _resolve(one.answered, answer)
                return

    async def _part_notes(self, written: Sequence[_Written], error: LeaseMQError) -> None:
        if len(written) > 1:
            for one in written:
                await self._write([one])
        elif not written[0].answered.done():
            written[0].answered.set_exception(error)


def _resolve(answered: asyncio.Future[Noted], answer: Noted) -> None:
    if not answered.done():
        answered.set_result(answer)
