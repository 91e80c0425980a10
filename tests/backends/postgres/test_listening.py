"""Wake-ups on PostgreSQL: one session per loop, wishes that the server knows of, and what an outage costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from psycopg.conninfo import make_conninfo

from leasemq.backends.postgres import PostgresBackend
from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.functions import Functions
from leasemq.backends.postgres.listening import Audiences, PostgresListener
from leasemq.backends.postgres.schema import prepared
from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.telling import Told
from leasemq.backends.postgres.wishes import Wishes
from leasemq.errors import BackendUnavailable
from leasemq.protocol.model import Ref, Wake
from leasemq.testing.conformance import builders
from tests.backends.postgres.conftest import Operator, becomes, end_sessions, placed, sessions

LONG_MS = 10_000
COUNT = "SELECT count(*) FROM {s}."
HIDE = (  # a table that refuses what is written to it
    "ALTER TABLE {s}.interest RENAME TO hidden",
    "CREATE VIEW {s}.interest AS SELECT * FROM {s}.hidden",
    "CREATE FUNCTION {s}.no() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN RAISE EXCEPTION ''on purpose'' USING ERRCODE = ''25006''; END'",
    "CREATE TRIGGER no INSTEAD OF INSERT ON {s}.interest FOR EACH ROW EXECUTE FUNCTION {s}.no()",
)
SHOW = ("DROP VIEW {s}.interest", "ALTER TABLE {s}.hidden RENAME TO interest")
JOB = Ref(queue="q", id="j", generation=1)
OTHER = Ref(queue="q", id="k", generation=1)


@pytest_asyncio.fixture
async def executor(settings: Settings) -> AsyncIterator[Executor]:
    """On a schema that has the store's own tables and functions."""
    functions = Functions(settings.schema)
    await prepared(settings, functions)
    made = Executor(settings, functions)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def audiences(executor: Executor) -> AsyncIterator[Audiences]:
    """Those who listen."""
    made = Audiences(executor)
    yield made
    await made.close()


def tell(operator: Operator, settings: Settings, payload: object) -> None:
    """Notify as the functions do."""
    operator.execute("SELECT pg_notify(%s, %s)", (settings.channel, json.dumps(payload)))


def rows(operator: Operator, schema: str, table: str) -> int:
    """How many wishes the server knows of."""
    ((count,),) = operator.execute(placed(COUNT + table, schema)).fetchall()
    return int(count)


def counted(operator: Operator, schema: str) -> tuple[int, int]:
    """How many wishes for ends and for events the server knows of."""
    return rows(operator, schema, "interest"), rows(operator, schema, "follower")


class _Wanting:
    """See `wishes._Wishing`."""

    wanted = frozenset({JOB})
    followed = frozenset({"q"})


async def heard(listener: PostgresListener, wanted: Wake) -> bool:
    """Whether all of this is heard, within a bounded number of wakes."""
    queues, cancels, ended, changed = set[str](), set[Ref](), set[Ref](), set[str]()
    for _ in range(10):
        wake = await listener.wait(LONG_MS)
        queues |= wake.queues
        cancels |= wake.cancels
        ended |= wake.ended
        changed |= wake.changed
        if (
            wanted.queues <= queues
            and wanted.cancels <= cancels
            and wanted.ended <= ended
            and wanted.changed <= changed
        ):
            return True
    return False


@pytest.mark.promise("P-61", "P-83")
async def test_all_listeners_of_a_loop_share_one_session(
    audiences: Audiences, operator: Operator, settings: Settings, schema: str
) -> None:
    async with audiences.listen(["q"]) as one, audiences.listen(["q", "r"]) as other:
        assert sessions(operator, schema) == 1
        tell(operator, settings, ["q", True, False, [["j", 1]], []])

        for listener in (one, other):
            assert await listener.wait(LONG_MS) == Wake(queues=frozenset({"q"}), cancels=frozenset({JOB}))


