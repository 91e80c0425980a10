"""Reasons as people read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leasemq.protocol.reasons import Why, at, many, span

PAGE = Path(__file__).parents[2] / "docs" / "why.md"


@pytest.mark.promise("P-116")
def test_the_page_explains_every_kind_of_reason_once_and_no_other() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M)

    assert sorted(explained) == sorted(Why)


@pytest.mark.parametrize(
    ("duration_ms", "said"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (12_345, "12.3 s"),
        (119_999, "120 s"),
        (120_000, "2 min"),
        (119 * 60_000, "119 min"),
        (120 * 60_000, "2 h"),
        (47 * 3_600_000, "47 h"),
        (48 * 3_600_000, "2 days"),
        (36_500 * 86_400_000, "36,500 days"),
    ],
)
def test_durations_are_said_in_the_unit_that_fits(duration_ms: int, said: str) -> None:
    assert span(duration_ms) == said


def test_instants_are_said_with_how_far_they_are() -> None:
    assert at(1_000, 3_500) == "1970-01-01T00:00:01.000Z (2.5 s ago)"
    assert at(3_500, 1_000) == "1970-01-01T00:00:03.500Z (in 2.5 s)"
    assert at(1_000, 1_000) == "1970-01-01T00:00:01.000Z (0 ms ago)"


def test_numbers_agree_with_their_nouns() -> None:
    assert [many(number, "job") for number in (0, 1, 2, 1_000)] == ["0 jobs", "1 job", "2 jobs", "1,000 jobs"]
    assert many(2, "worker runs", "workers run") == "2 workers run"
