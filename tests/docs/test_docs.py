"""What the documents show is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasemq.protocol.lifecycle import ARROWS, mermaid
from leasemq.protocol.model import TERMINAL, State
from scripts.docs import capabilities

DOCS = Path(__file__).parents[2] / "docs"


def test_the_lifecycle_diagram_is_the_table_of_legal_moves() -> None:
    page = (DOCS / "lifecycle.md").read_text()
    drawn = page.split("```mermaid\n")[1].split("```")[0]
    assert drawn == mermaid(), "run: python scripts/docs.py"


@pytest.mark.promise("P-05")
def test_a_terminal_state_is_left_only_by_replay() -> None:
    ways_out = {arrow.move.value for arrow in ARROWS if arrow.source in TERMINAL}
    assert ways_out == {"replay"}


def test_every_state_can_be_reached_and_every_live_state_can_end() -> None:
    assert {arrow.target for arrow in ARROWS} == set(State)
    leads_on = {arrow.source for arrow in ARROWS}
    assert leads_on >= set(State) - TERMINAL


@pytest.mark.promise("P-06")
def test_one_page_lists_every_outcome_that_leads_to_a_second_run() -> None:
    page = (DOCS / "guarantees.md").read_text()
    again = {"retried", "released", "snoozed", "stalls", "replays", "generation"}
    assert all(word in page for word in again)


@pytest.mark.promise("P-91")
def test_the_capability_table_is_what_the_backends_declare() -> None:
    assert capabilities() in (DOCS / "capabilities.md").read_text(), "run: python scripts/docs.py"
