"""Ids and unique keys that a task makes from the arguments of a call, however the call is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from leasemq import App, Ctx, Job, Secret, Unique
from leasemq.errors import InvalidJobId, InvalidName, InvalidSetting, KeyFailed, LeaseMQError
from leasemq.protocol.model import Acceptance
from leasemq.task import Call, Task
from tests.app.holder import Holder


@dataclass
class Order:
    number: int
    tags: set[str]


async def _key(job: Job[Any]) -> str | None:
    unique = (await job.record()).unique
    return None if unique is None else unique.key


@pytest.fixture
def mail(app: App) -> Task[[int, str], None]:
    @app.task(name="mail", unique=lambda user_id: f"user-{user_id}")
    async def mail(user_id: int, text: str = "") -> None: ...

    return mail


Way = Callable[[Task[[int, str], None], int], Awaitable[list[Job[None]]]]


async def _one(task: Task[[int, str], None], user: int) -> list[Job[None]]:
    return [await task.enqueue(user, "one")]


async def _by_name(task: Task[..., None], user: int) -> list[Job[None]]:
    return [await task.enqueue(text="by name", user_id=user)]


async def _tuples(task: Task[[int, str], None], user: int) -> list[Job[None]]:
    return await task.enqueue_many([(user, "many")])


async def _calls(task: Task[[int, str], None], user: int) -> list[Job[None]]:
    return await task.enqueue_many([task.call(user, "call"), task.options(priority=9).call(user, "other")])


async def _with_options(task: Task[[int, str], None], user: int) -> list[Job[None]]:
    return [await task.options(priority=5, delay=60).enqueue(user, "options")]


WAYS: dict[str, Way] = {
    "enqueue": _one,
    "by name": _by_name,
    "tuples": _tuples,
    "calls": _calls,
    "options": _with_options,
}


@pytest.mark.promise("P-41", "A-3")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
async def test_a_task_s_key_holds_for_every_way_of_enqueueing(
    app: App, mail: Task[[int, str], None], way: Way
) -> None:
    async with app:
        (holder, *_) = await way(mail, 7)
        assert holder.created
        assert await _key(holder) == "user-7"
        for other in WAYS.values():
            for job in await other(mail, 7):
                assert (job.acceptance, job.id) == (Acceptance.SKIPPED, holder.id)
        assert (await mail.enqueue(8, "")).created
        assert (await app.queue().counts()).accepted == 2


@pytest.mark.promise("P-41", "A-3")
def test_a_task_s_key_holds_for_callers_without_a_loop(app: App, mail: Task[[int, str], None]) -> None:
    with app:
        assert mail.enqueue_sync(7, "").created
        jobs = [mail.enqueue_sync(7, "b"), *mail.enqueue_many_sync([(7, "c"), mail.call(7, "d")])]
        assert [job.acceptance for job in jobs] == [Acceptance.SKIPPED] * 3


@pytest.mark.promise("P-41")
async def test_options_give_a_call_another_key_or_none(app: App, mail: Task[[int, str], None]) -> None:
    async with app:
        await mail.enqueue(7, "")
        free = [await mail.options(unique=None).enqueue(7, "") for _ in range(2)]
        other = await mail.options(unique="other").enqueue(7, "")
        made = await mail.options(unique=Unique(key=lambda text: text, window=60)).enqueue(7, "made")
        assert all(job.created for job in [*free, other, made])
        assert [await _key(job) for job in (free[0], other, made)] == [None, "other", "made"]


@pytest.mark.promise("P-41")
async def test_a_plain_text_is_one_key_for_the_whole_task(app: App) -> None:
    task: Task[[int], None] = app.task(name="t", unique="the only one")(_takes_number)
    async with app:
        assert (await task.enqueue(1)).created
        assert not (await task.enqueue(2)).created


@pytest.mark.promise("P-41")
async def test_a_derived_key_is_of_the_task_and_its_arguments_however_they_are_written(app: App) -> None:
    @app.task(name="t", unique=Unique())
    async def task(order: Order, weight: float = 0, *rest: int, note: str = "", **more: Any) -> None: ...

    other = app.task(name="other", unique=Unique())(task.function)
    first = Order(1, {"a", "b", "c"})
    same = Order(1, {"c", "b", "a"})
    async with app:
        holder = await task.enqueue(first, x={"k": 1, "l": 2})
        jobs = [
            await task.enqueue(same, 0, x={"l": 2, "k": 1}),
            await task.enqueue(order=same, weight=0.0, note="", x={"k": 1, "l": 2}),
        ]
        assert [(job.acceptance, job.id) for job in jobs] == [(Acceptance.SKIPPED, holder.id)] * 2
        assert (await _key(holder) or "").startswith("arguments-")
        differing = [
            await task.enqueue(first),
            await task.enqueue(Order(2, set())),
            await task.enqueue(first, 1, x={"k": 1, "l": 2}),
            await task.enqueue(first, 0, 5, x={"k": 1, "l": 2}),
            await task.enqueue(first, x={"k": 1, "l": 3}),
            await other.enqueue(first, x={"k": 1, "l": 2}),
        ]
        assert all(job.created for job in differing)


@pytest.mark.promise("P-41")
def test_a_derived_key_is_the_same_in_every_process_and_when_an_optional_parameter_is_added() -> None:
    before: Task[[int], None] = App("memory://").task(name="t", unique=Unique())(_takes_number)

    @App("memory://").task(name="t", unique=Unique())
    async def after(number: int, *, added: bool = False) -> None: ...

    keys = [_unique_of(call) for call in (before.call(7), after.call(7), after.call(7, added=False))]
    assert keys == ["arguments-3afda5d12d5c5a8ee3e889275752ed2e"] * 3
    assert _unique_of(after.call(7, added=True)) != keys[0]


def _unique_of(call: Call[None]) -> str | None:
    return None if call.job.unique is None else call.job.unique.key


@pytest.mark.promise("P-41", "P-102")
async def test_no_key_is_derived_from_a_secret(app: App) -> None:
    @app.task(name="t", unique=Unique())
    async def task(user: str, pin: Annotated[str, Secret]) -> None: ...

    async with app:
        with pytest.raises(InvalidSetting, match="secret arguments"):
            await task.enqueue("ada", "1234")
        assert await app.queues() == ()
        made = await task.options(unique=lambda user: f"log in {user}").enqueue("ada", "1234")
        assert await _key(made) == "log in ada"


@pytest.mark.promise("P-40", "E-5", "A-3")
async def test_an_id_is_made_from_the_arguments_and_a_random_one_by_default(app: App, holder: Holder) -> None:
    made: Task[[int], None] = app.task(name="made", id=lambda number: f"invoice-{number}")(_takes_number)
    plain: Task[[int], None] = app.task(name="plain")(_takes_number)
    async with app:
        first = await made.enqueue(1)
        assert (first.id, first.created) == ("invoice-1", True)
        again = [await made.enqueue(1), *(await made.enqueue_many([(1,), made.call(1)]))]
        assert {(job.id, job.acceptance) for job in again} == {("invoice-1", Acceptance.EXISTING)}
        assert [job.id for job in await made.enqueue_many([(2,), (3,)])] == ["invoice-2", "invoice-3"]
        assert (await plain.enqueue(1)).id != (await plain.enqueue(1)).id
        overridden = [await made.options(id=None).enqueue(1), await made.options(id="given").enqueue(1)]
        assert overridden[0].created
        assert overridden[1].id == "given"
        assert (await plain.options(id=lambda number: f"n{number}").enqueue(5)).id == "n5"


@pytest.mark.promise("P-40", "P-41", "E-5")
@pytest.mark.parametrize(
    ("make", "refusal", "told"),
    [
        (lambda number: 1 / 0, KeyFailed, "raised ZeroDivisionError; nothing was enqueued"),
        (lambda number: number, KeyFailed, "made a int"),
        (lambda number: None, KeyFailed, "made a NoneType"),
        (lambda number: _slowly(number + 1), KeyFailed, "made a coroutine"),
        (lambda number: "", InvalidName, "is empty"),
        (lambda number: "x" * 257, InvalidName, "257"),
    ],
)
@pytest.mark.parametrize("option", ["id", "unique"])
async def test_a_function_that_makes_no_name_is_a_typed_error_and_nothing_is_written(
    app: App, option: str, make: Callable[..., Any], refusal: type[LeaseMQError], told: str
) -> None:
    task: Task[[int], None] = app.task(name="t", **{option: make})(_takes_number)  # type: ignore[call-overload]  # by name
    async with app:
        for enqueueing in (task.enqueue, lambda number: task.enqueue_many([(number,)])):
            with pytest.raises(refusal, match=told):
                await enqueueing(1)
        assert await app.queues() == ()
    assert refusal is not InvalidName or issubclass(InvalidJobId, refusal)


@pytest.mark.promise("E-4", "P-41")
def test_what_cannot_be_given_the_arguments_is_refused_where_it_is_written() -> None:
    app = App("memory://")

    for option in ("id", "unique"):
        for make, told in (
            (lambda missing: "", "takes 'missing'"),
            (lambda *number: "", "takes 'number'"),
            (_slowly, "asynchronous"),
            (dict, "does not tell"),
        ):
            with pytest.raises(InvalidSetting, match=told):
                app.task(name="t", **{option: make})(_takes_number)  # type: ignore[call-overload]  # by name
    with pytest.raises(InvalidSetting, match="takes 'ctx'"):
        app.task(name="t", unique=lambda ctx: "")(_takes_context)
    prefix = "u"
    kept = app.task(name="t", id=lambda number, p=prefix: f"{p}{number}")(_takes_number)
    assert kept.call(5).job.id == "u5"
    every = app.task(name="every", id=lambda **given: f"{given}")(_takes_context)
    assert every.call(5).job.id == "{'number': 5}"


async def _slowly(number: int) -> str:
    return str(number)


async def _takes_number(number: int) -> None: ...


async def _takes_context(ctx: Ctx, number: int) -> None: ...