@pytest.mark.promise("P-98", "P-83", "B19")
async def test_after_its_session_was_lost_a_listener_hears_of_everything_and_goes_on(
    audiences: Audiences, operator: Operator, settings: Settings, schema: str
) -> None:
    async with audiences.listen(["q"]) as listener:
        listener.interest([JOB])
        listener.follow(["r"])
        await becomes(lambda: rows(operator, schema, "follower"), "the wishes are written")
        await asyncio.to_thread(end_sessions, operator, schema)

        everything = Wake(queues=frozenset({"q"}), ended=frozenset({JOB}), changed=frozenset({"r"}))
        assert await heard(listener, everything)
        tell(operator, settings, ["q", True, False, [], []])
        assert await heard(listener, Wake(queues=frozenset({"q"})))


@pytest.mark.promise("P-83", "P-85")
@pytest.mark.parametrize("payload", ["{", '["q"]', '{"v": 2}', "7"])
async def test_a_push_that_cannot_be_read_may_be_about_anything(
    audiences: Audiences, operator: Operator, settings: Settings, payload: str
) -> None:
    async with audiences.listen(["q", "r"]) as listener:
        operator.execute("SELECT pg_notify(%s, %s)", (settings.channel, payload))

        assert (await listener.wait(LONG_MS)).queues == {"q", "r"}


@pytest.mark.promise("P-61")
async def test_a_push_too_large_for_its_jobs_is_about_all_that_are_waited_for(
    audiences: Audiences, operator: Operator, settings: Settings
) -> None:
    async with audiences.listen([]) as listener:
        listener.interest([JOB])
        tell(operator, settings, ["other", True, True, None, None])
        tell(operator, settings, ["q", True, True, None, None])

        assert await listener.wait(LONG_MS) == Wake(ended=frozenset({JOB}))


@pytest.mark.promise("P-61")
async def test_the_server_knows_only_of_whom_somebody_waits_for(
    audiences: Audiences, operator: Operator, schema: str
) -> None:
    async with audiences.listen([]) as listener:
        listener.interest([JOB, OTHER])
        await becomes(lambda: rows(operator, schema, "interest") == 2, "both are written")
        listener.forget([OTHER])
        await becomes(lambda: rows(operator, schema, "interest") == 1, "one is left")
        listener.follow(["q"])
        await becomes(lambda: rows(operator, schema, "follower") == 1, "it is followed")
    await becomes(
        lambda: rows(operator, schema, "interest") + rows(operator, schema, "follower") == 0, "none is left"
    )


@pytest.mark.promise("P-61")
async def test_whoever_closes_leaves_no_wish_behind(
    executor: Executor, operator: Operator, schema: str
) -> None:
    audiences = Audiences(executor)
    listening = audiences.listen([])
    listener = await listening.__aenter__()
    listener.interest([JOB])
    listener.follow(["q"])
    await becomes(lambda: rows(operator, schema, "follower") == 1, "the wishes are written")
    await audiences.close()

    assert rows(operator, schema, "interest") + rows(operator, schema, "follower") == 0
    await listening.__aexit__(None, None, None)


@pytest.mark.promise("P-61")
async def test_wishes_of_a_listener_that_is_gone_are_forgotten_in_time(
    executor: Executor, operator: Operator, schema: str
) -> None:
    await executor.call("interest", "gone", ["q"], ["j"], [1], -1)
    await executor.call("follow", "gone", ["q"], -1)
    await executor.call("interest", "here", ["q"], ["j"], [1], -1)
    await executor.call("keep_interest", "here", 60_000)

    assert (rows(operator, schema, "interest"), rows(operator, schema, "follower")) == (1, 0)


@pytest.mark.promise("P-60", "P-61")
async def test_wishes_that_others_forgot_are_written_again(
    executor: Executor, operator: Operator, schema: str
) -> None:
    told: list[Told] = []
    wishes = Wishes(executor, "here", told.append, _Wanting(), keep_ms=20)
    wishes.changed([JOB], ["q"])
    for _ in range(2):
        await becomes(lambda: counted(operator, schema) == (1, 1), "both are known")
        operator.execute(placed("DELETE FROM {s}.interest", schema))
        operator.execute(placed("DELETE FROM {s}.follower", schema))
    await becomes(lambda: counted(operator, schema) == (1, 1), "both are known again")
    await wishes.close()

    assert sum(one.changed for one in told) >= 2  # what happened meanwhile was told to nobody
    assert counted(operator, schema) == (0, 0)


