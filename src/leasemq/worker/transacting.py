"""A function's own transaction: its writes and the end of its job are committed together, or not at all.

The fence is checked first, which locks the job until the transaction ends: nobody can recover it meanwhile,
and its lease cannot be renewed, so the transaction must end within it. One that is in doubt because the
answer to its COMMIT was lost is looked up under the same lock, and nothing of it is ever repeated.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

from leasemq.backend import Backend
from leasemq.context import OpenBlock, open_block
from leasemq.errors import (
    BackendUnavailable,
    IndeterminateWrite,
    JobCancelled,
    LeaseLost,
    ResultNotSerializable,
    ResultTooLarge,
    SyncInsideLoop,
    Unsupported,
    WouldDeadlock,
)
from leasemq.events import EndIgnored
from leasemq.operations import Joined
from leasemq.protocol.decide import Happened, Hopeless, Raised, Reason, Returned, decide
from leasemq.protocol.failure import decode_error
from leasemq.protocol.keeping import backoff_ms
from leasemq.protocol.model import Renewal, Settled, Settlement
from leasemq.protocol.names import shown
from leasemq.sessions import run_through
from leasemq.worker.attempt import Attempt
from leasemq.worker.dice import Dice
from leasemq.worker.keeper import Keeper
from leasemq.worker.outcome import returned
from leasemq.worker.settler import Ending, OnSettled

_IN_FLIGHT_MS = 2  # a renewal under way is over by then, or nearly
Pause = Callable[[int], Awaitable[None]]
Tell = Callable[[Attempt], None]


class Transactions:
    """Opens the transactions of one worker's attempts. Owner: its crew."""

    def __init__(self, backend: Backend, keeper: Keeper, dice: Dice, told: OnSettled) -> None:
        self.backend = backend
        self.keeper = keeper
        self.dice = dice
        self.told = told  # hears of a job that a transaction completed, once its function has ended
        self.on_lost: Tell = lambda _: None
        self.on_cancelled: Tell = lambda _: None

    @asynccontextmanager
    async def in_loop(self, attempt: Attempt, session: object) -> AsyncIterator[Any]:
        """See `Ctx.transaction`.

        It is begun and ended by tasks of its own: whoever cancels the function leaves no COMMIT in doubt.
        """
        if asyncio.get_running_loop() is not attempt.loop:
            raise Unsupported("a function in a thread opens a transaction by `with ctx.transaction_sync()`")
        block = _Block(self, attempt, _pause_in_loop, session, blocks=False)
        entering = attempt.loop.create_task(block.enter())
        is_left = False
        try:
            await asyncio.wait({entering})
            value = entering.result()
            open_block.set(block.mark)
            yield value
            is_left = True
        finally:
            entering.cancel()
            ending = attempt.loop.create_task(_ended(entering, block, is_left=is_left))
            attempt.finishing = ending
            ending.add_done_callback(_retrieved)
            try:
                await asyncio.wait({ending})
            finally:
                block.tell_news()  # only now: the worker ends the function of a lost attempt
            ending.result()

    @contextmanager
    def in_thread(self, attempt: Attempt, session: object) -> Iterator[Any]:
        """See `Ctx.transaction_sync`."""
        with suppress(RuntimeError):  # no loop runs in this thread
            if asyncio.get_running_loop() is attempt.loop:
                raise SyncInsideLoop(
                    "ctx.transaction_sync() would block the loop; say `async with ctx.transaction()`"
                )
        block = _Block(self, attempt, _pause_in_thread, session, blocks=True)
        is_left = False
        try:
            value = run_through(block.enter())
            open_block.set(block.mark)
            yield value
            is_left = True
        finally:
            try:
                run_through(block.leave() if is_left else block.undo())
            finally:
                block.tell_news()


