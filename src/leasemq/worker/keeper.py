"""Heartbeats: keeps every lease that the worker holds, off the event loop.

The decisions are in `protocol/keeping.py`. The table is shared between the loop, which adds and drops
leases, and whoever drives the rounds: a thread of its own (`in_thread`), so that a function which blocks
the loop keeps its lease, or a task (`in_loop`), for loops whose time is not real.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from leasemq.backend import Renewer
from leasemq.clock import Clock
from leasemq.errors import BackendUnavailable, CorruptRecord, IndeterminateWrite
from leasemq.protocol.keeping import (
    Held,
    ended,
    held_since,
    left_alone,
    look_in_ms,
    may_have_ended,
    retry_in_ms,
    settling_since,
    to_renew,
    unsettled,
    watch_in_ms,
)
from leasemq.protocol.model import Renewal
from leasemq.worker.threads import in_own_thread

LONGEST_LOOK_MS = 60_000
Dice = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round of renewals learned."""

    answers: tuple[tuple[int, Renewal], ...] = ()  # only those that are not simply held
    error: BackendUnavailable | IndeterminateWrite | CorruptRecord | None = None


Tell = Callable[[Round], None]
Drive = Callable[["Keeper"], Coroutine[object, object, None]]


class Keeper:
    """The table of held leases, and one round of renewals at a time. Owner: one worker.

    `hold`, `drop` and `begin_settling` are the loop's; `renew_due` is the driver's. Both under the lock.
    """

    def __init__(
        self,
        make_renewer: Callable[[], Renewer],
        clock: Clock,
        dice: Dice,
        tell: Tell,
    ) -> None:
        self._make_renewer = make_renewer
        self.clock = clock
        self._dice = dice
        self.tell = tell
        self._lock = threading.Lock()
        self._table: dict[int, Held] = {}
        self._settling_ms: dict[int, int] = {}  # when the settlement of one was sent that is not answered
        self._in_flight: frozenset[int] = frozenset()
        self._planned_ms: int | None = None  # when the driver looks next; None: only when woken
        self._renewer: Renewer | None = None
        self._failures = 0
        self._failed_ms: dict[str, int] = {}  # when the last renewals of a queue were sent, if they failed
        self.is_stopped = False
        self.looked_ms = clock()  # when the driver last looked; read from any thread
        self.wake: Callable[[], None] = lambda: None  # set by the driver when it starts

    # ---- the loop's side

    def hold(self, leases: Iterable[Held]) -> None:
        """Keep these from now on."""
        with self._lock:
            earliest = None
            for held in leases:
                self._table[held.serial] = held
                if earliest is None or held.renew_at_ms < earliest:
                    earliest = held.renew_at_ms
            is_sooner = earliest is not None and (self._planned_ms is None or earliest < self._planned_ms)
        if is_sooner:
            self.wake()

    def drop(self, serial: int) -> None:
        """Keep this one no more."""
        self.drop_all([serial])

    def drop_all(self, serials: Iterable[int]) -> None:
        """Keep these no more."""
        with self._lock:
            for serial in serials:
                self._table.pop(serial, None)
                self._settling_ms.pop(serial, None)

    def end(self, serial: int) -> None:
        """Keep this one until it is dropped, however long its settlement takes: its attempt is over."""
        held = self._table.get(serial)
        if held is None or held.last_ms is None:  # which stays so, without the lock too
            return
        with self._lock:
            if (held := self._table.get(serial)) is not None:
                self._table[serial] = ended(held)

    def begin_settling(self, serials: Sequence[int]) -> frozenset[int]:
        """Leave these alone while their settlement is sent; answers those being renewed at this moment.

        A renewal that overtakes its own settlement would be refused and noted on the job for nothing.
        """
        sent_ms = self.clock()
        with self._lock:
            self._settling_ms.update(dict.fromkeys(serials, sent_ms))
            return self._in_flight.intersection(serials)

    def lengthen(self, serial: int) -> bool:
        """Answer whether this was claimed for less than its task asks for; if so, it is renewed at once."""
        now_ms = self.clock()
        with self._lock:
            held = self._table.get(serial)
            if held is None or not held.is_short:
                return False
            is_news = held.renew_at_ms > now_ms
            if is_news:
                self._table[serial] = replace(held, renew_at_ms=now_ms)
        if is_news:  # else it is under way, or waits for its turn after a failure
            self.wake()
        return True

    def leave_alone(self, serial: int) -> bool:
        """Renew this one no more until `settling_failed`; answers whether it is being renewed right now."""
        with self._lock:
            held = self._table.get(serial)
            if held is not None:
                self._table[serial] = left_alone(held)
            return serial in self._in_flight

    def lease_ms(self, serial: int) -> int:
        """Answer how long this lease lasts from a renewal on; 0 if it is not kept (any more)."""
        with self._lock:
            held = self._table.get(serial)
            return 0 if held is None else held.lease_ms

    def settling_failed(self, serials: Iterable[int]) -> None:
        """Renew these again as if their settlement had not been sent."""
        with self._lock:
            for serial in serials:
                held = self._table.get(serial)
                if held is not None:
                    self._table[serial] = unsettled(held)
                self._settling_ms.pop(serial, None)
        self.wake()

    def in_danger(self) -> list[int]:
        """Answer the leases that may end before they can be renewed."""
        with self._lock:
            return may_have_ended(self._table.values(), self.clock())

    def watch_in_ms(self) -> int | None:
        """Answer when to ask `in_danger` next; None: when something is held again."""
        with self._lock:
            return watch_in_ms(self._table.values(), self.clock())

    def look_now(self) -> None:
        """Let the driver try again what failed; the backend was reached by somebody. From any thread."""
        self.wake()

    def stop(self) -> None:
        """Renew nothing from now on. From any thread."""
        self.is_stopped = True
        self.wake()

    # ---- the driver's side

    def renew_due(self) -> int:
        """Renew what is due; answers in how many ms to look again."""
        now_ms = self.looked_ms = self.clock()
        with self._lock:
            due = to_renew(self._kept(), now_ms)
            self._in_flight = frozenset(held.serial for held in due)
            # What is being settled counts as well: without it nobody knows whether the backend is back.
            has_nothing_left = self._failures > 0 and not to_renew(self._table.values(), now_ms)
        if due:
            self._ask(due)
        elif has_nothing_left:  # what could not be renewed has ended: nothing here waits for the backend
            self._failures = 0
            self.tell(Round())
        return self._plan()

    def _plan(self) -> int:
        """Answer how long until the next look, and remember when that is."""
        with self._lock:
            now_ms = self.clock()
            look_ms = look_in_ms(self._kept(), now_ms)
            wait_ms = LONGEST_LOOK_MS if look_ms is None else min(look_ms, LONGEST_LOOK_MS)
            if self._failures:
                wait_ms = retry_in_ms(self._table.values(), now_ms, self._failures, self._dice())
            self._planned_ms = now_ms + wait_ms
        return wait_ms

    def _kept(self) -> list[Held]:
        """Answer all that is kept, as it is to be renewed now. Under the lock."""
        settling_ms = self._settling_ms
        return [
            held if serial not in settling_ms else settling_since(held, settling_ms[serial])
            for serial, held in self._table.items()
        ]

    def close(self) -> None:
        """Give the renewer back; in the driver's thread."""
        if self._renewer is not None:
            self._renewer.close()
            self._renewer = None

    def _ask(self, due: list[Held]) -> None:
        answers: list[tuple[int, Renewal]] = []
        failure: BackendUnavailable | IndeterminateWrite | CorruptRecord | None = None
        is_away = False
        groups: dict[tuple[str, int], list[Held]] = {}
        for held in due:
            groups.setdefault((held.queue, held.lease_ms), []).append(held)
        # One whose server hangs costs a time-out: those that failed last come last, and one of them a round.
        pending = sorted(groups.values(), key=lambda group: -self._failed_ms.get(group[0].queue, 0))
        while pending:
            group = pending.pop()
            sent_ms = self.clock()
            if is_away and group[0].queue in self._failed_ms:
                break
            asked = [(one.job_id, one.fence) for one in group]
            try:
                told = self._connected().renew(group[0].queue, asked, group[0].lease_ms)
            except (BackendUnavailable, IndeterminateWrite) as error:
                failure, is_away = error, True
                self._failed_ms[group[0].queue] = sent_ms
            except CorruptRecord as error:
                failure = error
                # One record that cannot be read must not cost the others their leases.
                pending += [[one] for one in group] if len(group) > 1 else []
            else:
                answers += self._took(group, told, sent_ms)
                self._failed_ms.pop(group[0].queue, None)
        self._failures = self._failures + 1 if failure is not None else 0
        with self._lock:
            self._in_flight = frozenset()  # before anybody is told: who waited for this may go on
        self.tell(Round(answers=tuple(answers), error=failure))

    def _connected(self) -> Renewer:
        if self._renewer is None:
            self._renewer = self._make_renewer()
        return self._renewer

    def _took(self, group: list[Held], told: Sequence[Renewal], sent_ms: int) -> list[tuple[int, Renewal]]:
        news: list[tuple[int, Renewal]] = []
        with self._lock:
            for held, renewal in zip(group, told, strict=True):
                if renewal is Renewal.LOST:
                    self._table.pop(held.serial, None)
                    self._settling_ms.pop(held.serial, None)
                elif (kept := self._table.get(held.serial)) is not None:
                    self._table[held.serial] = held_since(kept, sent_ms)
                if renewal is not Renewal.HELD:
                    news.append((held.serial, renewal))
        return news


async def in_thread(keeper: Keeper) -> None:
    """Drive the keeper in a daemon thread of its own, until it is stopped."""
    woken = threading.Event()
    loop = asyncio.get_running_loop()
    tell = keeper.tell

    def tell_in_loop(news: Round) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(tell, news)

    def renew_until_stopped() -> None:
        try:
            while not keeper.is_stopped:
                woken.wait(keeper.renew_due() / 1_000)
                woken.clear()
        finally:
            keeper.close()

    keeper.tell = tell_in_loop
    keeper.wake = woken.set
    await in_own_thread(renew_until_stopped, keeper.stop, "leasemq-keeper")


async def in_loop(keeper: Keeper) -> None:
    """Drive the keeper by a task of the running loop: for virtual time, where a thread has no place."""
    woken = asyncio.Event()
    keeper.wake = woken.set
    try:
        while not keeper.is_stopped:
            wait_ms = keeper.renew_due()
            try:
                async with asyncio.timeout(wait_ms / 1_000):
                    await woken.wait()
            except TimeoutError:
                pass
            woken.clear()
    finally:
        keeper.close()
