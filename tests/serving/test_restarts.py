"""When a process that ended is started again."""

from __future__ import annotations

import pytest

from leasemq.serving.restarts import LONGEST_MS, STABLE_MS, deaths_in_a_row, restart_in_ms


@pytest.mark.promise("P-82", "B12")
def test_one_death_is_followed_by_a_start_well_within_three_seconds() -> None:
    for roll in (0.0, 0.5, 1.0):
        assert 0 < restart_in_ms(deaths_in_a_row(0, 10), roll) <= 250


@pytest.mark.promise("P-82")
def test_quick_deaths_in_a_row_wait_longer_and_never_too_long() -> None:
    waits = [restart_in_ms(deaths, 0) for deaths in range(1, 100)]
    assert waits == sorted(waits)
    assert waits[:3] == [250, 500, 1_000]
    assert waits[-1] == LONGEST_MS
    assert restart_in_ms(5, 1) == waits[4] // 2


@pytest.mark.promise("P-82")
def test_a_stable_life_is_forgiven() -> None:
    assert deaths_in_a_row(7, STABLE_MS - 1) == 8
    assert deaths_in_a_row(7, STABLE_MS) == 1
