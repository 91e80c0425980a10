"""When a failed job runs again: budgets, delays that never overflow, and rules by exception."""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.errors import CorruptRecord, InvalidSetting, UnknownEnvelope
from leasemq.protocol.retry import Backoff, Jitter, Retry, delay_ms, from_plain, should_retry, to_plain
from leasemq.protocol.times import MAX_DURATION_MS

DICE = 0.5


def seconds(policy: Retry, failures: int) -> float | None:
    """The policy's delay without luck, in seconds."""
    found = delay_ms(policy, failures, DICE)
    return None if found is None else found / 1000


@pytest.mark.promise("P-20", "P-21", "B54")
@pytest.mark.parametrize(
    ("attempt", "expected"),
    [(1, 1), (2, 2), (10, 512), (12, 2_048), (16, 3_600), (47, 3_600), (1_075, 3_600), (1_000_000, 3_600)],
)
def test_exponential_delays_grow_to_the_cap_and_never_overflow(attempt: int, expected: int) -> None:
    assert seconds(Retry(None, base=1, factor=2, cap=3_600, jitter="none"), attempt) == expected


@pytest.mark.promise("P-20", "B54")
def test_without_a_cap_the_documented_maximum_is_the_cap() -> None:
    policy = Retry(None, base=1, factor=5, cap=None, jitter="none")

    assert delay_ms(policy, 14, DICE) == 5**13 * 1_000
    assert delay_ms(policy, 18, DICE) == MAX_DURATION_MS
    assert delay_ms(policy, 10**400, DICE) == MAX_DURATION_MS


@pytest.mark.promise("P-20")
def test_constant_linear_and_listed_delays() -> None:
    constant = Retry(9, backoff="constant", base=3, jitter="none")
    linear = Retry(9, backoff="linear", base=timedelta(seconds=3), jitter="none", cap=10)
    listed = Retry(9, delays=[1, timedelta(minutes=1), 0.5], jitter="none")

    assert [seconds(constant, n) for n in (1, 2, 3)] == [3, 3, 3]
    assert [seconds(linear, n) for n in (1, 2, 3, 4)] == [3, 6, 9, 10]
    assert [seconds(listed, n) for n in (1, 2, 3, 4)] == [1, 60, 0.5, 0.5]


@pytest.mark.promise("P-20", "A-9")
def test_a_policy_may_retry_at_once() -> None:
    assert delay_ms(Retry(backoff="constant", base=0), 1, 0.999) == 0


@pytest.mark.promise("P-21", "E-12")
@pytest.mark.parametrize("policy", [Retry(5), Retry(max_retries=5), Retry()])
def test_n_retries_make_n_plus_one_runs(policy: Retry) -> None:
    runs = 1
    while delay_ms(policy, runs, DICE) is not None:
        runs += 1

    assert runs == 6


@pytest.mark.promise("P-21", "E-12")
def test_no_limit_still_works_after_a_thousand_failures() -> None:
    assert all(delay_ms(Retry(None), failures, DICE) is not None for failures in range(1, 1_500))


@pytest.mark.promise("P-21")
def test_no_retries_at_all_is_a_policy_too() -> None:
    assert delay_ms(Retry(0), 1, DICE) is None


