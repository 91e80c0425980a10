"""What must be the same whatever the backend: which values arrive, and what is told of a write in doubt."""

from __future__ import annotations

from typing import Any

import pytest

from leasemq import App
from leasemq.client.intake import Intake
from leasemq.client.schemes import open_backend
from leasemq.client.storing import Offer
from leasemq.errors import BackendUnavailable, IndeterminateWrite, PayloadRejected
from leasemq.protocol.model import Acceptance, NewJob
from leasemq.testing.faults import Wire, faulty
from tests.app.holder import Holder

DEEPEST: list[Any] = []
for _ in range(63):
    DEEPEST = [DEEPEST]

ARRIVING: dict[str, Any] = {
    "largest int": 2**63 - 1,
    "smallest int": -(2**63),
    "int that is no double": 2**53 + 1,
    "minus zero": -0.0,
    "smallest float": 5e-324,
    "largest float": 1.7976931348623157e308,
    "odd text": "NUL \x00, separator \u2028, quote ', backslash \\, \U0001f40d, e\u0301",
    "empty list": [],
    "empty key": {"": None, "nested": [True, {}]},
    "64 deep": DEEPEST,
}
REFUSED: dict[str, Any] = {
    "int beyond 64 bits": 2**63,
    "int beyond 64 bits, negative": -(2**63) - 1,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "surrogate": "lone \ud800",
    "65 deep": [DEEPEST],
}


@pytest.mark.promise("P-100", "B33")
@pytest.mark.parametrize("value", ARRIVING.values(), ids=ARRIVING.keys())
async def test_a_value_at_the_edge_arrives_as_argument_and_as_result(
    app: App, holder: Holder, value: object
) -> None:
    @app.task(name="t")
    async def t(anything: Any) -> Any: ...

    async with app:
        job = await t.enqueue(value)
        (lease,) = await holder.claim()
        argument = t.signature.decode_arguments(lease.payload)[1]["anything"]
        await holder.returns(lease, t, value)
        result = await job.result(timeout=5)
    assert (type(argument), repr(argument)) == (type(value), repr(value))
    assert (type(result), repr(result)) == (type(value), repr(value))


@pytest.mark.promise("P-100", "P-103", "B33")
@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED.keys())
async def test_a_value_beyond_the_edge_is_refused_and_nothing_is_stored(app: App, value: object) -> None:
    @app.task(name="t")
    async def t(anything: Any) -> Any: ...

    async with app:
        with pytest.raises(PayloadRejected, match="anything"):
            await t.enqueue(value)
        assert await app.queues() == ()


@pytest.mark.promise("P-04", "P-40", "B06", "E-9")
async def test_a_lost_answer_is_told_apart_from_a_lost_request(url: str) -> None:
    wire = Wire()
    backend = open_backend(url)
    await backend.prepare()
    intake = Intake(faulty(backend, wire), patience_ms=0)
    wire.lose_request("enqueue", nth=1)
    wire.lose_reply("enqueue", nth=2)

    with pytest.raises(BackendUnavailable, match="not stored"):
        await intake.one("q", _offer("lost request"))
    with pytest.raises(IndeterminateWrite, match="may or may not be stored"):
        await intake.one("q", _offer("lost answer"))

    asked = ["lost request", "lost answer"]
    assert [record and record.ref.id for record in await backend.get("q", asked)] == [None, "lost answer"]
    again = [await intake.one("q", _offer(id_)) for id_ in asked]
    assert [one.acceptance for one in again] == [Acceptance.CREATED, Acceptance.EXISTING]
    assert [one.ref.generation for one in again] == [1, 1]
    assert (await backend.counts("q")).accepted == 2
    await backend.close()


def _offer(id_: str) -> Offer:
    return Offer(job=NewJob(id=id_, task="t", payload=b"{}"), own_id=True)
