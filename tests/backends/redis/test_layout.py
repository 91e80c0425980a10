"""How values lie in Redis: every word has a number that never changes, and names are kept short."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.backends.redis import layout
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import (
    NoteKind,
    OnParentFailure,
    Outcome,
    Ref,
    State,
    UniqueMode,
    UniqueUntil,
)


@pytest.mark.promise("P-85")
@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (layout.STATES, State),
        (layout.OUTCOMES, Outcome),
        (layout.MODES, UniqueMode),
        (layout.ENDS, UniqueUntil),
        (layout.POLICIES, OnParentFailure),
        (layout.NOTES, NoteKind),
        (layout.EVENTS, [*EventKind, NoteKind.LOG]),
    ],
)
def test_every_word_has_one_number(listed: tuple[object, ...], words: Iterable[object]) -> None:
    assert len(listed) == len(set(listed))
    assert set(listed) == set(words)


@pytest.mark.promise("P-42")
@given(st.one_of(st.uuids().map(str), st.uuids().map(lambda made: made.hex), st.text(min_size=1)))
def test_a_name_reads_back_as_it_was(name: str) -> None:
    if any(character < " " for character in name) or any("\ud800" <= one <= "\udfff" for one in name):
        return  # no name has control characters or halves of characters
    assert layout.long(layout.short(name)) == name


@pytest.mark.promise("P-42")
def test_a_uuid_in_another_spelling_is_another_name() -> None:
    made = uuid.UUID(int=0xABCDEF)
    spellings = [str(made), str(made).upper(), made.hex, made.hex.upper(), f"{{{made}}}", made.urn]

    assert len({layout.short(spelling) for spelling in spellings}) == len(spellings)
    assert len(layout.short(str(made))) == len(layout.short(made.hex)) == 17


@pytest.mark.promise("P-42")
@pytest.mark.parametrize("queue", ["here", "elsewhere", "with:colon{}"])
def test_a_life_of_an_id_reads_back_as_it_was(queue: str) -> None:
    ref = Ref(queue=queue, id="j", generation=7)

    assert layout.ref_of(layout.ref_name(ref, "here"), "here") == ref
