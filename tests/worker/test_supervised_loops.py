"""No loop of a worker ends in silence: a bug in any of them ends the run, with the code that says so."""

from __future__ import annotations

from typing import Any

import pytest

from leasemq.events import WorkerStopped
from leasemq.protocol.model import State
from leasemq.worker import crew as crew_module
from leasemq.worker.crew import Crew
from leasemq.worker.keeper import Keeper
from leasemq.worker.settler import Lane
from leasemq.worker.sweeper import FollowUps, Sweeper
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage

LOOPS = [
    (crew_module, "listen"),
    (crew_module, "announce"),
    (FollowUps, "run"),
    (Sweeper, "run"),
    (Lane, "run"),
    (Crew, "_watch_deadlines"),
]


async def _sleep() -> None: ...


async def _ends(*_: Any, **__: Any) -> None:
    """A loop that is left by mistake."""


async def _breaks(*_: Any, **__: Any) -> None:
    raise LookupError("a bug of ours")


@pytest.mark.promise("P-82")
@pytest.mark.parametrize("bug", [_ends, _breaks])
@pytest.mark.parametrize(("owner", "name"), LOOPS, ids=lambda part: getattr(part, "__name__", part))
def test_a_loop_that_ends_ends_the_worker(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, bug: Any
) -> None:
    monkeypatch.setattr(owner, name, bug)

    async def play(stage: Stage) -> None:
        stage.task("sleep", _sleep)
        worker = stage.start()
        assert worker.task is not None
        with pytest.raises(ExceptionGroup) as met:
            await worker.task
        expected = AssertionError if bug is _ends else LookupError
        assert met.value.subgroup(expected) is not None
        (stopped,) = worker.events(WorkerStopped)
        assert stopped.exit_code == 70

    theatre(play)


@pytest.mark.promise("P-82", "P-81")
def test_a_keeper_that_breaks_ends_the_worker_and_costs_its_jobs_nothing(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    def renew_due(self: Keeper) -> int:
        if self._table:
            raise LookupError("a bug of ours")
        return 10

    monkeypatch.setattr(Keeper, "renew_due", renew_due)

    async def play(stage: Stage) -> None:
        async def long() -> None:
            await stage.pass_time(3_600)

        stage.task("long", long)
        job = await stage.enqueue("long")
        worker = stage.start()
        assert worker.task is not None
        with pytest.raises(ExceptionGroup):
            await worker.task
        (stopped,) = worker.events(WorkerStopped)
        assert (stopped.exit_code, stopped.unsettled) == (70, 0)
        record = await stage.job(job)
        assert (record.state, record.stalls) == (State.WAITING, 0)

    theatre(play)
