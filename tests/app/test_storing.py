"""What an enqueue does about trouble: repeats with the same ids, then says what it knows, job by job."""

from __future__ import annotations

import asyncio

import pytest

from leasemq import App
from leasemq.client.intake import Intake, chunks
from leasemq.client.storing import Offer
from leasemq.errors import BackendFull, BackendUnavailable, IdConflict, IndeterminateWrite, Refused
from leasemq.protocol.model import Enqueued, Keep, NewJob
from tests.app.troubled import Trouble, TroubledBackend
from tests.app.waiting import until

LOST, REFUSED = Trouble.LOST_ANSWER, Trouble.REFUSED


def offer(id_: str, payload: bytes = b"{}", *, keep: Keep | None = None, own_id: bool = True) -> Offer:
    return Offer(job=NewJob(id=id_, task="t", payload=payload, keep=keep or Keep()), own_id=own_id)


def app_on(backend: TroubledBackend) -> App:
    return App(backend)


@pytest.mark.promise("P-03", "P-40", "B06")
@pytest.mark.parametrize("trouble", [Trouble.REFUSED, Trouble.LOST_REQUEST, Trouble.LOST_ANSWER])
async def test_an_enqueue_in_trouble_is_repeated_with_the_same_id_and_leaves_one_job(
    trouble: Trouble,
) -> None:
    backend = TroubledBackend(trouble, trouble)
    app = app_on(backend)

    @app.task(name="t")
    async def t() -> None: ...

    async with app:
        job = await t.enqueue()
        assert job.created
        assert (await app.queue().counts()).accepted == 1
    assert len(backend.batches) == 3
    assert {id_ for batch in backend.batches for id_ in batch} == {job.id}


@pytest.mark.promise("P-04", "B06")
async def test_a_write_that_may_have_happened_is_told_apart_from_one_that_did_not() -> None:
    lost = Intake(TroubledBackend(*[LOST] * 9), patience_ms=0)
    with pytest.raises(IndeterminateWrite, match="id='a'") as doubt:
        await lost.one("q", offer("a"))
    assert doubt.value.job_id == "a"
    refused = Intake(TroubledBackend(*[REFUSED] * 9), patience_ms=0)
    with pytest.raises(BackendUnavailable, match="not stored"):
        await refused.one("q", offer("a"))


@pytest.mark.promise("P-04")
async def test_one_lost_answer_makes_the_whole_enqueue_doubtful_even_if_later_tries_are_refused() -> None:
    backend = TroubledBackend(Trouble.LOST_REQUEST, *[REFUSED] * 99)
    intake = Intake(backend, patience_ms=60)
    with pytest.raises(IndeterminateWrite):
        await intake.one("q", offer("a"))
    assert len(backend.batches) > 1


async def test_a_full_backend_stays_a_full_backend() -> None:
    class FullBackend(TroubledBackend):
        async def enqueue(self, queue: str, jobs: object) -> list[Enqueued]:
            raise BackendFull("no space")

    with pytest.raises(BackendFull, match="no space"):
        await Intake(FullBackend(), patience_ms=0).one("q", offer("a"))


@pytest.mark.promise("P-40")
async def test_a_repeat_says_created_only_where_nobody_else_can_have_stored_the_job() -> None:
    ours = await Intake(TroubledBackend(LOST)).one("q", offer("a", own_id=True))
    given = await Intake(TroubledBackend(LOST)).one("q", offer("a", own_id=False))
    assert ours.created
    assert not given.created


@pytest.mark.promise("P-03")
async def test_with_retention_0_a_doubtful_enqueue_is_not_repeated() -> None:
    backend = TroubledBackend(LOST)
    with pytest.raises(IndeterminateWrite):
        await Intake(backend).one("q", offer("a", keep=Keep(record_ms=0)))
    assert len(backend.batches) == 1
    refused = TroubledBackend(REFUSED)
    assert (await Intake(refused).one("q", offer("a", keep=Keep(record_ms=0)))).created


async def test_concurrent_enqueues_go_together_and_what_comes_meanwhile_goes_with_the_next_batch() -> None:
    backend = TroubledBackend()
    backend.gate = asyncio.Event()
    intake = Intake(backend)
    async with asyncio.TaskGroup() as group:
        first = [group.create_task(intake.one("q", offer(f"a{i}"))) for i in range(3)]
        await until(lambda: len(backend.batches) == 1)
        second = [group.create_task(intake.one("q", offer(f"b{i}"))) for i in range(5)]
        await asyncio.sleep(0)
        backend.gate.set()
    assert backend.batches == [["a0", "a1", "a2"], ["b0", "b1", "b2", "b3", "b4"]]
    assert [task.result().ref.id for task in first + second] == [id_ for b in backend.batches for id_ in b]


async def test_a_failed_batch_fails_exactly_its_callers() -> None:
    backend = TroubledBackend(REFUSED)
    backend.gate = asyncio.Event()
    intake = Intake(backend, patience_ms=0)
    first = [asyncio.ensure_future(intake.one("q", offer(f"a{i}"))) for i in range(2)]
    await until(lambda: len(backend.batches) == 1)
    second = asyncio.ensure_future(intake.one("q", offer("b")))
    await asyncio.sleep(0)
    backend.gate.set()
    answers = await asyncio.gather(*first, second, return_exceptions=True)
    assert [type(answer) for answer in answers] == [BackendUnavailable, BackendUnavailable, Enqueued]
    assert "a1" in str(answers[1])
    assert answers[0] is not answers[1]


