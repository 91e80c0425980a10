"""Arguments read in one pass are those that a closer look finds, and whatever is odd gets the closer look."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.errors import LeaseMQError
from leasemq.protocol.signature import Signature
from tests.protocol.values import Line, signature

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
ENVELOPES = st.fixed_dictionaries(
    {"v": st.just(1) | st.integers(0, 3), "schema": st.just("0" * 12)},
    optional={
        "kwargs": st.dictionaries(st.sampled_from(["a", "b", "line", "other"]), JSON, max_size=3),
        "args": st.lists(JSON, max_size=2),
        "secret": st.just(["a"]),
        "surplus": JSON,
    },
)


def typed(a: int, b: str = "b", line: Line | None = None) -> None:
    """Takes a number, and two things that can be left out."""


def flat(a: int | None, b: str = "b", line: bool = False) -> None:
    """Takes nothing that has a depth."""


def untyped(a, b=1):  # type: ignore[no-untyped-def]  # that is what it is there for
    """Takes anything."""


def told(reader: Signature, payload: bytes) -> Any:
    """Answer what is read, or why it cannot be."""
    try:
        return reader.decode_arguments(payload)
    except LeaseMQError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.promise("P-28")
@pytest.mark.parametrize("function", [typed, flat, untyped])
@given(ENVELOPES)
def test_one_pass_and_a_closer_look_read_the_same(function: Any, envelope: dict[str, Any]) -> None:
    reader = signature(function)
    assert reader.one_pass is not None
    payload = json.dumps(envelope).encode()  # also of numbers that nothing here would write

    assert told(reader, payload) == told(replace(reader, one_pass=None), payload)


@pytest.mark.promise("P-28")
def test_what_was_not_given_is_left_to_the_function() -> None:
    reader = signature(typed)
    payload = reader.encode_arguments((5,), {})

    assert reader.one_pass is not None
    assert reader.one_pass.read(payload) == {"a": 5}
    assert reader.decode_arguments(payload) == ((), {"a": 5})


@pytest.mark.promise("P-28")
def test_a_newer_version_gets_the_closer_look() -> None:
    reader = signature(typed)
    payload = reader.encode_arguments((5,), {}).replace(b'"v":1', b'"v":2')

    assert reader.one_pass is not None
    assert reader.one_pass.read(payload) is None


@pytest.mark.promise("P-28")
@pytest.mark.parametrize("value", ["1" * 20, "[" * 500 + "]" * 500])
def test_what_no_reader_may_meet_is_not_read_in_one_pass(value: str) -> None:
    reader = signature(untyped)

    assert reader.one_pass is not None
    assert reader.one_pass.read(f'{{"v":1,"schema":"","kwargs":{{"a":{value}}}}}'.encode()) is None


@pytest.mark.promise("P-28")
def test_a_parameter_may_begin_with_two_underscores() -> None:
    def old_style(__number: int, __more: str = "") -> None:
        """Says so as code did before the slash."""

    reader = signature(old_style)

    assert reader.decode_arguments(reader.encode_arguments((5,), {})) == ((), {"__number": 5})
