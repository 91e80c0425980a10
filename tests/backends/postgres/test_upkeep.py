"""The tables through which every job passes are vacuumed by those who fill them, one at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.functions import Functions
from leasemq.backends.postgres.routine import Routine
from leasemq.backends.postgres.schema import prepared
from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.upkeep import MOVED_AT_LEAST, MOVED_AT_PRUNE, Upkeep
from tests.backends.postgres.conftest import Operator, becomes


@pytest_asyncio.fixture
async def executor(settings: Settings) -> AsyncIterator[Executor]:
    """On a schema that has the store's own tables and functions."""
    functions = Functions(settings.schema)
    await prepared(settings, functions)
    made = Executor(settings, functions)
    yield made
    await made.close()


def passes(operator: Operator, schema: str) -> dict[str, int]:
    """How often each table was vacuumed by hand."""
    found = operator.execute(
        "SELECT relname, vacuum_count FROM pg_stat_all_tables WHERE schemaname = %s AND vacuum_count > 0",
        (schema,),
    ).fetchall()
    return {str(name): int(count) for name, count in found}


async def once(executor: Executor, operator: Operator, schema: str, upkeep: Upkeep) -> None:
    """Wait for the end of a pass."""
    await upkeep.close()
    await becomes(lambda: "ready" in passes(operator, schema), "the server has counted the pass")


@pytest.mark.promise("P-94", "B22")
async def test_who_moved_many_jobs_vacuums_what_they_passed_through(
    executor: Executor, operator: Operator, schema: str
) -> None:
    upkeep = Upkeep(executor)
    upkeep.moved(MOVED_AT_LEAST - 1)
    await upkeep.close()
    assert passes(operator, schema) == {}
    upkeep.moved(1)
    await once(executor, operator, schema, upkeep)

    assert passes(operator, schema).keys() == {"ready", "active", "scheduled", "tally"}


@pytest.mark.promise("P-94", "B22")
async def test_a_sweep_vacuums_after_fewer_and_an_idle_one_never(
    executor: Executor, operator: Operator, schema: str
) -> None:
    upkeep = Upkeep(executor)
    upkeep.moved(MOVED_AT_PRUNE - 1)
    upkeep.pruned()
    await upkeep.close()
    assert passes(operator, schema) == {}
    upkeep.moved(1)
    upkeep.pruned()
    await once(executor, operator, schema, upkeep)

    assert passes(operator, schema)["ready"] == 1


@pytest.mark.promise("P-94", "B22")
async def test_of_many_processes_one_vacuums_at_a_time(
    executor: Executor, operator: Operator, schema: str
) -> None:
    first, *others = [Upkeep(executor, every_ms=600_000) for _ in range(4)]
    first.moved(MOVED_AT_LEAST)
    await once(executor, operator, schema, first)
    for upkeep in others:
        upkeep.moved(MOVED_AT_LEAST)
        await upkeep.close()
    again = Upkeep(executor, every_ms=0)
    again.moved(MOVED_AT_LEAST)
    await again.close()
    await becomes(lambda: passes(operator, schema)["ready"] >= 2, "the server has counted the second pass")

    assert passes(operator, schema)["ready"] == 2


@pytest.mark.promise("P-94", "B22")
async def test_a_pass_that_failed_is_not_begun_again_at_once(
    executor: Executor, operator: Operator, schema: str
) -> None:
    hasty, patient = Upkeep(executor, every_ms=0, pause_ms=0), Upkeep(executor, every_ms=0)
    await executor.close()
    for upkeep in (hasty, patient):
        upkeep.moved(MOVED_AT_LEAST)
        await upkeep.close()
    executor.open()
    patient.moved(MOVED_AT_LEAST)
    await patient.close()
    before = passes(operator, schema)
    hasty.moved(MOVED_AT_LEAST)
    await once(executor, operator, schema, hasty)

    assert before == {}
    assert passes(operator, schema)["ready"] == 1


@pytest.mark.promise("P-94", "B22")
async def test_a_long_vacuum_is_not_cut_short_as_other_statements_are(executor: Executor) -> None:
    ((longest,),) = await executor.run(_asked("vacuum"))
    ((others,),) = await executor.run(_asked("look"))

    assert (longest, others) == ("10min", "10s")


def _asked(name: str) -> Routine:
    """How long a statement may take on the lane of that operation."""
    text = "SELECT current_setting('statement_timeout')"
    return Routine(name=name, qualified="", parameters=(), is_read=True, text=text)
