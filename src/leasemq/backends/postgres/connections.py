"""The driver's connections, but for how they wait: who stops waiting for an answer gives the connection up.

The driver would ask the server to cancel, and wait for that: a frozen server never answers.
"""

from __future__ import annotations

import select
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection, waiting
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.waiting import Ready, Wait

from leasemq.clock import boot_ms

RV = TypeVar("RV")


class WireConnection(AsyncConnection[Any]):
    """A connection in a loop, whose waiters may be cancelled."""

    was_given_up = False  # by who used it: no outage

    async def wait(self, gen: PQGen[RV], interval: float = 1.0, timeout: float | None = None) -> RV:
        """See `psycopg.AsyncConnection.wait`."""
        is_answered = False
        try:
            answer = await waiting.wait_async(gen, self.pgconn.socket, interval=interval)
            is_answered = True
            return answer
        finally:
            if not is_answered and self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.was_given_up = True
                self.pgconn.finish()


class LineConnection(Connection[Any]):
    """A connection in a thread, with a deadline: the driver would wait for a frozen server for ever."""

    deadline_ms = 0
    has_given_up = False

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """See `psycopg.Connection.wait`. Ends the connection at the deadline."""
        try:
            wanted = next(gen)
            while True:
                ready = self._ready(wanted)
                if not ready:
                    self.has_given_up = True
                    self.pgconn.finish()
                    raise psycopg.OperationalError("no answer in time")
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: RV = end.value
            return answer
        finally:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()

    def _ready(self, wanted: Wait) -> Ready:
        poll = select.poll()
        reads = select.POLLIN if wanted & Wait.R else 0
        poll.register(self.pgconn.socket, reads | (select.POLLOUT if wanted & Wait.W else 0))
        found = poll.poll(max(0, self.deadline_ms - boot_ms()))
        can_read = any(happened & ~select.POLLOUT for _, happened in found)  # an end or error is read
        can_write = any(happened & select.POLLOUT for _, happened in found)
        return Ready((Ready.R if can_read else 0) | (Ready.W if can_write else 0))
