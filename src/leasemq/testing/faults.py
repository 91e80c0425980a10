"""Faults between a process and its backend: requests lost, replies lost, delays, outages, death.

`FaultyBackend` stands for one process's connection. Wrap the same backend once per imitated process.
A lost request certainly did not happen (`BackendUnavailable`); a lost reply did, but the caller cannot
know (`IndeterminateWrite`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from leasemq.backend import Backend, Listener, Renewer
from leasemq.errors import BackendUnavailable, CorruptRecord, IndeterminateWrite
from leasemq.operations import Joined
from leasemq.protocol.model import Enqueued, Fence, NewJob, Renewal, Settled, Settlement, Wake

RENEW = "renew"  # the renewer's operation
WAIT = "wait"  # the listener's
BEGIN = "begin"  # a transaction's


class Fault(StrEnum):
    """What happens to one call."""

    REQUEST_LOST = "request_lost"
    REPLY_LOST = "reply_lost"
    DELAY = "delay"
    ERROR = "error"
    HANG = "hang"  # the request is applied, and no answer ever comes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One fault, for the n-th call (from 1) of an operation, or for a run of calls."""

    operation: str
    fault: Fault
    nth: int = 1
    times: int = 1
    delay_ms: int = 0
    error: BaseException | None = None

    def is_for(self, operation: str, nth: int) -> bool:
        """Whether this call is hit."""
        return operation == self.operation and self.nth <= nth < self.nth + self.times


@dataclass(slots=True)
class Wire:
    """What is wrong with one process's connection. Owned by the test."""

    plans: list[Plan] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, Callable[..., bool]] = field(default_factory=dict)
    is_down: bool = False  # nothing gets through; renewals and pushes included
    queues_down: set[str] = field(default_factory=set)  # nothing of these gets through, pushes do
    frozen_ms: int = 0  # how long a call of theirs is then left without an answer; 0: refused at once

    def lose_request(self, operation: str, nth: int = 1, times: int = 1) -> None:
        """The backend never sees these calls."""
        self._plan(operation, Fault.REQUEST_LOST, nth, times)

    def lose_reply(self, operation: str, nth: int = 1, times: int = 1) -> None:
        """These calls take effect, and the caller never hears of it."""
        self._plan(operation, Fault.REPLY_LOST, nth, times)

    def hang(self, operation: str, nth: int = 1, times: int = 1) -> None:
        """These calls take effect and are never answered."""
        self._plan(operation, Fault.HANG, nth, times)

    def fail(self, operation: str, error: BaseException, nth: int = 1, times: int = 1) -> None:
        """These calls raise, without effect."""
        plan = Plan(
            operation=operation, fault=Fault.ERROR, nth=self._at(operation, nth), times=times, error=error
        )
        self.plans.append(plan)

    def refuse(self, operation: str, is_bad: Callable[..., bool]) -> None:
        """Calls with these arguments raise CorruptRecord, as if they touched an unreadable record."""
        self.refusals[operation] = is_bad

    def delay(self, operation: str, delay_ms: int, nth: int = 1, times: int = 1) -> None:
        """These calls take effect at once and are answered later."""
        plan = Plan(
            operation=operation,
            fault=Fault.DELAY,
            nth=self._at(operation, nth),
            times=times,
            delay_ms=delay_ms,
        )
        self.plans.append(plan)

    def _plan(self, operation: str, fault: Fault, nth: int, times: int) -> None:
        self.plans.append(Plan(operation=operation, fault=fault, nth=self._at(operation, nth), times=times))

    def _at(self, operation: str, nth: int) -> int:
        return self.calls[operation] + nth  # counted from now on

    def next_plan(self, operation: str) -> Plan | None:
        """Count one call, and answer what happens to it."""
        self.calls[operation] += 1
        nth = self.calls[operation]
        return next((plan for plan in self.plans if plan.is_for(operation, nth)), None)

    def refuse_if_down(self, operation: str) -> None:
        """Raise if nothing gets through."""
        if self.is_down:
            raise BackendUnavailable(f"{operation}: the connection is cut by the test")

    async def refuse_if_queue_down(self, operation: str, args: tuple[Any, ...]) -> None:
        """Raise if nothing gets through to the queue of this call, at once or when it times out."""
        if not args or not isinstance(args[0], str) or args[0] not in self.queues_down:
            return
        if self.frozen_ms:
            await asyncio.sleep(self.frozen_ms / 1_000)
            raise IndeterminateWrite(f"{operation}: the store of {args[0]} is frozen by the test")
        raise BackendUnavailable(f"{operation}: the store of {args[0]} is cut off by the test")


