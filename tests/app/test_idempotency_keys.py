"""The key that a handler gives to others: one for each step of one life of one job, whatever the attempt."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from leasemq import App, Ctx, Task
from leasemq.context import Desk
from leasemq.protocol.model import Lease
from tests.app.holder import Holder


def keys_of(lease: Lease) -> list[str]:
    """The keys that its function would get: of no step, and of steps with all but the same names."""
    context = Ctx(lease, Mock(spec_set=Desk))
    steps = ("", "charge", "charge ", "Charge", "1:charge", "c\x00harge", "\N{SNOWMAN}")
    return [context.idempotency_key(step) for step in steps]


@pytest.mark.promise("P-14")
async def test_a_key_is_the_same_on_every_attempt_and_after_a_replay(app: App, holder: Holder) -> None:
    async with app:
        task: Task[[], None] = app.task(name="t")(lambda: None)
        job = await task.enqueue()
        (first,) = await holder.claim()
        await holder.raises(first, ValueError("once"))
        await app.replay(job)
        (second,) = await holder.claim()

        assert second.fence.number > first.fence.number
        assert keys_of(first) == keys_of(second)
        assert len(set(keys_of(first))) == 7


@pytest.mark.promise("P-14")
async def test_no_two_lives_jobs_or_queues_share_a_key(app: App, holder: Holder) -> None:
    async with app:
        task: Task[[], None] = app.task(name="t")(lambda: None)
        leases = []
        for queue, id_ in (("a", "bc"), ("ab", "c"), ("a", "bc2"), ("abc", "x"), ("a", "b")):
            await task.options(queue=queue, id=id_).enqueue()
            leases += await holder.claim(queue)
        await holder.returns(leases[0], task, None)
        await task.options(queue="a", id="bc", reuse=["completed"]).enqueue()
        leases += await holder.claim("a")

        keys = [key for lease in leases for key in keys_of(lease)]
        assert (leases[-1].ref.generation, len(keys)) == (2, 6 * 7)
        assert len(set(keys)) == len(keys)
