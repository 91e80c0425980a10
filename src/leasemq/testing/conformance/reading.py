"""Reading: records, pages, filters and counts; none of it changes anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leasemq.errors import InvalidCursor
from leasemq.protocol.insight import Counts, Filter
from leasemq.protocol.model import State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.books import every_record
from leasemq.testing.conformance.builders import HOUR_MS, SECOND_MS, new_job
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest


async def _ids(queue: QueueUnderTest, where: Filter) -> list[str]:
    page = await queue.backend.find(queue.name, where, None, ALL)
    assert page.cursor is None
    return [record.ref.id for record in page.jobs]


@pytest.mark.promise("P-40", "A-35")
async def test_records_are_answered_in_the_order_asked_and_none_where_there_is_none(
    queue: QueueUnderTest,
) -> None:
    await queue.enqueue("a", "b")

    records = await queue.backend.get(queue.name, ["b", "nobody", "a", "b"])

    assert [record and record.ref.id for record in records] == ["b", None, "a", "b"]
    assert list(await queue.backend.get("nowhere", ["a"])) == [None]


@pytest.mark.promise("P-43", "A-35", "E-55")
async def test_pages_go_from_the_newest_accepted_to_the_oldest_without_gap_or_repeat(
    queue: QueueUnderTest,
) -> None:
    ids = [f"j{number:02}" for number in range(25)]
    await queue.enqueue(*ids)

    read: list[str] = []
    cursor: str | None = None
    sizes = []
    while True:
        page = await queue.backend.find(queue.name, Filter(), cursor, 10)
        read += [record.ref.id for record in page.jobs]
        sizes.append(len(page.jobs))
        if (cursor := page.cursor) is None:
            break

    assert read == ids[::-1]
    assert sizes == [10, 10, 5]


@pytest.mark.promise("P-43", "A-35")
async def test_a_page_that_takes_the_rest_is_the_last(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b")

    page = await queue.backend.find(queue.name, Filter(), None, 2)

    assert len(page.jobs) == 2
    assert page.cursor is None


@pytest.mark.promise("P-43", "E-55")
async def test_jobs_that_came_while_paging_do_not_disturb_the_pages(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c", "d")
    first = await queue.backend.find(queue.name, Filter(), None, 2)
    await queue.enqueue("e")
    await queue.claim(2)

    second = await queue.backend.find(queue.name, Filter(), first.cursor, 2)

    assert [record.ref.id for record in (*first.jobs, *second.jobs)] == ["d", "c", "b", "a"]


@pytest.mark.promise("P-43", "E-55")
async def test_a_cursor_never_leads_to_jobs_accepted_after_it(queue: QueueUnderTest) -> None:
    await queue.enqueue("a", "b", "c")
    first = await queue.backend.find(queue.name, Filter(), None, 2)
    await queue.backend.obliterate(queue.name, force=False)
    await queue.enqueue("new")

    second = await queue.backend.find(queue.name, Filter(), first.cursor, 2)

    assert second.jobs == ()


@pytest.mark.promise("P-43", "E-55", "B34")
async def test_a_page_holds_at_most_a_thousand_jobs(queue: QueueUnderTest) -> None:
    await queue.enqueue(*(f"j{number}" for number in range(1_001)))

    page = await queue.backend.find(queue.name, Filter(), None, 5_000)

    assert len(page.jobs) == 1_000
    assert page.cursor is not None


@pytest.mark.promise("P-43", "B34")
async def test_a_page_holds_at_most_a_mebibyte_of_values_and_at_least_one_job(queue: QueueUnderTest) -> None:
    payload = b"x" * 400_000
    await queue.put(*(new_job(f"j{number}", payload=payload) for number in range(5)))
    await queue.put(new_job("huge", payload=b"x" * 1_500_000))

    sizes, read, cursor = [], [], None
    while True:
        page = await queue.backend.find(queue.name, Filter(), cursor, 10)
        sizes.append(len(page.jobs))
        read += [record.ref.id for record in page.jobs]
        if (cursor := page.cursor) is None:
            break

    assert read == ["huge", "j4", "j3", "j2", "j1", "j0"]
    assert sizes == [1, 2, 2, 1]


@pytest.mark.promise("P-43", "A-35")
async def test_jobs_are_found_by_state(queue: QueueUnderTest) -> None:
    await queue.finish("completed")
    await queue.die("failed")
    await queue.start("active")
    await queue.enqueue("waiting")
    await queue.enqueue("scheduled", delay_ms=1)
    await queue.put(builders.with_parent("blocked", "p"))

    for state in (State.COMPLETED, State.FAILED, State.ACTIVE, State.WAITING, State.SCHEDULED, State.BLOCKED):
        assert await _ids(queue, Filter(states=frozenset({state}))) == [state.value]
    both = Filter(states=frozenset({State.WAITING, State.FAILED}))
    assert await _ids(queue, both) == ["waiting", "failed"]


@pytest.mark.promise("P-42", "A-35")
@pytest.mark.parametrize("prefix", ["50%", "a_", "A", "[", "日", "\\", "'"])
async def test_an_id_prefix_means_its_bytes_and_nothing_else(queue: QueueUnderTest, prefix: str) -> None:
    decoys = ["500", "ab", "a", "x[", "月日", "x\\", 'x"', "50", "%50"]
    await queue.enqueue(*decoys, f"{prefix}-1", f"{prefix}-2")

    assert await _ids(queue, Filter(id_prefix=prefix)) == [f"{prefix}-2", f"{prefix}-1"]


@pytest.mark.promise("A-35", "P-42")
async def test_jobs_are_found_by_task(queue: QueueUnderTest) -> None:
    await queue.put(new_job("a", task="send"), new_job("b", task="send_later"), new_job("c", task="send"))

    assert await _ids(queue, Filter(task="send")) == ["c", "a"]


@pytest.mark.promise("A-35", "A-23")
async def test_age_is_counted_from_the_end_or_from_creation(queue: QueueUnderTest) -> None:
    lease = await queue.start("ended late")
    await queue.enqueue("waiting long")
    queue.clock.advance(HOUR_MS)
    await queue.settle(builders.complete(lease))
    await queue.enqueue("new")

    assert await _ids(queue, Filter(older_than_ms=HOUR_MS)) == ["waiting long"]
    queue.clock.advance(HOUR_MS)
    assert len(await _ids(queue, Filter(older_than_ms=HOUR_MS))) == 3


@pytest.mark.promise("A-35")
async def test_every_given_field_of_a_filter_must_hold(queue: QueueUnderTest) -> None:
    await queue.put(new_job("a1", task="x"), new_job("a2", task="y"), new_job("b1", task="x"))

    where = Filter(task="x", id_prefix="a", states=frozenset({State.WAITING}))

    assert await _ids(queue, where) == ["a1"]


@pytest.mark.promise("P-43")
async def test_pages_of_a_filter_go_on_from_their_cursor(queue: QueueUnderTest) -> None:
    await queue.put(*(new_job(f"j{number}", task=("x", "y")[number % 2]) for number in range(20)))

    first = await queue.backend.find(queue.name, Filter(task="x"), None, 4)
    rest = await queue.backend.find(queue.name, Filter(task="x"), first.cursor, ALL)

    assert [record.ref.id for record in (*first.jobs, *rest.jobs)] == [
        f"j{number}" for number in range(18, -1, -2)
    ]


@pytest.mark.promise("P-43")
async def test_a_reused_id_takes_its_place_by_its_newest_acceptance(queue: QueueUnderTest) -> None:
    await queue.finish("old")
    await queue.enqueue("middle")
    await queue.enqueue("old", reuse=frozenset({State.COMPLETED}))

    assert [record.ref.id for record in await every_record(queue.backend, queue.name)] == ["old", "middle"]


@pytest.mark.promise("P-43", "A-35")
async def test_counts_are_right_in_every_state_and_name_what_was_removed(queue: QueueUnderTest) -> None:
    await queue.finish("completed")
    await queue.die("failed")
    await queue.finish("removed")
    await queue.remove("removed")
    await queue.enqueue("cancelled")
    await queue.cancel("cancelled")
    await queue.enqueue("expired", ttl_ms=1)
    queue.clock.advance(2)
    await queue.backend.advance(queue.name, ALL)
    await queue.start("active")
    await queue.enqueue("waiting1", "waiting2")
    await queue.enqueue("scheduled", delay_ms=HOUR_MS)
    await queue.put(builders.with_parent("blocked", "p"))

    assert await queue.counts() == Counts(
        queue="mail", scheduled=1, waiting=2, active=1, blocked=1, completed=1, failed=1, cancelled=1,
        expired=1, accepted=10, removed=1, oldest_waiting_ms=0,
    )  # fmt: skip


@pytest.mark.promise("P-43")
async def test_an_unknown_queue_has_zeros(queue: QueueUnderTest) -> None:
    assert await queue.backend.counts("nowhere") == Counts(queue="nowhere")
    assert (await queue.backend.find("nowhere", Filter(), None, 10)).jobs == ()


@pytest.mark.promise("P-43")
async def test_the_oldest_waiting_age_is_that_of_the_job_longest_waiting(queue: QueueUnderTest) -> None:
    await queue.enqueue("first")
    queue.clock.advance(3 * SECOND_MS)
    await queue.enqueue("urgent", priority=9)
    queue.clock.advance(SECOND_MS)
    assert (await queue.counts()).oldest_waiting_ms == 4 * SECOND_MS

    await queue.cancel("first")
    assert (await queue.counts()).oldest_waiting_ms == SECOND_MS

    await queue.lease()
    assert (await queue.counts()).oldest_waiting_ms is None


@pytest.mark.promise("P-31")
async def test_a_delayed_job_is_not_waiting_before_it_is_due(queue: QueueUnderTest) -> None:
    await queue.enqueue("j", delay_ms=SECOND_MS)
    queue.clock.advance(SECOND_MS)
    await queue.backend.advance(queue.name, ALL)
    queue.clock.advance(5)

    assert (await queue.counts()).oldest_waiting_ms == 5


@pytest.mark.promise("P-43", "P-62")
async def test_reading_changes_nothing(queue: QueueUnderTest) -> None:
    await queue.start()
    before, told, counts = await queue.record(), await queue.events(), await queue.counts()

    await queue.backend.find(queue.name, Filter(), None, ALL)
    await queue.backend.queues()
    await queue.backend.claimed_by(queue.name, "A-1")
    await queue.backend.outbox(queue.name, ALL)

    assert (await queue.record(), await queue.events(), await queue.counts()) == (before, told, counts)


@pytest.mark.promise("P-43")
@pytest.mark.parametrize("cursor", ["garbage", "-1", "1.5", "９", "9" * 30, "9" * 19, str(2**63)])
async def test_a_cursor_that_no_page_gave_is_refused(queue: QueueUnderTest, cursor: str) -> None:
    await queue.enqueue("j")

    with pytest.raises(InvalidCursor, match="cursor"):
        await queue.backend.find(queue.name, Filter(), cursor, 1)
    with pytest.raises(InvalidCursor, match="cursor"):
        await queue.backend.events(queue.name, cursor, 1)


@pytest.mark.promise("A-35", "E-55")
@pytest.mark.parametrize("states", [frozenset[State](), frozenset({State.WAITING})])
async def test_jobs_can_be_read_from_the_oldest_on_in_pages(
    queue: QueueUnderTest, states: frozenset[State]
) -> None:
    await queue.enqueue(*(f"j{number}" for number in range(5)))
    where = Filter(states=states, oldest_first=True)

    first = await queue.backend.find(queue.name, where, None, 2)
    await queue.enqueue("late")
    rest = await queue.backend.find(queue.name, where, first.cursor, ALL)

    assert [job.ref.id for job in first.jobs] == ["j0", "j1"]
    assert [job.ref.id for job in rest.jobs] == ["j2", "j3", "j4", "late"]
    assert rest.cursor is None


@pytest.mark.promise("A-35")
async def test_jobs_are_found_by_the_age_that_they_have_at_most(queue: QueueUnderTest) -> None:
    await queue.finish("ended")
    await queue.enqueue("old")
    queue.clock.advance(HOUR_MS)
    await queue.enqueue("new")

    assert await _ids(queue, Filter(newer_than_ms=HOUR_MS - 1)) == ["new"]
    assert len(await _ids(queue, Filter(newer_than_ms=HOUR_MS))) == 3
    assert await _ids(queue, Filter(newer_than_ms=HOUR_MS, older_than_ms=1)) == ["old", "ended"]


@pytest.mark.promise("A-35", "A-23")
async def test_dead_letters_are_found_by_the_reason_of_their_failure(queue: QueueUnderTest) -> None:
    for reason in ("timeout", "dead"):
        lease = await queue.start(reason)
        await queue.settle(replace(builders.fail(lease), reason=reason))
    await queue.finish("fine")

    assert await _ids(queue, Filter(reason="timeout")) == ["timeout"]
    assert await _ids(queue, Filter(reason="dead", states=frozenset({State.FAILED}))) == ["dead"]
    assert await _ids(queue, Filter(reason="error")) == []
