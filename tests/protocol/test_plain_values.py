"""Values without a declared type: equal in value and type on arrival, or refused at the caller."""

from __future__ import annotations

import io
import math
from collections import OrderedDict, deque
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.errors import PayloadRejected, PayloadTooLarge, ResultNotSerializable
from leasemq.protocol.envelope import decode_plain, encode_plain
from tests.protocol.values import PLAIN, Line, Pair, Size, anything, arrives, returned, same, signature


class Text(str):
    """Not quite a str."""


class Number(IntEnum):
    """Not quite an int."""

    ONE = 1


def nested(depth: int) -> Any:
    """A list in a list, this many lists in all."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def holding_itself() -> Any:
    """A list that contains itself."""
    value: list[Any] = []
    value.append(value)
    return value


def doubling() -> Any:
    """A small object whose JSON would have 2**60 leaves."""
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    return value


ROUND_TRIPS = [
    [[], {}, [[]], 2**60, 1234567890123456, 0.1234567890123456789, None, "é", {"a": []}],
    [9007199254740993, 130775545883395173, 1.0, 0.30000000000000004, -0.0, [], {}, None],
    {"$set": 1, "a.b": 2, "__proto__": 3, "": 4, "a\x00b": 5},
    [2**63 - 1, -(2**63), 5e-324, 1.7976931348623157e308, 1e16, True, False, 0, ""],
    "a\x00b",
    "\\u0000",
    "\U0001f4a5",
    ["caf\u00e9", "cafe\u0301"],
    "\u2028\u202e\ufffe\ufeff",
    nested(64),
]
REFUSED: dict[str, tuple[Any, str]] = {
    "10**30": (10**30, "beyond 64 bits"),
    "2**63": ([2**63], r"\[0\]: .*beyond 64 bits"),
    "-2**63-1": (-(2**63) - 1, "beyond 64 bits"),
    "4,000 digits": (10**4_000, "13288 bits is beyond 64 bits"),
    "nan": (math.nan, "nan has no place in JSON"),
    "inf inside": ({"a": [1, math.inf]}, r"a\[1\]: inf has no place"),
    "-inf": (-math.inf, "-inf has no place"),
    "surrogate": ("\ud83d", r"surrogate, \\ud83d, at character 0"),
    "surrogate inside": (["ok", "é\udca5"], r"\[1\]: .*surrogate, \\udca5, at character 1"),
    "surrogate key": ({"\ud83d": 1}, r'\["\\ud83d"\]: .*surrogate'),
    "object": (object(), "a object is not plain data"),
    "lambda": (lambda: 1, "a function is not plain data"),
    "open file": (io.StringIO(), "a StringIO is not plain data"),
    "class": (int, "a type is not plain data"),
    "exception": ([ValueError()], r"\[0\]: a ValueError is not plain data"),
    "complex": (1j, "a complex is not plain data"),
    "deque": (deque([1]), "a deque is not plain data"),
    "set": ({"a": {1}}, r"a: a set would arrive as a list; .*annotate it, as in set\[str\]"),
    "frozenset": (frozenset({1}), "a frozenset would arrive as a list"),
    "tuple": ([(1, 2)], r"\[0\]: a tuple would arrive as a list; pass a list, or annotate it"),
    "named tuple": (Pair(1, "x"), "a tuple would arrive as a list"),
    "int key": ({1: 2}, r"\[1\]: a key of type int would arrive as text"),
    "None key": ({None: 2}, r"\[<NoneType>\]: a key of type NoneType"),
    "str subclass": (Text("x"), r"a Text would arrive as a plain str; pass str\(value\)"),
    "enum": (Size.SMALL, "a Size would arrive as other data; annotate it as Size"),
    "int enum": (Number.ONE, "annotate it as Number"),
    "dict subclass": (OrderedDict(a=1), "a OrderedDict would arrive as a plain dict"),
    "bytes": (b"x", "annotate it as bytes"),
    "datetime": (datetime(2026, 1, 1, tzinfo=UTC), "annotate it as datetime"),
    "UUID": (UUID(int=1), "annotate it as UUID"),
    "Decimal": (Decimal("1.5"), "annotate it as Decimal"),
    "dataclass": (Line("x"), "annotate it as Line"),
    "65 deep": (nested(65), r"(\[0\]){64}: nested more than 64 deep"),
    "2,000 deep": (nested(2_000), "nested more than 64 deep"),
    "itself": (holding_itself(), r"\(or it contains itself\)"),
}
refused = pytest.mark.parametrize(("value", "reason"), REFUSED.values(), ids=REFUSED.keys())


@pytest.mark.promise("P-100", "A-2", "B31", "B33", "E-56")
@pytest.mark.parametrize("value", ROUND_TRIPS, ids=range(len(ROUND_TRIPS)))
def test_plain_data_arrives_equal_in_value_and_type(value: Any) -> None:
    assert same(arrives(value), value)
    assert same(returned(value), value)
    assert same(decode_plain(encode_plain(value, what="checkpoint"), what="checkpoint"), value)


@pytest.mark.promise("P-100", "A-2", "B33")
@given(PLAIN)
def test_any_plain_data_arrives_equal_in_value_and_type(value: Any) -> None:
    assert same(arrives(value), value)
    assert same(returned(value), value)
    assert same(arrives([value], list[Any]), [value])


@pytest.mark.promise("P-100", "B31", "B33", "E-56")
@refused
def test_an_argument_that_would_not_arrive_as_given_is_refused_with_its_path(value: Any, reason: str) -> None:
    with pytest.raises(PayloadRejected, match=f"task t, argument value.*{reason}") as raised:
        arrives(value)

    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600


@pytest.mark.promise("P-26", "P-100", "B33")
@refused
def test_a_result_that_would_not_arrive_as_given_is_refused_with_its_path(value: Any, reason: str) -> None:
    with pytest.raises(ResultNotSerializable, match=f"the result.*{reason}"):
        returned(value)


@pytest.mark.promise("P-63", "P-100", "E-57")
@refused
def test_a_checkpoint_follows_the_same_rules(value: Any, reason: str) -> None:
    with pytest.raises(PayloadRejected, match=f"checkpoint.*{reason}"):
        encode_plain(value, what="checkpoint")


@pytest.mark.promise("P-101", "P-103")
@pytest.mark.parametrize("annotation", [Any, list, list[Any]], ids=str)
def test_a_value_that_would_unfold_without_end_is_refused_before_it_is_encoded(annotation: Any) -> None:
    with pytest.raises(PayloadTooLarge, match="takes more than the limit of 1048576 bytes"):
        arrives(doubling(), annotation)


@pytest.mark.promise("P-101", "E-57")
def test_a_checkpoint_at_the_limit_is_accepted_and_over_it_refused() -> None:
    room = 1_000 - len(encode_plain("", what="checkpoint"))

    assert len(encode_plain("x" * room, 1_000, what="checkpoint")) == 1_000
    for value in ("x" * (room + 1), "x" * 1_001, "\x00" * room):
        with pytest.raises(PayloadTooLarge, match=r"^checkpoint.*1000"):
            encode_plain(value, 1_000, what="checkpoint")


@pytest.mark.promise("P-101")
def test_a_text_repeated_past_the_limit_is_refused_before_it_is_encoded() -> None:
    chunk = "x" * 500_000

    with pytest.raises(PayloadTooLarge, match=r"argument value\[1\]: takes more than"):
        signature(anything).encode_arguments(([chunk] * 100_000,), {})


@pytest.mark.promise("P-100")
@given(
    st.recursive(
        st.sampled_from([1, "x", math.nan, 2**64, (1,), b"b", "\udfff", Text("t")]), st.lists, max_leaves=9
    )
)
def test_a_value_arrives_equal_or_is_refused_and_nothing_else(value: Any) -> None:
    try:
        arrived = arrives(value)
    except PayloadRejected:
        return
    assert same(arrived, value)


@pytest.mark.promise("P-100")
def test_an_object_is_any_plain_data() -> None:
    def declared(value: object, more: list[object]) -> object:
        return value

    reader = signature(declared)

    assert reader.decode_arguments(reader.encode_arguments(({"a": 1}, [1.0, None]), {})) == (
        (),
        {"value": {"a": 1}, "more": [1.0, None]},
    )
    assert reader.decode_result(reader.encode_result(["x"])) == ["x"]
    with pytest.raises(PayloadRejected, match="argument more"):
        reader.encode_arguments((1, [object()]), {})
