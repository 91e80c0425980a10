"""Which queue is asked next: strict order, or weights counted in jobs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.protocol.turns import Turns, after_taking, next_queue, turns_of


def take(turns: Turns, ready: set[str], batch: int = 1) -> tuple[Turns, str]:
    """One turn that brings `batch` jobs."""
    queue = next_queue(turns, ready)
    assert queue is not None
    return after_taking(turns, ready, queue, batch), queue


@pytest.mark.promise("P-32")
def test_in_listed_order_the_first_ready_queue_is_always_next() -> None:
    turns = turns_of(("high", "low"))
    assert [take(turns, {"low", "high"})[1] for _ in range(3)] == ["high"] * 3
    assert next_queue(turns, {"low"}) == "low"
    assert next_queue(turns, set()) is None


@pytest.mark.promise("P-32")
def test_turns_by_weight_are_spread_smoothly() -> None:
    turns = turns_of({"a": 5, "b": 1, "c": 1})
    seen = []
    for _ in range(7):
        turns, queue = take(turns, {"a", "b", "c"})
        seen.append(queue)
    assert seen == ["a", "a", "b", "a", "c", "a", "a"]  # as in nginx's description of the algorithm


@pytest.mark.promise("P-32")
@given(
    weights=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1),
    batches=st.lists(st.integers(1, 50), min_size=1, max_size=5),
)
def test_over_time_each_queue_gets_jobs_by_its_weight_whatever_the_batches(
    weights: dict[str, int], batches: list[int]
) -> None:
    turns = turns_of(weights)
    taken: Counter[str] = Counter()
    for turn in range(600):
        batch = batches[turn % len(batches)]
        turns, queue = take(turns, set(weights), batch)
        taken[queue] += batch
    total, whole = sum(taken.values()), sum(weights.values())
    for queue, weight in weights.items():
        assert abs(taken[queue] - total * weight / whole) <= max(batches) * len(weights)


@pytest.mark.promise("P-32", "P-34")
def test_a_queue_that_was_idle_has_hoarded_no_turns() -> None:
    turns = turns_of({"a": 1, "b": 1})
    for _ in range(1_000):
        turns, queue = take(turns, {"a"})
        assert queue == "a"
    seen = []
    for _ in range(10):
        turns, queue = take(turns, {"a", "b"})
        seen.append(queue)
    assert seen.count("b") == 5


def test_an_empty_answer_costs_no_turn() -> None:
    turns = turns_of({"a": 1, "b": 3})
    assert after_taking(turns, {"a", "b"}, "b", 0) == turns