@pytest.mark.promise("P-20", "B54")
def test_full_jitter_spreads_jobs_that_failed_together() -> None:
    policy = Retry(1, backoff="constant", base=10)
    dice = Random(20261128)

    delays = [delay_ms(policy, 1, dice.random()) or 0 for _ in range(1_000)]

    assert max(Counter(delay // 1_000 for delay in delays).values()) <= 148
    assert min(delays) < 500
    assert 9_500 < max(delays) <= 10_000


@pytest.mark.promise("P-20", "P-21", "B54")
@given(
    failures=st.integers(1, 10**9),
    dice=st.floats(0, 1, exclude_max=True),
    backoff=st.sampled_from(Backoff),
    base=st.floats(0, 1e9),
    factor=st.floats(1, 1_000),
    cap=st.none() | st.floats(0, 1e9),
    jitter=st.sampled_from(Jitter),
)
def test_every_delay_lies_between_zero_and_the_cap(
    failures: int,
    dice: float,
    backoff: Backoff,
    base: float,
    factor: float,
    cap: float | None,
    jitter: Jitter,
) -> None:
    policy = Retry(None, backoff=backoff, base=base, factor=factor, cap=cap, jitter=jitter)

    found = delay_ms(policy, failures, dice)

    assert found is not None
    assert 0 <= found <= (MAX_DURATION_MS if cap is None else round(cap * 1000))


@pytest.mark.promise("P-22")
def test_the_same_counters_and_dice_give_the_same_delay() -> None:
    assert delay_ms(Retry(9), 4, 0.25) == delay_ms(Retry(9), 4, 0.25) == 2_000


class Flaky(Exception):
    """An error of a test."""


class Broken(Flaky):
    """A kind of Flaky."""


@pytest.mark.promise("P-20", "B39")
@pytest.mark.parametrize(
    "error", [ValueError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Flaky()]
)
def test_without_rules_everything_is_retried(error: BaseException) -> None:
    assert should_retry(Retry(2), error)


@pytest.mark.promise("P-20")
@pytest.mark.parametrize(
    ("policy", "retried", "given_up"),
    [
        (Retry(2, retry_on=Flaky), [Flaky(), Broken()], [ValueError(), KeyboardInterrupt()]),
        (Retry(2, retry_on=(Flaky, OSError)), [Broken(), TimeoutError()], [ValueError()]),
        (Retry(2, give_up_on=Broken), [Flaky(), ValueError()], [Broken()]),
        (Retry(2, retry_on=Flaky, give_up_on=(Broken,)), [Flaky()], [Broken(), ValueError()]),
    ],
)
def test_rules_by_exception(policy: Retry, retried: list[Any], given_up: list[Any]) -> None:
    assert [should_retry(policy, error) for error in retried] == [True] * len(retried)
    assert [should_retry(policy, error) for error in given_up] == [False] * len(given_up)


@pytest.mark.promise("P-20")
def test_rules_look_into_exception_groups() -> None:
    flaky = ExceptionGroup("both", [Flaky(), ExceptionGroup("inner", [Broken()])])
    mixed = ExceptionGroup("both", [Flaky(), ValueError()])

    assert should_retry(Retry(2, retry_on=Flaky), flaky)
    assert not should_retry(Retry(2, retry_on=Flaky), mixed)
    assert should_retry(Retry(2, retry_on=Exception), mixed)
    assert should_retry(Retry(2, retry_on=ExceptionGroup), mixed)
    assert not should_retry(Retry(2, give_up_on=Broken), flaky)
    assert not should_retry(Retry(2, retry_on=Exception, give_up_on=ValueError), mixed)


@pytest.mark.promise("P-20", "P-18", "E-4")
@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("max_retries", {"max_retries": -1}),
        ("max_retries", {"max_retries": 1.5}),
        ("max_retries", {"max_retries": True}),
        ("max_retries", {"max_retries": "5"}),
        ("max_retries", {"max_retries": -(10**5_000)}),
        ("backoff", {"backoff": "cubic"}),
        ("base", {"base": -1}),
        ("base", {"base": math.nan}),
        ("base", {"base": True}),
        ("base", {"base": "1"}),
        ("base", {"base": 1e12}),
        ("factor", {"factor": 0.5}),
        ("factor", {"factor": math.nan}),
        ("factor", {"factor": math.inf}),
        ("factor", {"factor": True}),
        ("factor", {"factor": 10**5_000}),
        ("cap", {"cap": -1}),
        ("cap", {"cap": math.inf}),
        ("cap", {"cap": timedelta(days=-1)}),
        ("delays", {"delays": []}),
        ("delays", {"delays": [1] * 1_001}),
        ("delays", {"delays": "15"}),
        ("delays", {"delays": 5}),
        ("delays[1]", {"delays": [1, -1]}),
        ("jitter", {"jitter": "half"}),
        ("jitter", {"jitter": None}),
        ("retry_on", {"retry_on": ()}),
        ("retry_on", {"retry_on": "ValueError"}),
        ("retry_on", {"retry_on": ValueError()}),
        ("give_up_on", {"give_up_on": (ValueError, int)}),
    ],
)
def test_a_bad_setting_is_refused_by_its_field_when_the_policy_is_made(
    field: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(InvalidSetting) as refused:
        Retry(**settings)

    assert str(refused.value).startswith(field)


@pytest.mark.promise("P-22")
def test_a_list_given_for_delays_can_change_without_changing_the_policy() -> None:
    delays: list[float | timedelta] = [1, 2]
    policy = Retry(9, delays=delays, jitter="none")

    delays.clear()

    assert seconds(policy, 2) == 2


@pytest.mark.promise("P-20", "A-9")
@given(
    st.builds(
        Retry,
        st.none() | st.integers(0, 10**6),
        backoff=st.sampled_from(Backoff),
        base=st.integers(0, 10_000),
        factor=st.integers(1, 1_000) | st.floats(1, 1_000),
        cap=st.none() | st.timedeltas(timedelta(0), timedelta(days=9)),
        delays=st.none() | st.lists(st.integers(0, 1_000), min_size=1, max_size=5),
        jitter=st.sampled_from(Jitter),
    ),
    st.integers(1, 10**7),
)
def test_a_policy_carried_by_a_job_decides_as_the_original(policy: Retry, failures: int) -> None:
    assert delay_ms(from_plain(to_plain(policy)), failures, DICE) == delay_ms(policy, failures, DICE)


@pytest.mark.promise("P-103")
@pytest.mark.parametrize("policy", [Retry(retry_on=OSError), Retry(give_up_on=(ValueError,))])
def test_rules_by_class_cannot_be_carried_by_a_job(policy: Retry) -> None:
    with pytest.raises(InvalidSetting, match="exception classes, which cannot be stored"):
        to_plain(policy)


@pytest.mark.promise("P-99", "P-85")
@pytest.mark.parametrize(
    "change",
    [
        {"v": 0},
        {"v": None},
        {"v": True},
        {"max_retries": "5"},
        {"base_ms": "x"},
        {"base_ms": -1},
        {"base_ms": 10**400},
        {"cap_ms": []},
        {"factor": None},
        {"backoff": ["linear"]},
        {"delays_ms": 3},
        {"delays_ms": ["x"]},
        {"surprise": 1},
    ],
)
def test_a_damaged_policy_is_a_corrupt_record(change: dict[str, Any]) -> None:
    with pytest.raises(CorruptRecord) as raised:
        from_plain({**to_plain(Retry(5)), **change})

    assert not isinstance(raised.value, UnknownEnvelope)


@pytest.mark.promise("P-99")
@pytest.mark.parametrize("plain", [None, [], "x", 5, {}, {"v": 1}])
def test_what_is_no_policy_is_a_corrupt_record(plain: object) -> None:
    with pytest.raises(CorruptRecord):
        from_plain(plain)


@pytest.mark.promise("P-85", "P-28")
def test_a_policy_of_a_newer_release_is_told_apart() -> None:
    with pytest.raises(UnknownEnvelope) as raised:
        from_plain({"v": 2, "budget": 3})

    assert raised.value.version == 2