class FaultyBackend:
    """A backend seen through a wire. Give it to whoever takes a `Backend`: `faulty(backend, wire)`."""

    def __init__(self, backend: Backend, wire: Wire) -> None:
        self._backend = backend
        self.wire = wire

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        perform = getattr(self._backend, operation)

        async def through_the_wire(*args: Any, **kwargs: Any) -> Any:
            return await _performed(self.wire, operation, args, lambda: perform(*args, **kwargs))

        return through_the_wire

    @asynccontextmanager
    async def listen(self, queues: Sequence[str]) -> AsyncIterator[Listener]:
        """See `Backend.listen`."""
        self.wire.refuse_if_down("listen")
        async with self._backend.listen(queues) as listener:
            yield cast("Listener", FaultyListener(listener, self.wire))

    def renewer(self) -> Renewer:
        """See `Backend.renewer`."""
        return FaultyRenewer(self._backend.renewer(), self.wire)

    def joined(self, session: object) -> Joined:
        """See `Backend.joined`."""
        return FaultyJoined(self._backend.joined(session), self.wire)

    @asynccontextmanager
    async def transaction(self, *, blocks: bool, idle_ms: int) -> AsyncIterator[Joined]:
        """See `Backend.transaction`; the operation is `begin`."""
        await _performed(self.wire, BEGIN, (), _nothing)
        async with self._backend.transaction(blocks=blocks, idle_ms=idle_ms) as joined:
            yield FaultyJoined(joined, self.wire)


class FaultyJoined:
    """See `leasemq.operations.Joined`; the operations are `joined_enqueue`, `check`, and so on."""

    def __init__(self, joined: Joined, wire: Wire) -> None:
        self._joined = joined
        self._wire = wire
        self.is_async: bool = joined.is_async
        self.session: object = joined.session
        self.locked_store: str | None = joined.locked_store
        self.roll_back = joined.roll_back

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Joined.enqueue`."""
        answers: Sequence[Enqueued] = await self._ask("joined_enqueue", self._joined.enqueue, queue, jobs)
        return answers

    async def check(self, queue: str, job_id: str, fence: Fence) -> Renewal:
        """See `Joined.check`."""
        answer: Renewal = await self._ask("check", self._joined.check, queue, job_id, fence)
        return answer

    async def settle(self, queue: str, settlement: Settlement) -> Settled:
        """See `Joined.settle`."""
        answer: Settled = await self._ask("joined_settle", self._joined.settle, queue, settlement)
        return answer

    async def commit(self) -> None:
        """See `Joined.commit`."""
        await self._ask("commit", self._joined.commit)

    async def _ask(self, operation: str, ask: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        return await _performed(self._wire, operation, args, lambda: ask(*args))


class FaultyListener:
    """See `leasemq.backend.Listener`."""

    def __init__(self, listener: Listener, wire: Wire) -> None:
        self._listener = listener
        self._wire = wire
        self.interest = listener.interest
        self.forget = listener.forget
        self.follow = listener.follow
        self.unfollow = listener.unfollow

    async def wait(self, timeout_ms: int) -> Wake:
        """See `Listener.wait`. A push that the wire loses is not heard later either."""
        self._wire.refuse_if_down(WAIT)
        plan = self._wire.next_plan(WAIT)
        wake = await self._listener.wait(timeout_ms)
        self._wire.refuse_if_down(WAIT)
        return Wake() if plan is not None else wake


class FaultyRenewer:
    """See `leasemq.backend.Renewer`."""

    def __init__(self, renewer: Renewer, wire: Wire) -> None:
        self._renewer = renewer
        self._wire = wire
        self.close = renewer.close

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        """See `Renewer.renew`."""
        self._wire.refuse_if_down(RENEW)
        if queue in self._wire.queues_down:
            raise BackendUnavailable(f"renew: the store of {queue} is cut off by the test")
        plan = self._wire.next_plan(RENEW)
        if plan is not None and plan.fault is Fault.ERROR and plan.error is not None:
            raise plan.error
        if plan is not None and plan.fault is Fault.REQUEST_LOST:
            raise BackendUnavailable("renew: the request was lost by the test")
        answers = self._renewer.renew(queue, held, lease_ms)
        if plan is not None and plan.fault is Fault.REPLY_LOST:
            raise IndeterminateWrite("renew: the reply was lost by the test")
        return answers


def faulty(backend: Backend, wire: Wire) -> Backend:
    """Answer the backend as one process sees it through the wire."""
    return cast("Backend", FaultyBackend(backend, wire))


async def _nothing() -> None:
    pass


async def _performed(
    wire: Wire, operation: str, args: tuple[Any, ...], perform: Callable[[], Awaitable[Any]]
) -> Any:
    wire.refuse_if_down(operation)
    await wire.refuse_if_queue_down(operation, args)
    if operation in wire.refusals and wire.refusals[operation](*args):
        raise CorruptRecord(f"{operation}: a record that the test made unreadable")
    plan = wire.next_plan(operation)
    if plan is None:
        return await perform()
    match plan.fault:
        case Fault.ERROR if plan.error is not None:
            raise plan.error
        case Fault.REQUEST_LOST | Fault.ERROR:
            raise BackendUnavailable(f"{operation}: the request was lost by the test")
        case Fault.REPLY_LOST:
            await perform()
            raise IndeterminateWrite(f"{operation}: the reply was lost by the test")
        case Fault.HANG:
            await perform()
            await asyncio.Event().wait()
        case Fault.DELAY:
            answer = await perform()
            await asyncio.sleep(plan.delay_ms / 1_000)
            return answer
    return None
