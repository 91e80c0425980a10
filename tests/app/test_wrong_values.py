"""Values of a wrong kind are refused by an error of ours that names them, where they are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from leasemq import App
from leasemq.context import Ctx, Desk
from leasemq.errors import InvalidSetting, LeaseMQError, PayloadRejected, Refused
from leasemq.protocol.insight import Filter
from leasemq.queue import Queue
from leasemq.task import Task
from tests.app.holder import Holder

app = App("memory://")


@app.task(name="wrong")
def task(value: int = 0) -> int:
    return value


REFUSALS: dict[str, tuple[Callable[[], Any], type[LeaseMQError], str]] = {
    "after a text": (lambda: task.options(after="abc"), InvalidSetting, "after='abc' is no list"),  # type: ignore[arg-type]  # the misuse
    "after a number": (lambda: task.options(after=[5]), InvalidSetting, "after has 5"),  # type: ignore[list-item]  # the misuse
    "after a task": (lambda: task.options(after=[task]), InvalidSetting, "neither a job nor"),  # type: ignore[list-item]  # the misuse
    "strict a text": (lambda: task.options(strict="no"), InvalidSetting, "strict='no' is neither"),  # type: ignore[arg-type]  # the misuse
    "retry a text": (lambda: task.options(retry="x"), InvalidSetting, r"say retry=Retry\(max_retries=5\)"),  # type: ignore[arg-type]  # the misuse
    "retry a number": (lambda: App(retry=3), InvalidSetting, r"say retry=Retry\(max_retries=3\)"),  # type: ignore[arg-type]  # the misuse
    "a path for a URL": (lambda: App(Path("a.db")), InvalidSetting, "say App.'sqlite:///a.db'"),  # type: ignore[arg-type]  # the misuse
    "a number for a URL": (lambda: App(5), InvalidSetting, "names no backend"),  # type: ignore[arg-type]  # the misuse
    "a worker outside of a loop": (app.worker, Refused, "async with app"),
    "a text for a handle": (lambda: task.handle("x"), Refused, "no handle"),  # type: ignore[arg-type]  # the misuse
}


@pytest.mark.promise("P-18", "A-41")
@pytest.mark.parametrize("what", REFUSALS)
def test_it_is_refused_with_the_value_and_the_remedy(what: str) -> None:
    use, kind, told = REFUSALS[what]
    with pytest.raises(kind, match=told):
        use()


async def test_a_cursor_of_another_kind_is_refused(app: App) -> None:
    async with app:
        await app.prepare()
        queue: Queue = app.queue()
        backend = (await app._connections.here()).backend
        with pytest.raises(InvalidSetting, match="cursor"):
            await queue.find(cursor=5)  # type: ignore[arg-type]  # the misuse
        assert (await backend.find(queue.name, Filter(), None, 1)).jobs == ()


@pytest.mark.promise("P-110")
async def test_a_job_cannot_wait_for_itself(app: App) -> None:
    waiting: Task[[], None] = app.task(name="waiting")(lambda: None)
    async with app:
        itself = waiting.job("a")
        with pytest.raises(InvalidSetting, match="wait for itself"):
            await waiting.options(id="a", after=[itself]).enqueue()
        assert await app.queue().get("a") is None


@pytest.mark.promise("P-63", "P-100")
async def test_notes_of_another_kind_are_refused_before_they_are_sent(app: App) -> None:
    noting: Task[[], None] = app.task(name="noting")(lambda: None)
    async with app:
        await noting.enqueue()
        (lease,) = await Holder(app).claim()
        context = Ctx(lease, Mock(spec_set=Desk))
        with pytest.raises(PayloadRejected, match="current='x'"):
            await context.progress("x")  # type: ignore[arg-type]  # the misuse
        with pytest.raises(PayloadRejected, match="a log line is a text"):
            await context.log(5)  # type: ignore[arg-type]  # the misuse
