"""A worker that moves money between accounts, and kills or holds itself at one chosen step of one transfer.

python -m tests.end_to_end.apps.transfers [STEP NTH [hold]]
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from leasemq import App, Ctx, Retry
from leasemq.backend import Backend
from leasemq.client.schemes import open_backend
from leasemq.operations import Joined
from leasemq.protocol.model import Enqueued, Fence, NewJob, Renewal, Settled, Settlement

STEPS = (
    "entered",  # nothing is begun
    "checked",  # the job is locked
    "taken",  # from the one account
    "given",  # to the other
    "noted",  # the entry is written
    "settled",  # in the transaction
    "committed",  # and nobody here has noticed
    "left",  # and the function still runs
)
LEASE_S = 1.0
LOOK_EVERY_S = 0.002
GO_ON = "go-on"


class Fate:
    """Where this process is struck. Owned by the module, set by `main`."""

    def __init__(self, step: str = "", nth: int = 0, fault: str = "kill") -> None:
        self._step = step
        self._nth = nth
        self._fault = fault
        self._counted = itertools.count(1)
        self._guard = threading.Lock()

    def at(self, step: str) -> None:
        """Reach a step."""
        if step != self._step:
            return
        with self._guard:
            if next(self._counted) != self._nth:
                return
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        folder = Path(os.environ["E2E_FOLDER"])
        (folder / "held").touch()
        pause = threading.Event()
        while not (folder / GO_ON).exists():
            pause.wait(LOOK_EVERY_S)


fate = Fate()


class Struck:
    """See `leasemq.operations.Joined`; what is asked of it are steps."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self.is_async: bool = joined.is_async
        self.session: object = joined.session
        self.locked_store: str | None = joined.locked_store
        self.roll_back = joined.roll_back

    async def enqueue(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Joined.enqueue`."""
        return await self._joined.enqueue(queue, jobs)

    async def check(self, queue: str, job_id: str, fence: Fence) -> Renewal:
        """See `Joined.check`."""
        answer = await self._joined.check(queue, job_id, fence)
        fate.at("checked")
        return answer

    async def settle(self, queue: str, settlement: Settlement) -> Settled:
        """See `Joined.settle`."""
        answer = await self._joined.settle(queue, settlement)
        fate.at("settled")
        return answer

    async def commit(self) -> None:
        """See `Joined.commit`."""
        await self._joined.commit()
        fate.at("committed")


class Striking:
    """A backend whose transactions are struck."""

    def __init__(self, behind: Backend) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:  # the rest of the contract
        return getattr(self._behind, name)

    @asynccontextmanager
    async def transaction(self, *, blocks: bool, idle_ms: int) -> AsyncIterator[Joined]:
        """See `Backend.transaction`."""
        async with self._behind.transaction(blocks=blocks, idle_ms=idle_ms) as joined:
            yield Struck(joined)


def app_on(url: str, backend: Backend | None = None) -> App:
    """An app with the two tasks; the test enqueues on the URL, a worker runs on a backend that strikes."""
    app = App(url if backend is None else backend)
    mark = "?" if url.startswith("sqlite") else "%s"
    update = f"update {table(url, 'account')} set balance = balance + {mark} where name = {mark}"  # noqa: S608  own names
    insert = f"insert into {table(url, 'entry')} (job, attempt) values ({mark}, {mark})"  # noqa: S608  own names

    @app.task(name="transfer", retry=Retry(None, base=0.01))
    async def transfer(ctx: Ctx, source: str, target: str, amount: int) -> int:
        fate.at("entered")
        async with ctx.transaction() as connection:
            for step, name, change in moves(source, target, amount):
                await connection.execute(update, (change, name))
                fate.at(step)
            await connection.execute(insert, (ctx.job_id, ctx.attempt))
            fate.at("noted")
            ctx.complete(amount)
        fate.at("left")
        return amount

    @app.task(name="transfer_in_a_thread", retry=Retry(None, base=0.01))
    def transfer_in_a_thread(ctx: Ctx, source: str, target: str, amount: int) -> int:
        fate.at("entered")
        with ctx.transaction_sync() as connection:
            for step, name, change in moves(source, target, amount):
                connection.execute(update, (change, name))
                fate.at(step)
            connection.execute(insert, (ctx.job_id, ctx.attempt))
            fate.at("noted")
            ctx.complete(amount)
        fate.at("left")
        return amount

    return app


def moves(source: str, target: str, amount: int) -> list[tuple[str, str, int]]:
    """The two changes of a transfer; accounts are locked in the order of their names."""
    changes = sorted([(source, -amount), (target, amount)])
    return [(step, name, change) for step, (name, change) in zip(("taken", "given"), changes, strict=True)]


def table(url: str, name: str) -> str:
    """A table of the test's own, in the schema of its store."""
    if url.startswith("sqlite"):
        return name
    from leasemq.backends.postgres.settings import located, quoted

    return f"{quoted(located(url).schema)}.{name}"


def main() -> int:
    """Work until told to stop, or struck."""
    global fate  # noqa: PLW0603  this process has one
    if sys.argv[1:]:
        fate = Fate(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
    url = os.environ["LEASEMQ_URL"]
    app = app_on(url, cast("Backend", Striking(open_backend(url))))
    return app.run_worker(concurrency=4, lease=LEASE_S, drain=5)


if __name__ == "__main__":
    sys.exit(main())
