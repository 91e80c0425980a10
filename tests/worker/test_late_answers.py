"""A lease may have begun when its request was sent: an answer that is long on its way makes it no longer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from leasemq.errors import IndeterminateWrite
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
TIMEOUT_MS = 500


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


@pytest.mark.promise("P-16", "P-98")
def test_queues_whose_server_hangs_cost_the_leases_of_the_others_one_time_out_a_round() -> None:
    clock = ManualClock()
    renewer = HangingRenewer(clock, {f"q{number}" for number in range(1, 9)})
    keeper = Keeper(lambda: renewer, clock, lambda: 0.5, lambda news: None)
    keeper.hold(_lease(number, f"q{number}", clock()) for number in range(9))
    keeper.renew_due()
    clock.advance(keeper.renew_due())  # whose server hangs is known by now
    keeper.hold([_lease(0, "q0", clock())])
    for _ in range(100):
        assert 0 not in keeper.in_danger()
        clock.advance(max(1, keeper.renew_due()))
    renewer.hanging.clear()
    keeper.renew_due()
    assert keeper.in_danger() == []


def _lease(serial: int, queue: str, sent_ms: int) -> Held:
    return Held(
        serial=serial,
        queue=queue,
        job_id="j",
        fence=Fence(number=1, nonce="n"),
        lease_ms=LEASE_MS,
        heartbeat_ms=HEARTBEAT_MS,
        renew_at_ms=sent_ms,
        stop_at_ms=stop_at_ms(sent_ms, LEASE_MS, HEARTBEAT_MS),
    )


class HangingRenewer:
    """Gives no answer about some queues until a time-out. Owned by one test."""

    def __init__(self, clock: ManualClock, hanging: set[str]) -> None:
        self._clock = clock
        self.hanging = hanging

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        """See `Renewer.renew`."""
        if queue in self.hanging:
            self._clock.advance(TIMEOUT_MS)
            raise IndeterminateWrite("renew: no answer")
        return [Renewal.HELD] * len(held)

    def close(self) -> None:
        """See `Renewer.close`."""


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
