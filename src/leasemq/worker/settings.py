"""A worker's settings: validated as one, refused before anything starts, naming the field and the value."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leasemq.errors import InvalidSetting
from leasemq.protocol.insight import EVENT_AGE_MS, MAX_NEWEST, RECORD_LIMIT
from leasemq.protocol.names import check_queue
from leasemq.protocol.times import MAX_DURATION_MS
from leasemq.protocol.turns import MAX_WEIGHT
from leasemq.worker.routine import Routine

LEASE_MS = 30_000
DRAIN_MS = 30_000
LONGEST_IDLE_MS = 15_000
TURN_MS = 12_000  # between two claims of an idle worker with several queues
SHORTEST_CLAIM_MS = 1_000
MANY_SLOTS = 20
LONGEST_STALL_MS, SHORTEST_STALL_MS = 1_000, 100
ANNOUNCE_MS = 25_000
ANNOUNCE_TTL_MS = 30_000
MAX_NAME = 256  # characters


def _default_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How one worker runs. Raises: InvalidSetting, InvalidQueueName."""

    queues: tuple[str, ...] | Mapping[str, int] = ("default",)  # listed order, or weights
    concurrency: int = 10
    lease_ms: int = LEASE_MS
    heartbeat_ms: int | None = None  # a third of the lease
    drain_ms: int = DRAIN_MS
    abandon_after_ms: int | None = None  # until a function that outlasts its time-out loses its job: a lease
    stall_after_ms: int | None = None  # for how long the loop may not turn: 1 s, and less than a heartbeat
    sweep: bool = True
    sweep_batch: int = 100
    sweep_every_ms: int | None = None  # an eighth of the lease below 30 s, else half of it up to 15 s
    idle_ms: int | None = None  # the longest sleep: 15 s, and half the shortest lease
    event_age_ms: int = EVENT_AGE_MS  # how long its sweep keeps events
    keep_newest: int = RECORD_LIMIT  # how many records of a queue and outcome its sweep leaves
    settle_batch: int = 500
    settle_batch_bytes: int = 4 * 1024 * 1024
    name: str = field(default_factory=_default_name)

    def __post_init__(self) -> None:
        _check_queues(self.queues)
        _check_whole("concurrency", self.concurrency, 1, 1_000)
        _check_whole("lease_ms", self.lease_ms, 10, MAX_DURATION_MS)
        _check_whole("drain_ms", self.drain_ms, 0, MAX_DURATION_MS)
        _check_whole("sweep_batch", self.sweep_batch, 1, 1_000)
        _check_whole("event_age_ms", self.event_age_ms, 1, MAX_DURATION_MS)
        _check_whole("keep_newest", self.keep_newest, 1, MAX_NEWEST)
        _check_whole("settle_batch", self.settle_batch, 1, 10_000)
        _check_whole("settle_batch_bytes", self.settle_batch_bytes, 1, 1 << 30)
        for name in ("heartbeat_ms", "sweep_every_ms", "idle_ms", "abandon_after_ms", "stall_after_ms"):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), 1, MAX_DURATION_MS)
        if self.heartbeat_ms is not None and self.heartbeat_ms >= self.lease_ms:
            raise InvalidSetting(
                f"heartbeat_ms={self.heartbeat_ms} must be shorter than lease_ms={self.lease_ms}; "
                "a third of it leaves room for two lost renewals"
            )
        if self.abandon_after_ms is not None and self.abandon_after_ms > self.lease_ms:
            raise InvalidSetting(
                f"abandon_after_ms={self.abandon_after_ms} must not be longer than lease_ms={self.lease_ms}; "
                "no attempt is renewed for longer than a lease after its time-out"
            )
        _check_name(self.name)

    def heartbeat_for(self, lease_ms: int) -> int:
        """Answer how often a lease of this length is renewed."""
        third_ms = max(1, lease_ms // 3)
        if self.heartbeat_ms is None:
            return third_ms
        return self.heartbeat_ms if lease_ms == self.lease_ms else min(self.heartbeat_ms, third_ms)

    @property
    def claim_most(self) -> int:
        """Answer for how many jobs a claim asks: of many slots half, so that some run while others come."""
        return self.concurrency if self.concurrency < MANY_SLOTS else (self.concurrency + 1) // 2

    @property
    def longest_stall_ms(self) -> int:
        """Answer for how long the loop may not turn before it is told."""
        if self.stall_after_ms is not None:
            return self.stall_after_ms
        return min(LONGEST_STALL_MS, max(SHORTEST_STALL_MS, self.heartbeat_for(self.lease_ms) * 4 // 5))

    def sweep_for(self, routines: Iterable[Routine]) -> int:
        """Answer how often the worker looks for leases that ended."""
        if self.sweep_every_ms is not None:
            return self.sweep_every_ms
        lease_ms = self._shortest_lease(routines)
        if lease_ms < LEASE_MS:
            return max(1, lease_ms // 8)
        return min(lease_ms // 2, LONGEST_IDLE_MS)

    def idle_for(self, routines: Iterable[Routine]) -> int:
        """Answer the longest time for which a worker with nothing to do asks for nothing."""
        longest_ms = min(LONGEST_IDLE_MS, max(1, self._shortest_lease(routines) // 2))
        return longest_ms if self.idle_ms is None else min(self.idle_ms, longest_ms)

    def claim_lease_for(self, routines: Iterable[Routine]) -> int:
        """Answer for how long a claim takes its jobs: as the shortest lease among what it may bring.

        What asks for more has it from its first heartbeat on. Never less than a second because of one task:
        all the others would have no more time to be heard of.
        """
        return max(self._shortest_lease(routines), min(self.lease_ms, SHORTEST_CLAIM_MS))

    def turn_for(self, routines: Iterable[Routine]) -> int:
        """Answer how often one of the queues where nothing happens is asked: the one not asked for longest.

        With many queues each has its turn more rarely, so that an idle worker costs no more with them.
        """
        idle_ms = self.idle_for(routines)
        longest_ms = max(1, idle_ms // len(self.queues))
        return max(longest_ms, TURN_MS) if self._is_calm(idle_ms) else longest_ms

    def told_for(self, routines: Iterable[Routine]) -> int:
        """Answer for how long a claim's word on the leases of its queue counts, if nothing is heard of it."""
        routines = list(routines)
        sweep_ms = self.sweep_for(routines)
        turns_ms = (len(self.queues) + 1) * self.turn_for(routines)
        return max(sweep_ms, turns_ms) if self._is_calm(self.idle_for(routines)) else sweep_ms

    def _is_calm(self, idle_ms: int) -> bool:
        return len(self.queues) > 1 and self.idle_ms is None and idle_ms == LONGEST_IDLE_MS

    def _shortest_lease(self, routines: Iterable[Routine]) -> int:
        leases = (one.lease_ms for one in routines if one.lease_ms is not None)
        return min([self.lease_ms, *leases])


def _check_queues(queues: object) -> None:
    if isinstance(queues, Mapping):
        for name, weight in queues.items():
            _check_whole(f"queues[{name!r}]", weight, 1, MAX_WEIGHT)
    elif not isinstance(queues, tuple):
        raise InvalidSetting(f"queues={queues!r} is neither a tuple of names nor a mapping to weights")
    names = tuple(queues)
    if not names:
        raise InvalidSetting("queues is empty; name at least one queue")
    if len(set(names)) != len(names):
        raise InvalidSetting(f"queues={queues!r} names a queue twice; name each once")
    for name in names:
        check_queue(name)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidSetting(f"name={name!r} is not a text; give the worker a name, or leave it out")
    if not name.isprintable() or len(name) > MAX_NAME:
        raise InvalidSetting(f"name={name[:80]!r} is not printable, or longer than {MAX_NAME} characters")


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidSetting(f"{name}={value!r} is not a whole number from {least:,} to {most:,}")
