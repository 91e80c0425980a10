"""Errors that a task declares, from the function that raises them to whoever waits, and in the history."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasemq import App
from leasemq.backends.memory import MemoryBackend
from leasemq.errors import InvalidSetting, JobFailed, RetryAfter
from leasemq.protocol.retry import Retry


class CardDeclined(Exception):
    def __init__(self, code: str, attempts: int) -> None:
        super().__init__(f"declined with {code}")
        self.code = code
        self.attempts = attempts


class Unwilling(RetryAfter):
    """A verdict with a value of its own."""

    def __init__(self, code: str) -> None:
        super().__init__(1, f"unwilling: {code}")
        self.code = code


async def declined(code: str) -> None:
    raise CardDeclined(code, 3)


def declined_in_a_thread(code: str) -> None:
    raise CardDeclined(code, 3)


@pytest.mark.promise("P-60", "E-2", "E-33")
@pytest.mark.parametrize("function", [declined, declined_in_a_thread], ids=["loop", "thread"])
async def test_a_declared_error_reaches_the_waiter_and_the_history_with_its_values(
    app: App, function: Any
) -> None:
    task = app.task(name="pay", raises=(CardDeclined,), retry=Retry(1, base=0))(function)

    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        job = await task.enqueue("51")
        with pytest.raises(JobFailed, match="declined with 51") as failure:
            await job.result(timeout=10)
        record = await job.record()
        failures = await job.errors()
        worker.stop()
        await running

    error = failure.value.error
    assert isinstance(error, CardDeclined)
    assert (error.code, error.attempts) == ("51", 3)
    assert failure.value.__cause__ is error
    assert failure.value.error_type.endswith("CardDeclined")
    assert "raise CardDeclined(code, 3)" in failure.value.traceback
    assert record.attempts == 2
    assert [(one.attempt, one.error_message) for one in failures] == [
        (1, "declined with 51"),
        (2, "declined with 51"),
    ]
    assert all(isinstance(one.error, CardDeclined) and one.error.code == "51" for one in failures)


@pytest.mark.promise("P-60", "E-2", "B38")
async def test_an_error_that_is_not_declared_is_told_apart(app: App) -> None:
    @app.task(name="pay", raises=[CardDeclined])
    async def pay() -> None:
        raise ValueError("no such account")

    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        with pytest.raises(JobFailed, match="no such account") as failure:
            await (await pay.enqueue()).result(timeout=10)
        worker.stop()
        await running
    assert failure.value.error is None
    assert failure.value.__cause__ is None


@pytest.mark.promise("E-2")
async def test_a_verdict_may_be_declared_too_and_keeps_its_meaning(app: App) -> None:
    @app.task(name="pay", raises=[Unwilling], retry=Retry(max_retries=0))
    async def pay() -> None:
        raise Unwilling("soon")

    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        with pytest.raises(JobFailed, match="unwilling: soon") as failure:
            await (await pay.enqueue()).result(timeout=10)
        worker.stop()
        await running
    assert isinstance(failure.value.error, Unwilling)
    assert failure.value.error.code == "soon"


@pytest.mark.promise("E-2", "P-103")
async def test_any_handle_of_an_app_that_knows_the_task_gets_the_error_and_of_others_none() -> None:
    backend = MemoryBackend()
    app, stranger = App(backend), App(backend)
    task = app.task(name="pay", raises=[CardDeclined])(declined)

    async with app, stranger:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        job = await task.enqueue("51")
        errors = []
        for handle in (app.job("default", job.id), stranger.job("default", job.id)):
            with pytest.raises(JobFailed, match="declined with 51") as failure:
                await handle.result(timeout=10)
            errors.append(failure.value.error)
        worker.stop()
        await running
    assert isinstance(errors[0], CardDeclined)
    assert errors[1] is None


@pytest.mark.promise("E-2", "E-4")
def test_what_cannot_be_declared_is_refused_where_it_is_declared() -> None:
    app = App("memory://")
    with pytest.raises(InvalidSetting, match="pay, raises: <class 'int'> is no exception class"):
        app.task(name="pay", raises=[int])(declined)  # type: ignore[list-item]  # what a user may write
    with pytest.raises(InvalidSetting, match=r"say raises=\(CardDeclined,\)"):
        app.task(raises=CardDeclined)(declined)  # type: ignore[call-overload]  # what a user may write