class _Block:
    """One transaction of one attempt. Owner: the attempt's function, until it leaves it."""

    def __init__(
        self, around: Transactions, attempt: Attempt, pause: Pause, session: object, *, blocks: bool
    ) -> None:
        self._around = around
        self._attempt = attempt
        self._pause = pause
        self._session = session
        self._blocks = blocks
        self._name = f"job {shown(attempt.lease.ref.id)}"
        self._stack = AsyncExitStack()
        self._joined: Joined | None = None
        self._result: Happened | None = None
        self._news: Tell | None = None  # what the worker is to hear once the block is over
        self._idle_ms = around.keeper.lease_ms(attempt.serial)
        self.mark = OpenBlock()

    async def enter(self) -> object:
        """Open it, check the fence, lock the job; answers what to write with."""
        attempt = self._attempt
        if attempt.block is not None:
            raise WouldDeadlock(f"{self._name} is in a transaction already; end it before the next")
        if attempt.lost or attempt.is_over or attempt.completed is not None:
            raise LeaseLost(f"attempt {attempt.lease.attempts} of {self._name} no longer owns it")
        attempt.block = self
        is_open = False
        try:
            while self._around.keeper.lengthen(attempt.serial) and not attempt.is_told_to_stop:
                await self._pause(_IN_FLIGHT_MS)  # the claim did not know the task's own, longer lease
            while self._around.keeper.leave_alone(attempt.serial):
                await self._pause(_IN_FLIGHT_MS)  # or it would be refused by the end of its own job
            joined, answer = await self._opened()
            self._look_at(answer)
            is_open = True
        finally:
            if not is_open:
                await self.undo()
        self.mark.store_id = joined.locked_store
        return joined.session

    def complete(self, value: object) -> None:
        """Say with which value the job is completed at the end."""
        attempt = self._attempt
        happened = returned(attempt.routine.signature, value, attempt.routine.result_limit_bytes)
        if isinstance(happened, Hopeless):
            told = decode_error(happened.error).message
            is_size = happened.reason is Reason.RESULT_TOO_LARGE
            raise ResultTooLarge(told) if is_size else ResultNotSerializable(told)
        self._result = happened

    async def leave(self) -> None:
        """Complete the job and commit."""
        is_done = False
        try:
            if self._result is None:
                self.complete(None)
            assert self._result is not None
            await self._finish(self._result)
            is_done = True
        finally:
            if not is_done:
                await self.undo()

    async def undo(self) -> None:
        """Roll back what is open. Raises: LeaseLost if it was so for as long as the lease may last."""
        attempt, keeper = self._attempt, self._around.keeper
        if attempt.block is not self:
            return
        is_overlong = attempt.interrupted and attempt.serial in keeper.in_danger()
        works = self._joined is None or await self._joined.roll_back()
        attempt.block = None
        self.mark.is_open = False
        await self._close()
        keeper.settling_failed([attempt.serial])
        if is_overlong and self._news is None and not attempt.lost:
            # A stall, which the sweep will count: given back at no cost, it would end so again and again.
            self._news = self._around.on_lost
            raise LeaseLost(
                f"the transaction of {self._name} was open for as long as its lease may last, and was rolled "
                "back: do less inside of it, or give the task a longer lease="
            )
        if not works:
            attempt.interrupted = True  # an outage spends no budget

    def tell_news(self) -> None:
        """Tell the worker what it has to know, in its loop."""
        tell, self._news = self._news, None
        if tell is None:
            return
        if not self._blocks:
            tell(self._attempt)
            return
        with suppress(RuntimeError):  # the loop is closed: the worker has left this function behind
            self._attempt.loop.call_soon_threadsafe(tell, self._attempt)

    async def _close(self) -> None:
        self._joined = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def _opened(self) -> tuple[Joined, Renewal]:
        """Open a transaction and ask for the job's lock, patiently if it is our own."""
        lease, failures = self._attempt.lease, 0
        while True:
            try:
                joined = await self._begun()
                return joined, await joined.check(lease.ref.queue, lease.ref.id, lease.fence)
            except (BackendUnavailable, IndeterminateWrite):
                if self._session is not None or self._attempt.is_told_to_stop:
                    raise
            await self._close()
            failures += 1
            await self._pause(backoff_ms(failures, self._around.dice.roll()))

    async def _begun(self) -> Joined:
        backend = self._around.backend
        if self._session is None:
            opening = backend.transaction(blocks=self._blocks, idle_ms=self._idle_ms)
            joined = await self._stack.enter_async_context(opening)
        else:
            joined = backend.joined(self._session)
            if joined.is_async is self._blocks:
                raise Unsupported(
                    "`async with ctx.transaction(session)` takes an asynchronous session, and "
                    "`with ctx.transaction_sync(session)` one that blocks"
                )
        self._joined = joined
        return joined

    def _look_at(self, answer: Renewal | Settled) -> None:
        """Raise where the job may not be completed (any more)."""
        if answer in (Renewal.LOST, Settled.LOST, Settled.GONE):
            self._news = self._around.on_lost
            raise LeaseLost(
                f"attempt {self._attempt.lease.attempts} of {self._name} no longer owns it, so its "
                "transaction was rolled back; stop, another attempt may be running"
            )
        if answer in (Renewal.CANCEL_REQUESTED, Settled.CANCEL_REQUESTED):
            self._news = self._around.on_cancelled
            raise JobCancelled(f"{self._name} was cancelled, so its transaction was rolled back")

    async def _finish(self, happened: Happened) -> None:
        attempt, joined, lease = self._attempt, self._joined, self._attempt.lease
        assert joined is not None
        settlement = decide(lease, happened, settlement_id=self._around.dice.settlement_id())
        try:
            answer = await joined.settle(lease.ref.queue, settlement)
            self._look_at(answer)
            await joined.commit()
        except BackendUnavailable:
            attempt.interrupted = True
            raise
        except IndeterminateWrite as error:
            answer = await self._looked_up(settlement, error)
            self._look_at(answer)
        ending = Ending(serial=attempt.serial, lease=lease, settlement=settlement, happened=happened)
        ending.answer = answer
        attempt.completed = ending
        self._around.keeper.drop(attempt.serial)
        attempt.block = None
        self.mark.is_open = False
        await self._close()

    async def _looked_up(self, settlement: Settlement, doubt: IndeterminateWrite) -> Settled:
        """Answer what became of a COMMIT whose answer was lost. Raises: BackendUnavailable: rolled back.

        The lock is had only when that transaction is over. If the attempt then still holds its job nothing
        was committed, and settling now would complete the job without its function's writes.
        """
        attempt, lease, failures = self._attempt, self._attempt.lease, 0
        opening = self._around.backend.transaction
        await self._close()  # what it may still have locked would be waited for
        while True:
            try:
                async with opening(blocks=self._blocks, idle_ms=self._idle_ms) as again:
                    held = await again.check(lease.ref.queue, lease.ref.id, lease.fence)
                    if held is Renewal.LOST:
                        answer = await again.settle(lease.ref.queue, settlement)  # which can change nothing
                        is_unkept = answer is Settled.GONE and not settlement.keep_ms
                        return Settled.REPLAYED if is_unkept else answer
                attempt.interrupted = True
                raise doubt from BackendUnavailable(f"the transaction of {self._name} was rolled back")
            except (BackendUnavailable, IndeterminateWrite) as error:
                if error is doubt or attempt.interrupted or attempt.lost:
                    attempt.interrupted = True
                    raise
            failures += 1
            await self._pause(backoff_ms(failures, self._around.dice.roll()))


def ignored(ending: Ending, happened: Happened | None) -> EndIgnored | None:
    """Answer what is to be said of a function that came to something else than its transaction."""
    match happened:
        case Returned(result=result) if result != ending.settlement.result:
            what = "a value"
        case Raised(error=error) | Hopeless(error=error):
            what = decode_error(error).type
        case _:
            return None
    lease = ending.lease
    return EndIgnored(
        ref=lease.ref, task=lease.task, attempt=lease.attempts, fence=lease.fence.number, what=what
    )


async def _ended(entering: asyncio.Task[object], block: _Block, *, is_left: bool) -> None:
    await asyncio.wait({entering})
    await (block.leave() if is_left else block.undo())


def _retrieved(ending: asyncio.Task[None]) -> None:
    """Look at its error, which a function that was cancelled meanwhile does not hear."""
    if not ending.cancelled():
        ending.exception()


async def _pause_in_loop(wait_ms: int) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_ms / 1_000):
            await asyncio.Event().wait()


async def _pause_in_thread(wait_ms: int) -> None:
    threading.Event().wait(wait_ms / 1_000)
