"""When what a worker has ended will be past its retention: how much pruning it owes its queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from leasemq.clock import Clock
from leasemq.protocol.model import Settlement

FINEST_MS = 1_000  # what falls due within a second is pruned together
SHARES = 64  # as does what falls due within a small share of its retention


class Owed:
    """Results and records of one queue that this worker stored and that have to go. Owner: the sweeper.

    No backend says when something falls due, so those who stored it count. Whatever is counted twice, or
    was pruned by another worker, costs a look that finds nothing.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead: Counter[int] = Counter()  # how many fall due at each instant; at most some thousands
        self._next_ms: int | None = None
        self._due = 0

    def add(self, settlements: Iterable[Settlement]) -> bool:
        """Count what jobs have left at their ends; answers whether `due_ms` is sooner now."""
        last_ms = self._next_ms
        kept: dict[int, int] = {}  # how many have to go so long from now
        for settlement in settlements:
            keep_ms, result_ms = settlement.keep_ms or 0, settlement.result_ms or 0
            if settlement.result is not None and 0 < result_ms != keep_ms:  # before its record, or after it
                kept[result_ms] = kept.get(result_ms, 0) + 1
            if keep_ms > 0:
                kept[keep_ms] = kept.get(keep_ms, 0) + 1
        for retention_ms, count in kept.items():
            self._expect(retention_ms, count)
        return self._next_ms != last_ms

    def _expect(self, retention_ms: int, count: int) -> None:
        width_ms = FINEST_MS << (retention_ms // (FINEST_MS * SHARES)).bit_length()
        at_ms = ((self._clock() + retention_ms) // width_ms + 1) * width_ms
        self._ahead[at_ms] += count
        if self._next_ms is None or at_ms < self._next_ms:
            self._next_ms = at_ms

    @property
    def due_ms(self) -> int | None:
        """When something is owed; None: nothing is, and nothing will be."""
        return self._clock() if self._due else self._next_ms

    @property
    def is_due(self) -> bool:
        """Whether something is owed now."""
        now_ms = self._clock()
        if self._next_ms is not None and self._next_ms <= now_ms:
            for at_ms in [at_ms for at_ms in self._ahead if at_ms <= now_ms]:
                self._due += self._ahead.pop(at_ms)
            self._next_ms = min(self._ahead, default=None)
        return self._due > 0

    def pay(self, count: int) -> None:
        """So many of each kind were pruned, or there were fewer."""
        self._due = max(0, self._due - count)
