"""Requests on the wire: carried out to their end, noticed when they are not, never taken for another's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.settings import Settings
from leasemq.errors import BackendFull, BackendUnavailable, CorruptRecord, IndeterminateWrite, Unsupported
from tests.backends.postgres.conftest import (
    Opened,
    Operator,
    asleep,
    becomes,
    end_sessions,
    placed,
    sessions,
    settings_for,
)
from tests.backends.postgres.trial import Trials
from tests.servers import Proxy


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    """Between us and the server."""
    port = urlsplit(postgres_url).port
    assert port is not None
    with Proxy(port) as between:
        yield between


@pytest.fixture
def far(proxy: Proxy, postgres_url: str, schema: str) -> Settings:
    """How the schema is used through the proxy, by somebody with little patience."""
    parts = urlsplit(postgres_url)
    url = f"postgresql://{parts.username}@127.0.0.1:{proxy.port}{parts.path}"
    return settings_for(url, schema, request_ms=500)


async def _kept(executor: Executor) -> list[int]:
    return [row[0] for row in await executor.call("kept")]


@pytest.mark.promise("P-85")
async def test_functions_that_are_missing_are_installed_and_the_call_is_repeated(
    opened: Opened, settings: Settings, trials: Trials
) -> None:
    executor = opened(settings)

    assert await executor.call("record", 1) == [(1,)]
    assert await executor.call("record", 2) == [(2,)]
    assert trials.installations == 1


@pytest.mark.promise("P-82")
async def test_a_cancelled_caller_leaves_its_request_alone_and_nobody_gets_anothers_answer(
    executor: Executor,
) -> None:
    asked = [asyncio.create_task(executor.call("nap", 0.05, number)) for number in range(6)]
    await asyncio.sleep(0)
    for task in asked[:4]:
        task.cancel()
    await asyncio.wait(asked)

    assert [task.result() for task in asked[4:]] == [[(4,)], [(5,)]]
    assert [await executor.call("record", number) for number in (10, 11)] == [[(10,)], [(11,)]]
    # Those that were sent were carried out; those that were not are not.
    assert set(await _kept(executor)) >= {4, 5, 10, 11}


@pytest.mark.promise("P-82")
async def test_what_was_sent_is_carried_out_although_its_caller_was_cancelled(
    executor: Executor, operator: Operator, schema: str
) -> None:
    asked = asyncio.create_task(executor.call("nap", 0.2, 7))
    await becomes(lambda: asleep(operator, schema), "it is under way")
    asked.cancel()
    await asyncio.wait({asked})
    await executor.close()
    executor.open()

    assert asked.cancelled()
    assert await _kept(executor) == [7]


@pytest.mark.promise("P-98", "P-82")
async def test_a_session_that_was_ended_meanwhile_costs_no_request(
    executor: Executor, operator: Operator, schema: str
) -> None:
    await executor.call("record", 1)
    end_sessions(operator, schema)

    assert await executor.call("record", 2) == [(2,)]
    assert await _kept(executor) == [1, 2]


@pytest.mark.promise("P-04")
async def test_a_write_whose_session_was_ended_under_it_is_in_doubt_and_a_read_is_not(
    executor: Executor, operator: Operator, schema: str
) -> None:
    under_way = [
        asyncio.create_task(executor.call("nap", 30.0, 1)),
        asyncio.create_task(executor.call("gaze", 30.0)),
    ]
    await becomes(lambda: asleep(operator, schema) == 2, "both are under way")
    await asyncio.to_thread(end_sessions, operator, schema)
    await asyncio.wait(under_way)

    assert isinstance(under_way[0].exception(), IndeterminateWrite)
    assert isinstance(under_way[1].exception(), BackendUnavailable)
    assert await _kept(executor) == []


@pytest.mark.promise("P-04", "P-03", "B06")
async def test_a_write_whose_answer_is_lost_is_in_doubt_and_was_applied(
    executor: Executor, opened: Opened, far: Settings, proxy: Proxy
) -> None:
    through = opened(far)
    await through.call("record", 1)
    proxy.drop_reply()

    with pytest.raises(IndeterminateWrite, match="may have been applied; repeat it with the same id"):
        await through.call("record", 2)
    assert await _kept(executor) == [1, 2]
    assert await through.call("record", 3) == [(3,)]


@pytest.mark.promise("P-04")
async def test_who_cannot_connect_has_sent_nothing(opened: Opened, far: Settings, proxy: Proxy) -> None:
    through = opened(far)
    await through.call("kept")
    proxy.refuse()

    with pytest.raises(BackendUnavailable, match="nothing was sent"):
        await through.call("record", 1)
    proxy.heal()
    assert await through.call("record", 2) == [(2,)]
    assert await _kept(through) == [2]


@pytest.mark.promise("P-82", "P-98")
@pytest.mark.parametrize("direction", ["requests", "replies"])
async def test_a_server_that_answers_no_more_is_given_up_and_another_session_is_tried(
    opened: Opened, far: Settings, proxy: Proxy, direction: str
) -> None:
    through = opened(far)
    await through.call("record", 1)
    proxy.stall(direction)  # type: ignore[arg-type]  # one of its words

    with pytest.raises(IndeterminateWrite, match="no answer within 500 ms"):
        await through.call("record", 2)
    proxy.heal()
    assert await through.call("record", 3) == [(3,)]


@pytest.mark.promise("P-04", "B20")
@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_what_the_server_undid_for_anothers_sake_is_repeated_in_place(
    executor: Executor, code: str
) -> None:
    assert await executor.call("collide", 3, code) == [(4,)]
    assert await _kept(executor) == [3]


@pytest.mark.promise("P-04", "B20")
async def test_what_is_undone_for_ever_is_given_up(executor: Executor) -> None:
    with pytest.raises(BackendUnavailable, match="undid this 21 times"):
        await executor.call("collide", 1_000, "40001")
    assert await _kept(executor) == []


@pytest.mark.promise("P-04", "P-99")
@pytest.mark.parametrize(
    ("code", "refusal", "word"),
    [
        ("53100", BackendFull, "no space left"),
        ("53300", BackendUnavailable, "nothing was written"),
        ("25006", BackendUnavailable, "read-only"),
        ("57014", BackendUnavailable, "took too long"),
        ("42501", BackendUnavailable, "grant"),
        ("3F000", Unsupported, "prepare"),
        ("22P02", CorruptRecord, "cannot be read"),
        ("XX001", CorruptRecord, "cannot be read"),
        ("LM001", CorruptRecord, "cannot be read"),
    ],
)
async def test_a_refusal_says_that_nothing_happened_and_what_to_do(
    executor: Executor, code: str, refusal: type[Exception], word: str
) -> None:
    with pytest.raises(refusal, match=word) as caught:
        await executor.call("collide", 1, code)
    assert type(caught.value) is refusal
    assert await _kept(executor) == []


@contextmanager
def lock_taken(operator: Operator, schema: str) -> Iterator[None]:
    """An operator has the lock that `guarded` waits for."""
    key = (f'"{schema}"',)
    operator.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", key)
    yield
    operator.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", key)


def tries(operator: Operator, schema: str) -> int:
    """How often `guarded` was begun."""
    return int(operator.execute(placed("SELECT last_value FROM {s}.asked", schema)).fetchall()[0][0])


def in_line(operator: Operator) -> int:
    """How many sessions wait for an advisory lock."""
    found = operator.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return int(found.fetchall()[0][0])


@pytest.mark.promise("P-04", "P-82", "B20")
async def test_who_waits_for_a_lock_for_longer_than_one_try_may_is_tried_again(
    executor: Executor, opened: Opened, settings: Settings, operator: Operator, schema: str
) -> None:
    hasty = opened(replace(settings, lock_ms=20))
    with lock_taken(operator, schema):
        asked = asyncio.create_task(hasty.call("guarded", 7))
        await becomes(lambda: tries(operator, schema) >= 3, "it was tried thrice")
    await asked

    assert asked.result() == [(7,)]
    assert await _kept(executor) == [7]


@pytest.mark.promise("P-82", "B20")
async def test_those_who_wait_for_a_lock_leave_a_way_to_the_others(
    executor: Executor, opened: Opened, settings: Settings, operator: Operator, schema: str
) -> None:
    hasty = opened(replace(settings, lock_ms=20))
    with lock_taken(operator, schema):
        asked = [asyncio.create_task(hasty.call("guarded", number)) for number in range(4)]
        await becomes(lambda: tries(operator, schema) >= 12, "each was tried, and some again")
        crowds = [await asyncio.to_thread(in_line, operator)]
        while tries(operator, schema) < 24:
            crowds.append(await asyncio.to_thread(in_line, operator))
        assert await hasty.call("record", 9) == [(9,)]
    await asyncio.wait(asked)

    assert max(crowds) == 1
    assert sorted(await _kept(executor)) == [0, 1, 2, 3, 9]


@pytest.mark.promise("P-04", "P-82", "P-99", "B20")
async def test_a_lock_that_stays_taken_is_told_when_a_request_has_had_its_time(
    executor: Executor, opened: Opened, settings: Settings, operator: Operator, schema: str
) -> None:
    hasty = opened(replace(settings, lock_ms=20, request_ms=1_000))  # a busy machine answers in that
    with lock_taken(operator, schema):
        told = await asyncio.gather(
            *(hasty.call("guarded", number) for number in range(4)), return_exceptions=True
        )

    assert {type(error) for error in told} == {BackendUnavailable}
    assert "nothing was written: is another transaction left open?" in str(told[0])
    assert await _kept(executor) == []


@pytest.mark.promise("P-82")
async def test_a_server_that_became_read_only_is_left_for_one_that_is_not(
    executor: Executor, operator: Operator, schema: str
) -> None:
    ((before,),) = await executor.call("session")
    with pytest.raises(BackendUnavailable, match="read-only"):
        await executor.call("collide", 1, "25006")
    ((after,),) = await executor.call("session")

    assert before != after


@pytest.mark.promise("P-82")
async def test_too_many_requests_at_once_are_refused_and_the_rest_is_carried_out(
    opened: Opened, settings: Settings
) -> None:
    executor = opened(replace(settings, request_limit=2))
    await executor.call("kept")
    asked = [asyncio.create_task(executor.call("nap", 0.05, number)) for number in range(5)]
    await asyncio.wait(asked)

    assert isinstance(asked[4].exception(), BackendUnavailable)
    assert "request_limit" in str(asked[4].exception())
    assert await _kept(executor) == [0, 1, 2, 3]


@pytest.mark.promise("P-01", "P-07")
async def test_only_claims_may_be_lost_in_a_crash(executor: Executor) -> None:
    assert await executor.call("claim", "synchronous_commit") == [("off",)]
    assert await executor.call("peek", "synchronous_commit") == [("on",)]


@pytest.mark.promise("P-82", "B20")
async def test_no_session_of_ours_waits_for_ever(executor: Executor) -> None:
    names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]

    assert await executor.call("told", names) == [(["10s", "2s", "12s"],)]


@pytest.mark.promise("P-94", "B20")
async def test_a_database_whose_default_is_serializable_changes_nothing(
    executor: Executor, opened: Opened, settings: Settings
) -> None:
    chosen = opened(replace(settings, conninfo=settings.conninfo + " options='-c lock_timeout=5s'"))

    assert await executor.call("told", ["transaction_isolation"]) == [(["read committed"],)]
    assert await chosen.call("told", ["lock_timeout"]) == [(["5s"],)]


@pytest.mark.promise("P-94", "B21")
async def test_behind_a_pooler_nothing_is_prepared_and_no_session_is_set_up(
    executor: Executor, opened: Opened, settings: Settings
) -> None:
    pooled = opened(replace(settings, notify=False))
    for _ in range(3):
        await pooled.call("kept")
        await executor.call("kept")

    assert await pooled.call("prepared") == [(0,)]
    assert await pooled.call("told", ["statement_timeout"]) == [(["0"],)]
    assert (await executor.call("prepared"))[0][0] > 0


@pytest.mark.promise("P-82")
async def test_a_closed_executor_refuses_and_leaves_no_session(
    executor: Executor, operator: Operator, schema: str
) -> None:
    await asyncio.gather(*(executor.call("record", number) for number in range(4)))
    await executor.close()
    await becomes(lambda: not sessions(operator, schema), "no session is left")

    with pytest.raises(BackendUnavailable, match="is closed: prepare it again"):
        await executor.call("kept")
    executor.open()
    assert await _kept(executor) == [0, 1, 2, 3]


def test_each_loop_has_its_own_sessions_and_a_closed_loop_leaves_none(
    settings: Settings, trials: Trials, operator: Operator, schema: str
) -> None:
    executor = Executor(settings, trials)
    with asyncio.Runner() as first:
        first.run(executor.call("record", 1))
    with asyncio.Runner() as second:
        assert second.run(executor.call("kept")) == [(1,)]
        assert sessions(operator, schema) == 1
        second.run(executor.close())


@pytest.mark.promise("P-82")
def test_a_fork_uses_no_session_of_its_parent_and_ends_none(settings: Settings, trials: Trials) -> None:
    executor = Executor(settings, trials)
    with asyncio.Runner() as runner:
        ((before,),) = runner.run(executor.call("session"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with asyncio.Runner() as own:
                    ((there,),) = own.run(executor.call("session"))
                    own.run(executor.close())
                code = 0 if there != before else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert runner.run(executor.call("session")) == [(before,)]
        runner.run(executor.close())


@pytest.mark.promise("P-82")
async def test_all_who_wait_for_a_server_that_is_away_are_told_after_one_try(
    opened: Opened, settings: Settings
) -> None:
    away = replace(settings, conninfo="host=127.0.0.1 port=1 dbname=nowhere")
    executor = opened(away)
    async with asyncio.timeout(10):  # a try for each of them would take 40 s
        told = await asyncio.gather(*[_kept(executor) for _ in range(40)], return_exceptions=True)

    assert {type(answer) for answer in told} == {BackendUnavailable}
