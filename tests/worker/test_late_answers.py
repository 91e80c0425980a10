"""A lease may have begun when its request was sent: an answer that is long on its way makes it no longer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from leasemq.protocol.keeping import Held, stop_at_ms
from leasemq.protocol.model import Fence, Renewal
from leasemq.testing.manual_clock import ManualClock
from leasemq.testing.virtual_loop import pass_time
from leasemq.worker.keeper import Keeper
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage

LEASE_MS = 3_000
HEARTBEAT_MS = 1_000
ON_ITS_WAY_MS = 900


@pytest.mark.promise("P-16", "E-20")
def test_a_claim_whose_answer_came_late_gives_that_much_less_time(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        stopped: list[int] = []

        async def work() -> None:
            try:
                await pass_time(60)
            finally:
                stopped.append(stage.clock())

        stage.task("work", work)
        await stage.enqueue("work")
        process = stage.start(lease_ms=LEASE_MS, heartbeat_ms=2_000)
        process.wire.delay("claim", ON_ITS_WAY_MS)
        process.wire.lose_request("renew", times=1_000)
        began_ms = stage.clock()
        await stage.pass_time(LEASE_MS / 1_000)
        assert began_ms + ON_ITS_WAY_MS < stopped[0] < began_ms + LEASE_MS

    theatre(play)


@pytest.mark.promise("P-16")
def test_a_renewal_whose_answer_came_late_gives_that_much_less_time() -> None:
    clock = ManualClock()
    keeper = Keeper(lambda: SlowRenewer(clock), clock, lambda: 0.0, lambda news: None)
    sent_ms = clock()
    stop_ms = stop_at_ms(sent_ms, LEASE_MS, HEARTBEAT_MS)
    lease = Held(
        serial=1,
        queue="q",
        job_id="j",
        fence=Fence(number=1, nonce="n"),
        lease_ms=LEASE_MS,
        heartbeat_ms=HEARTBEAT_MS,
        renew_at_ms=sent_ms,
        stop_at_ms=sent_ms + 1,
    )
    keeper.hold([lease])

    keeper.renew_due()

    clock.advance(stop_ms - clock() - 1)
    assert keeper.in_danger() == []
    clock.advance(1)
    assert keeper.in_danger() == [1]


class SlowRenewer:
    """Renews at once, and is heard of later. Owned by one test."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        """See `Renewer.renew`."""
        self._clock.advance(ON_ITS_WAY_MS)
        return [Renewal.HELD] * len(held)

    def close(self) -> None:
        """See `Renewer.close`."""


@pytest.mark.promise("P-11", "P-19", "P-115")
@pytest.mark.parametrize("is_lost", [False, True])
def test_no_renewal_is_refused_because_the_job_was_just_settled_by_the_same_worker(
    theatre: Theatre, *, is_lost: bool
) -> None:
    """Its answer stays out for longer than a heartbeat, or is lost: the server was frozen."""

    async def play(stage: Stage) -> None:
        async def work() -> None:
            await pass_time(0.1)

        stage.task("work", work)
        jobs = await stage.enqueue_many("work", [()] * 5)
        process = stage.process(lease_ms=9_000, concurrency=5)
        if is_lost:
            process.wire.lose_reply("settle", times=3)
        else:
            process.wire.delay("settle", 4_500)
        process.task = stage.spawn(process.worker.run())
        await stage.until_ended(*jobs)
        await stage.pass_time(10)
        assert (await stage.backend.counts("q")).refused == 0
        assert process.wire.calls["renew"] == 0
        assert await process.stop() == 0

    theatre(play)
