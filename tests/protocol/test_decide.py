"""What happened to an attempt → what is written. Every rule about endings, by values alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.protocol.decide import (
    UNFIT_MOST_MS,
    Happened,
    Hopeless,
    Interrupted,
    Raised,
    Reason,
    Returned,
    Silent,
    Snoozed,
    Unfit,
    decide,
    is_suspect,
    passes,
)
from leasemq.protocol.lifecycle import is_legal
from leasemq.protocol.model import Fence, Keep, Lease, OnParentFailure, Outcome, Ref, Settlement, Side, State
from leasemq.protocol.retry import Retry

LEASE = Lease(
    ref=Ref(queue="q", id="j", generation=3),
    fence=Fence(number=7, nonce="n"),
    task="t",
    payload=b"{}",
    attempts=2,
    failures=1,
    stalls=1,
    max_stalls=2,
    keep=Keep(result_ms=10, record_ms=20, dead_ms=30),
    created_ms=0,
    lease_until_ms=1_000,
    incarnation="i",
)
ALL: tuple[Happened, ...] = (
    Returned(result=b"r"),
    Raised(error=b"e"),
    Raised(error=b"e", retryable=False),
    Raised(error=b"e", after_ms=5),
    Raised(error=b"e", reason=Reason.TIMEOUT),
    Hopeless(error=b"e", reason=Reason.DEAD),
    Snoozed(delay_ms=9),
    Snoozed(delay_ms=0),
    Interrupted(),
    Unfit(),
    Silent(),
)


def settled(happened: Happened, lease: Lease = LEASE, **known: object) -> Settlement:
    """What is decided, under settlement id 1."""
    return decide(lease, happened, settlement_id=1, **known)  # type: ignore[arg-type]  # decide's own keywords


@pytest.mark.promise("P-05", "P-11")
@pytest.mark.parametrize("happened", ALL, ids=repr)
@pytest.mark.parametrize("retry", [None, Retry(5)], ids=["once", "retried"])
@pytest.mark.parametrize("cancelled", [False, True])
def test_every_settlement_is_a_legal_move_under_the_attempts_own_fence(
    happened: Happened, retry: Retry | None, cancelled: bool
) -> None:
    one = settled(happened, retry=retry, cancel_requested=cancelled)
    assert (one.job_id, one.generation, one.fence) == ("j", 3, LEASE.fence)
    assert is_legal(State.ACTIVE, one.state)
    assert one.state.is_terminal == (one.keep_ms is not None)
    assert (one.delay_ms > 0) == (one.state is State.SCHEDULED)
    assert one.side is (Side.SWEEP if isinstance(happened, Silent) else Side.HOLDER)


@pytest.mark.promise("P-20", "P-21", "P-23", "E-14")
def test_each_counter_is_moved_by_one_kind_of_end_only() -> None:
    spent = {
        (type(happened).__name__, bool(retry)): (one.failures - LEASE.failures, one.stalls - LEASE.stalls)
        for happened, retry in product(ALL, (None, Retry(9)))
        for one in [settled(happened, retry=retry)]
    }
    assert {name for (name, _), counters in spent.items() if counters == (1, 0)} == {"Raised", "Hopeless"}
    assert {name for (name, _), counters in spent.items() if counters == (0, 1)} == {"Silent"}
    assert set(spent.values()) == {(0, 0), (1, 0), (0, 1)}


@pytest.mark.promise("P-50", "P-05")
@pytest.mark.parametrize("happened", ALL, ids=repr)
@pytest.mark.parametrize("known", ["by the lease", "by an earlier answer"])
def test_once_cancellation_is_known_it_is_the_only_outcome_and_no_budget_is_spent(
    happened: Happened, known: str
) -> None:
    lease = replace(LEASE, cancel_requested=known == "by the lease")
    one = settled(happened, lease, retry=Retry(9), cancel_requested=known != "by the lease")
    assert (one.outcome, one.state, one.seen_cancel) == (Outcome.CANCELLED, State.CANCELLED, True)
    assert (one.failures, one.stalls, one.result) == (LEASE.failures, LEASE.stalls, None)
    assert one.keep_ms == LEASE.keep.record_ms


@pytest.mark.promise("P-21")
@given(failures=st.integers(0, 40), budget=st.integers(0, 40))
def test_a_job_that_always_fails_runs_once_more_than_its_retries(failures: int, budget: int) -> None:
    one = settled(Raised(error=b"e"), replace(LEASE, failures=failures), retry=Retry(budget), dice=0.5)
    assert (one.state is State.FAILED) == (failures >= budget)
    assert one.failures == failures + 1
    if one.state is State.FAILED:
        assert (one.reason, one.keep_ms) == ("retries", LEASE.keep.dead_ms)


@pytest.mark.promise("P-21")
def test_without_a_limit_it_is_retried_after_a_thousand_failures() -> None:
    one = settled(Raised(error=b"e"), replace(LEASE, failures=1_000), retry=Retry(None, jitter="none"))
    assert (one.outcome, one.delay_ms) == (Outcome.RETRIED, 3_600_000)


@pytest.mark.promise("P-20")
def test_a_delay_that_the_function_asked_for_wins_but_still_spends_a_retry() -> None:
    again = settled(Raised(error=b"e", after_ms=77), retry=Retry(2))
    assert (again.outcome, again.delay_ms, again.failures) == (Outcome.RETRIED, 77, 2)
    spent = settled(Raised(error=b"e", after_ms=77), replace(LEASE, failures=2), retry=Retry(2))
    assert spent.state is State.FAILED


@pytest.mark.promise("P-26", "P-27")
@pytest.mark.parametrize(
    ("happened", "reason"),
    [
        (Raised(error=b"e"), "error"),
        (Raised(error=b"e", reason=Reason.TIMEOUT), "timeout"),
        (Hopeless(error=b"e", reason=Reason.RESULT_TOO_LARGE), "result_too_large"),
        (Hopeless(error=b"e", reason=Reason.CORRUPT), "corrupt"),
    ],
)
def test_a_failure_keeps_its_reason(happened: Happened, reason: str) -> None:
    one = settled(happened)
    assert (one.state, one.reason, one.error) == (State.FAILED, reason, b"e")


@pytest.mark.promise("P-23", "P-24")
@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_stalls_beyond_the_limit_end_the_job_and_the_last_run_is_a_suspects(limit: int) -> None:
    seen = []
    lease = replace(LEASE, stalls=0, max_stalls=limit)
    while True:
        one = settled(Silent(), lease)
        seen.append((one.state, one.suspect))
        if one.state.is_terminal:
            break
        assert (one.outcome, one.delay_ms, one.failures) == (Outcome.STALLED, 0, lease.failures)
        lease = replace(lease, stalls=one.stalls)
    assert len(seen) == limit + 1
    assert seen[-1] == (State.FAILED, False)
    assert [suspect for state, suspect in seen[:-1]] == [n == limit for n in range(1, limit + 1)]
    assert one.reason == "stalled"


@pytest.mark.promise("P-24")
def test_a_job_without_a_stall_budget_is_never_a_suspect() -> None:
    assert not is_suspect(0, 0)
    assert is_suspect(2, 2)
    assert not is_suspect(1, 2)


@pytest.mark.promise("P-81")
def test_an_interrupted_attempt_is_eligible_at_once_and_stays_a_suspect_if_it_was() -> None:
    one = settled(Interrupted(), replace(LEASE, stalls=2))
    assert (one.outcome, one.state, one.delay_ms, one.suspect) == (Outcome.RELEASED, State.WAITING, 0, True)


@pytest.mark.promise("P-28", "B42")
def test_a_job_that_this_worker_cannot_run_is_left_alone_for_longer_each_time() -> None:
    delays = [settled(Unfit(), replace(LEASE, attempts=attempts)).delay_ms for attempts in range(1, 60)]
    assert delays == sorted(delays)
    assert delays[0] == 1_000
    assert delays[-1] == UNFIT_MOST_MS
    assert sum(delay < 5_000 for delay in delays) <= 10


@pytest.mark.promise("P-110")
def test_what_a_parents_end_means_is_the_dependants_choice() -> None:
    ended_badly = [State.FAILED, State.CANCELLED, State.EXPIRED, None]
    assert all(passes(policy, State.COMPLETED) is True for policy in OnParentFailure)
    assert {passes(OnParentFailure.FAIL, outcome) for outcome in ended_badly} == {False}
    assert {passes(OnParentFailure.IGNORE, outcome) for outcome in ended_badly} == {True}
    assert {passes(OnParentFailure.KEEP, outcome) for outcome in ended_badly} == {None}
