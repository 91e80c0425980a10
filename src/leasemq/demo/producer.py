"""Enqueues a run's jobs while it lasts, and writes down each one that was accepted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from leasemq.demo.ledger import Ledger, Ledgers
from leasemq.demo.plan import Order
from leasemq.demo.work import Checksums
from leasemq.errors import BackendUnavailable, IndeterminateWrite

_MOST_WAITING = 10  # so that a recovered job, which queues anew, has its turn soon
_LOOK_EVERY_S = 0.05


class Producer:
    """Keeps a few jobs in the queue, from a thread of its own. Owner: the demo's main thread.

    Leaving the context gives up what was not sent, and closes the app.
    """

    def __init__(
        self, checksums: Checksums, orders: Sequence[Order], ledger: Ledger, ledgers: Ledgers
    ) -> None:
        self._checksums = checksums
        self._orders = orders
        self._ledger = ledger
        self._ledgers = ledgers
        self._may_send = 0
        self._given_up = threading.Event()
        self._thread = ThreadPoolExecutor(1, "producer")
        self._sending: Future[None] | None = None

    def __enter__(self) -> Self:
        self._sending = self._thread.submit(self._feed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._given_up.set()
        self._thread.shutdown()
        self._checksums.close()

    def allow(self, count: int) -> None:
        """Let it send the first `count` jobs; more than were allowed before."""
        self._may_send = count

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._sending is not None and self._sending.done():
            self._sending.result()

    def can_write(self) -> bool:
        """Whether somebody else could write to the queue's file just now."""
        return self._checksums.is_writable()

    def _feed(self) -> None:
        sent = 0
        while not self._given_up.wait(_LOOK_EVERY_S):
            done = len({line["job"] for line in self._ledgers.look() if line["event"] == "end"})
            end = min(self._may_send, done + _MOST_WAITING)
            if end > sent and self._send(self._orders[sent:end]):
                sent = end

    def _send(self, batch: Sequence[Order]) -> bool:
        """Answer whether the batch is stored; if not, the same one is sent again: the ids are ours."""
        try:
            self._checksums.enqueue(batch)
        except (BackendUnavailable, IndeterminateWrite):
            return False
        accepted = [{"job": order.id, "path": str(order.piece.path)} for order in batch]
        self._ledger.write_many("accepted", accepted)
        return True
