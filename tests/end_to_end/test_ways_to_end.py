"""However a handler ends, the job's end says how, on each backend, and the slot is free again."""

from __future__ import annotations

import pytest

from leasemq import State
from leasemq.protocol.decide import Reason
from tests.end_to_end.apps.work import ODD
from tests.end_to_end.place import Place

pytestmark = pytest.mark.by_url


@pytest.mark.slow
@pytest.mark.promise("P-25", "P-26", "P-27", "P-20")
def test_each_way_to_end_is_told_by_the_job_and_takes_no_slot_along(place: Place) -> None:
    worker = place.worker("A", concurrency=1, lease_s=30)
    raised = [place.enqueue("odd_async", kind, id=kind).id for kind in sorted(ODD)]
    unstorable = place.enqueue("unstorable", id="unstorable").id
    overdue = place.enqueue("overdue", id="overdue").id
    place.enqueue("quick", id="last")
    place.wait_for_state("last", State.COMPLETED)

    assert {place.record(id_).state for id_ in (*raised, unstorable, overdue)} == {State.FAILED}
    refused, late = place.record(unstorable), place.record(overdue)
    assert (refused.reason, refused.attempts) == (Reason.RESULT_NOT_SERIALIZABLE, 1)
    assert (late.failures, late.attempts) == (1, 1)
    assert b"Timeout" in (late.error or b"")
    assert worker.is_alive
