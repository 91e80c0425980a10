"""The demo's app and its one task: the checksum of a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leasemq.app import App
from leasemq.backend import Backend
from leasemq.client.schemes import open_backend
from leasemq.context import Ctx
from leasemq.demo.ledger import Ledger
from leasemq.demo.plan import Order
from leasemq.errors import BackendUnavailable

QUEUE = "demo"
LEASE_S = 2
_PROBE_MS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """A job's result: the checksum, and the fence of the run that made it."""

    sha256: str
    fence: int


class Checksums:
    """An app with the task registered. Owner: the process.

    The ledger gets a line when a run begins and one when its result is there; the queue does not see them.
    """

    def __init__(self, place: str | Backend, ledger: Ledger) -> None:
        self.app = App(place)
        self._place = place

        @self.app.task(name="demo.checksum", queue=QUEUE, lease=LEASE_S)
        def checksum(ctx: Ctx, path: str, passes: int) -> Checksum:
            run = {"job": ctx.job_id, "attempt": ctx.attempt, "fence": ctx.fence}
            ledger.write("start", **run)
            sha256 = summed_up(Path(path), passes)
            ledger.write("end", **run, sha256=sha256)
            return Checksum(sha256=sha256, fence=ctx.fence)

        self._task = checksum

    def enqueue(self, batch: Sequence[Order]) -> None:
        """Store the jobs of a batch, in order.

        Raises: BackendUnavailable, IndeterminateWrite; the same batch may then be enqueued again.
        """
        calls = [self._task.options(id=order.id).call(str(order.piece.path), order.passes) for order in batch]
        self._task.enqueue_many_sync(calls)

    def is_writable(self) -> bool:
        """Whether somebody else could write to the file just now. For an app that was given a URL."""
        probe = open_backend(f"{self._place}&busy_timeout_ms={_PROBE_MS}")
        try:
            self.app.call_sync(lambda: probe.advance(QUEUE, 0))  # a write that changes nothing
        except BackendUnavailable:
            return False
        finally:
            self.app.call_sync(probe.close)
        return True

    def close(self) -> None:
        """Close what the calls above have opened."""
        self.app.call_sync(self.app.close)


def summed_up(path: Path, passes: int) -> str:
    """Read a file and make its checksum, again and again, and answer it if it is the same each time.

    Raises: OSError if the file reads differently from one pass to the next.
    """
    found = {_sha256(path) for _ in range(passes)}
    if len(found) != 1:
        raise OSError(f"{path} read differently in {passes} passes")
    return found.pop()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
