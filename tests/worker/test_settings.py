"""A worker's settings are refused before anything starts, by name and value."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from leasemq.errors import InvalidQueueName, InvalidSetting
from leasemq.protocol.signature import Signature
from leasemq.worker import Routine, Worker, WorkerSettings
from leasemq.worker.registry import VERSION
from tests.worker.stage import real_stage


def routine(name: str, lease_ms: int | None = None, aliases: tuple[str, ...] = ()) -> Routine:
    """A registered function that does nothing."""

    async def work() -> None:
        pass

    return Routine(
        name=name,
        call=work,
        is_async=True,
        takes_context=False,
        signature=Signature.of(work, task=name),
        lease_ms=lease_ms,
        aliases=aliases,
    )


@pytest.mark.promise("P-18", "P-80", "E-21", "E-23")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("concurrency", value) for value in (0, -1, 1_001, 1.5, True, float("nan"), "3", None)],
        *[("lease_ms", value) for value in (0, -1, 9, float("inf"), float("nan"), 1.5)],
        *[("heartbeat_ms", value) for value in (0, -1, 30_000, 30_001)],
        *[("drain_ms", value) for value in (-1, float("inf"))],
        *[("sweep_batch", value) for value in (0, 1_001, 2.0)],
        ("sweep_every_ms", 0),
        ("idle_ms", 0),
        ("settle_batch", 0),
        ("name", ""),
        ("name", 7),
        ("name", "a\nb"),
        ("queues", ()),
        ("queues", "mail"),
        ("queues", ("a", "a")),
        ("queues", {"a": 0}),
        ("queues", {"a": 1.5}),
    ],
)
def test_a_bad_setting_is_refused_by_name_and_value(field: str, value: object) -> None:
    with pytest.raises(InvalidSetting) as refused:
        WorkerSettings(**{field: value})  # type: ignore[arg-type]  # a wrong value is what the test is about
    assert field in str(refused.value)
    assert repr(value) in str(refused.value) or field == "queues"


@pytest.mark.promise("P-42", "B47")
def test_a_bad_queue_name_is_refused() -> None:
    with pytest.raises(InvalidQueueName):
        WorkerSettings(queues=("a\x00b",))


@pytest.mark.promise("P-18")
def test_the_defaults_follow_from_the_lease() -> None:
    settings = WorkerSettings()
    assert (settings.lease_ms, settings.heartbeat_for(30_000), settings.concurrency) == (30_000, 10_000, 10)
    assert (settings.drain_ms, settings.sweep_batch) == (30_000, 100)
    assert settings.sweep_for([]) == settings.idle_for([]) == 15_000


@pytest.mark.promise("P-02", "P-83")
def test_a_worker_looks_more_often_the_shorter_its_shortest_lease() -> None:
    settings = WorkerSettings(lease_ms=60_000)
    assert (settings.idle_for([]), settings.sweep_for([])) == (15_000, 15_000)
    short = [routine("short", lease_ms=2_000)]
    assert (settings.idle_for(short), settings.sweep_for(short)) == (1_000, 250)
    chosen = WorkerSettings(lease_ms=60_000, idle_ms=200, sweep_every_ms=70)
    assert (chosen.idle_for(short), chosen.sweep_for(short)) == (200, 70)


def test_a_claim_is_as_short_as_the_shortest_lease_but_never_shorter_than_a_second_for_one_task() -> None:
    settings = WorkerSettings(lease_ms=30_000)
    assert settings.claim_lease_for([]) == 30_000
    assert settings.claim_lease_for([routine("long", lease_ms=60_000)]) == 30_000
    assert settings.claim_lease_for([routine("short", lease_ms=3_000)]) == 3_000
    assert settings.claim_lease_for([routine("shortest", lease_ms=100)]) == 1_000
    assert WorkerSettings(lease_ms=200).claim_lease_for([routine("short", lease_ms=100)]) == 200


def test_quiet_queues_have_turns_when_leases_are_long_and_nobody_chose_otherwise() -> None:
    queues = ("a", "b", "c")
    assert WorkerSettings(lease_ms=30_000).turn_for([]) == 15_000
    assert WorkerSettings(lease_ms=30_000, queues=queues).turn_for([]) == 12_000
    assert WorkerSettings(lease_ms=6_000, queues=queues).turn_for([]) == 1_000
    assert WorkerSettings(lease_ms=30_000, queues=queues, idle_ms=300).turn_for([]) == 100


async def test_an_alias_that_is_another_tasks_name_is_refused() -> None:
    async with real_stage() as stage:
        stage_routines: dict[str, Routine] = {"a": routine("a"), "b": routine("b", aliases=("a",))}
        with pytest.raises(InvalidSetting, match="'a'"):
            Worker(stage.backend, stage_routines)


@pytest.mark.promise("P-84")
def test_the_version_that_a_worker_announces_is_the_packages() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"] == VERSION


@pytest.mark.promise("P-80")
@pytest.mark.parametrize(("slots", "most"), [(1, 1), (19, 19), (20, 10), (101, 51), (1_000, 500)])
def test_of_many_slots_a_claim_fills_half_so_that_some_jobs_run_while_others_come(
    slots: int, most: int
) -> None:
    assert WorkerSettings(concurrency=slots).claim_most == most
