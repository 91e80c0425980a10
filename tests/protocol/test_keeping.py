"""When leases are renewed, and when they may have ended, by numbers alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.protocol.keeping import (
    Held,
    backoff_ms,
    held_since,
    look_in_ms,
    margin_ms,
    may_have_ended,
    retry_in_ms,
    settling_since,
    stop_at_ms,
    to_renew,
    watch_in_ms,
)
from leasemq.protocol.model import Fence


def held(serial: int = 1, *, sent_ms: int = 0, lease_ms: int = 3_000, last_ms: int | None = None) -> Held:
    """A lease claimed by a request that was sent then."""
    return Held(
        serial=serial,
        queue="q",
        job_id=f"j{serial}",
        fence=Fence(number=serial, nonce="n"),
        lease_ms=lease_ms,
        heartbeat_ms=lease_ms // 3,
        renew_at_ms=sent_ms + lease_ms // 3,
        stop_at_ms=stop_at_ms(sent_ms, lease_ms, lease_ms // 3),
        last_ms=last_ms,
    )


@pytest.mark.promise("P-15")
def test_nothing_is_renewed_before_a_heartbeat_has_passed_and_then_neighbours_go_along() -> None:
    leases = [held(1, sent_ms=0), held(2, sent_ms=200), held(3, sent_ms=900)]
    assert to_renew(leases, 999) == []
    assert [one.serial for one in to_renew(leases, 1_000)] == [1, 2]
    assert look_in_ms(leases, 400) == 600
    assert look_in_ms([], 400) is None


@pytest.mark.promise("P-16")
def test_the_deadline_counts_from_before_the_renewal_was_sent() -> None:
    renewed = held_since(held(sent_ms=0), sent_ms=1_000)
    assert (renewed.stop_at_ms, renewed.renew_at_ms) == (4_000 - margin_ms(3_000, 1_000), 2_000)
    assert may_have_ended([renewed], 4_000 - margin_ms(3_000, 1_000) - 1) == []
    assert may_have_ended([renewed], 4_000 - margin_ms(3_000, 1_000)) == [1]


@pytest.mark.promise("P-19")
def test_a_lease_being_settled_is_left_alone_for_a_heartbeat_and_then_renewed_again() -> None:
    settling = settling_since(held(sent_ms=0), sent_ms=900)
    assert to_renew([settling], 1_899) == []
    assert to_renew([settling], 1_900) == [settling]
    assert settling.renew_at_ms < settling.stop_at_ms


@pytest.mark.promise("P-27")
def test_an_attempt_is_not_renewed_beyond_its_timeout_and_a_lease() -> None:
    limited = held(last_ms=5_000)
    assert to_renew([limited], 4_999) == [limited]
    assert to_renew([limited], 5_000) == []
    late = held_since(limited, sent_ms=4_500)
    assert look_in_ms([late], 4_600) is None


@pytest.mark.promise("P-16")
@given(lease_ms=st.integers(10, 10**9), sent_ms=st.integers(0, 10**12), share=st.floats(0, 1))
def test_the_margin_begins_after_the_heartbeat_and_before_the_end(
    lease_ms: int, sent_ms: int, share: float
) -> None:
    one = held(sent_ms=sent_ms, lease_ms=lease_ms)
    assert sent_ms + 2 * one.heartbeat_ms <= one.stop_at_ms <= sent_ms + lease_ms
    heartbeat_ms = 1 + int(share * (lease_ms - 2))
    one = held_since(replace(one, heartbeat_ms=heartbeat_ms), sent_ms)
    assert one.renew_at_ms <= one.stop_at_ms <= sent_ms + lease_ms
    wait_ms = watch_in_ms([one], sent_ms)
    assert wait_ms is not None
    assert 1 <= wait_ms <= max(1, margin_ms(lease_ms, heartbeat_ms) // 2)


def test_the_watch_does_not_spin_over_a_lease_that_is_over() -> None:
    assert watch_in_ms([held(sent_ms=0)], 1_000_000) == margin_ms(3_000, 1_000) // 2
    assert watch_in_ms([], 0) is None


@pytest.mark.promise("P-16", "P-19", "E-20")
@given(failures=st.integers(1, 60), dice=st.floats(0, 1, exclude_max=True), now_ms=st.integers(0, 4_000))
def test_a_failed_renewal_is_tried_several_times_more_while_there_is_time(
    failures: int, dice: float, now_ms: int
) -> None:
    left_ms = held(sent_ms=0).stop_at_ms - now_ms
    wait_ms = retry_in_ms([held(sent_ms=0)], now_ms, failures, dice)
    assert 1 <= wait_ms <= 1_000
    assert left_ms <= 0 or wait_ms <= max(50, left_ms // 4)


@given(failures=st.integers(1, 10**6), dice=st.floats(0, 1, exclude_max=True))
def test_the_backoff_grows_to_its_limit_and_never_overflows(failures: int, dice: float) -> None:
    assert 1 <= backoff_ms(failures, dice) <= 1_000
    assert backoff_ms(1, dice) <= 50
    assert backoff_ms(100, dice) >= 500


@pytest.mark.promise("P-27")
@pytest.mark.parametrize("now_ms", [4_999, 5_000, 5_001, 60_000])
def test_nobody_looks_at_once_for_a_lease_that_will_not_be_renewed(now_ms: int) -> None:
    limited = held(last_ms=5_000)
    looks_at_once = look_in_ms([limited], now_ms) == 0
    assert looks_at_once == bool(to_renew([limited], now_ms)) == (now_ms < 5_000)