async def test_one_bad_job_is_split_from_its_batch_and_hurts_nobody_else() -> None:
    backend = TroubledBackend()
    backend.hates = frozenset({"a3"})
    intake = Intake(backend)
    answers = await asyncio.gather(
        *(intake.one("q", offer(f"a{i}")) for i in range(8)), return_exceptions=True
    )
    assert [i for i, answer in enumerate(answers) if isinstance(answer, Refused)] == [3]
    assert (await backend.counts("q")).accepted == 7


async def test_a_defect_of_a_backend_reaches_those_who_wait_and_the_next_enqueue_works() -> None:
    backend = TroubledBackend(Trouble.DEFECT)
    intake = Intake(backend)
    answers = await asyncio.gather(
        *(intake.one("q", offer(f"a{i}")) for i in range(3)), return_exceptions=True
    )
    assert [str(answer) for answer in answers] == ["a defect"] * 3
    assert (await intake.one("q", offer("b"))).created


async def test_cancelling_a_caller_cancels_no_request_under_way_and_nobody_else() -> None:
    backend = TroubledBackend()
    backend.gate = asyncio.Event()
    intake = Intake(backend)
    first, second = (asyncio.ensure_future(intake.one("q", offer(id_))) for id_ in "ab")
    await until(lambda: len(backend.batches) == 1)
    first.cancel()
    backend.gate.set()
    assert (await second).created
    assert first.cancelled()
    assert (await backend.counts("q")).accepted == 2


async def test_a_caller_cancelled_before_its_batch_is_sent_stores_nothing() -> None:
    backend = TroubledBackend()
    backend.gate = asyncio.Event()
    intake = Intake(backend)
    first = asyncio.ensure_future(intake.one("q", offer("a")))
    await until(lambda: len(backend.batches) == 1)
    second = asyncio.ensure_future(intake.one("q", offer("b")))
    await asyncio.sleep(0)
    second.cancel()
    backend.gate.set()
    await first
    await intake.close()
    assert backend.batches == [["a"]]


async def test_closing_waits_for_what_is_under_way() -> None:
    backend = TroubledBackend()
    backend.gate = asyncio.Event()
    intake = Intake(backend)
    waiting = asyncio.ensure_future(intake.one("q", offer("a")))
    bulk = asyncio.ensure_future(intake.many("q", [offer("b")]))
    await until(lambda: len(backend.batches) == 2)
    closing = asyncio.ensure_future(intake.close())
    await asyncio.sleep(0)
    assert not closing.done()
    backend.gate.set()
    await closing
    assert (await waiting).created
    assert (await bulk)[0].created


@pytest.mark.promise("A-4")
async def test_a_thousand_jobs_take_one_round_trip_and_more_are_cut_by_count_and_by_bytes() -> None:
    backend = TroubledBackend()
    await Intake(backend).many("q", [offer(f"{i:04}") for i in range(2_500)])
    assert [len(batch) for batch in backend.batches] == [1_000, 1_000, 500]
    assert [id_ for batch in backend.batches for id_ in batch] == [f"{i:04}" for i in range(2_500)]
    heavy = [offer("a", bytes(600)), offer("b", bytes(600)), offer("c", bytes(5_000)), offer("d")]
    assert [[one.job.id for one in chunk] for chunk in chunks(heavy, limit_bytes=2_000)] == [
        ["a", "b"],
        ["c"],
        ["d"],
    ]


@pytest.mark.promise("P-03", "B06")
async def test_repeating_a_whole_bulk_of_calls_leaves_each_job_once() -> None:
    backend = TroubledBackend(*[LOST] * 1)
    app = app_on(backend)

    @app.task(name="t")
    async def t(n: int) -> None: ...

    async with app:
        calls = [t.call(i) for i in range(100)]
        first = await t.enqueue_many(calls)
        again = await t.enqueue_many(calls)
        assert [job.id for job in first] == [job.id for job in again] == [call.job.id for call in calls]
        assert not any(job.created for job in again)
        assert (await app.queue().counts()).accepted == 100


@pytest.mark.promise("A-4")
async def test_a_bulk_with_one_bad_item_stores_nothing() -> None:
    backend = TroubledBackend()
    app = app_on(backend)

    @app.task(name="t")
    async def t(n: int) -> None: ...

    async with app:
        for bad in ("three", 2**64, float("nan")):
            with pytest.raises(Refused, match="n"):
                await t.enqueue_many([(1,), (2,), (bad,)])
        with pytest.raises(Refused, match="tuples"):
            await t.enqueue_many([1, 2])  # type: ignore[list-item]  # not tuples is the point
        assert backend.batches == []


async def test_a_strict_bulk_names_the_id_that_is_known_with_other_arguments() -> None:
    app = app_on(TroubledBackend())

    @app.task(name="t")
    async def t(n: int) -> None: ...

    async with app:
        await t.options(id="a").enqueue(1)
        with pytest.raises(IdConflict, match="a"):
            await t.enqueue_many([t.options(id="b").call(1), t.options(id="a", strict=True).call(2)])