@pytest.mark.promise("P-60", "P-61")
async def test_a_job_that_is_gone_when_the_wish_is_written_is_heard_of(audiences: Audiences) -> None:
    async with audiences.listen([]) as listener:
        listener.interest([JOB])

        assert (await listener.wait(LONG_MS)).ended == {JOB}


@pytest.mark.promise("P-61", "P-98")
async def test_a_wish_that_could_not_be_written_is_written_when_the_server_is_back(
    audiences: Audiences, operator: Operator, schema: str
) -> None:
    async with audiences.listen([]) as listener:
        for statement in HIDE:
            operator.execute(placed(statement, schema))
        listener.interest([JOB])
        await asyncio.to_thread(end_sessions, operator, schema)
        assert await heard(listener, Wake(ended=frozenset({JOB})))  # hears of everything after the loss
        for statement in SHOW:
            operator.execute(placed(statement, schema))

        await becomes(lambda: rows(operator, schema, "interest") == 1, "it is written")


@pytest.mark.promise("P-04")
async def test_who_cannot_be_heard_is_told_at_once(executor: Executor, settings: Settings) -> None:
    nowhere = replace(settings, conninfo=make_conninfo(settings.conninfo, port=1))
    audiences = Audiences(Executor(nowhere, Functions(settings.schema)))

    with pytest.raises(BackendUnavailable, match="nothing was sent"):
        async with audiences.listen(["q"]):
            pass
    await audiences.close()


@pytest.mark.promise("P-62", "P-83")
async def test_a_pause_is_no_event(audiences: Audiences, operator: Operator, schema: str) -> None:
    operator.execute(placed("INSERT INTO {s}.queue (name) VALUES ('q')", schema))
    async with audiences.listen([]) as listener:
        listener.follow(["q"])
        assert (await listener.wait(LONG_MS)).changed == {"q"}  # what there was before it was followed
        operator.execute(placed("UPDATE {s}.queue SET paused = true", schema))

        assert await listener.wait(1_000) == Wake()  # the second look finds nothing new


@pytest.mark.promise("P-94", "B21")
async def test_behind_a_pooler_no_session_listens_and_looks_find_what_happened(
    executor: Executor, settings: Settings, operator: Operator, schema: str
) -> None:
    pooled = Executor(replace(settings, notify=False), Functions(settings.schema))
    audiences = Audiences(pooled)
    async with audiences.listen(["q"]) as listener:
        listener.follow(["q"])
        await heard(listener, Wake(queues=frozenset({"q"})))  # what there was before it looked first
        operator.execute(placed("INSERT INTO {s}.queue (name, paused) VALUES ('q', true)", schema))

        assert await heard(listener, Wake(queues=frozenset({"q"}), changed=frozenset({"q"})))
        assert rows(operator, schema, "follower") == 0
        ((listens,),) = operator.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND query LIKE 'LISTEN%%'",
            (schema,),
        ).fetchall()
        assert listens == 0
    await audiences.close()
    await pooled.close()


@pytest.mark.promise("P-83", "P-94")
async def test_behind_a_pooler_a_step_that_is_committed_after_a_later_one_is_found_too(
    settings: Settings,
) -> None:
    backend = PostgresBackend(replace(settings, notify=False))
    await backend.prepare()
    await backend.pause("q")  # whose name is known from now on: who registers one is waited for
    async with backend.transaction(blocks=False, idle_ms=LONG_MS) as late:
        await late.enqueue("q", [builders.new_job("j")])
        await backend.enqueue("q", [builders.new_job("k")])
        async with backend.listen(["q"]) as listener:
            first = await listener.wait(LONG_MS)
            await late.commit()
            second = await listener.wait(LONG_MS)
    await backend.close()

    assert [wake.queues for wake in (first, second)] == [{"q"}, {"q"}]
