"""Values of declared types: what is accepted, what it arrives as, what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, NoReturn
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.errors import InvalidSetting, PayloadRejected, PayloadTooLarge, ResultNotSerializable
from tests.protocol.values import (
    PLAIN,
    TEXTS,
    Colour,
    Line,
    Order,
    Pair,
    Row,
    Size,
    arrives,
    returned,
    same,
    signature,
)

OLD_AMSTERDAM = timezone(timedelta(minutes=19, seconds=32))
UserId = NewType("UserId", int)
Short = Annotated[str, msgspec.Meta(max_length=3)]


@dataclass
class Checked:
    """A dataclass with an opinion."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise LookupError(f"{self.n} is below zero")


@dataclass
class Tens:
    """A dataclass that is not restored as it was."""

    n: int

    def __post_init__(self) -> None:
        self.n = self.n // 10 * 10

    __hash__ = object.__hash__


@dataclass
class Distance:
    """A dataclass that loses the sign of zero."""

    metres: float

    def __post_init__(self) -> None:
        self.metres = abs(self.metres)


class Text(str):
    """Not quite a str."""


ROUND_TRIPS: list[tuple[Any, Any]] = [
    (UUID(int=7), UUID),
    (Decimal("1.10"), Decimal),
    (Decimal("1E+400"), Decimal),
    (b"\x00\xff", bytes),
    (date(2026, 2, 28), date),
    (time(23, 59, 59, 999_999), time),
    (timedelta(days=-1, microseconds=1), timedelta),
    (Colour.RED, Colour),
    (Size.SMALL, Size),
    ((1, "x"), tuple[int, str]),
    ((1, 2, 3), tuple[int, ...]),
    ({1, 2}, set[int]),
    (frozenset({"a"}), frozenset[str]),
    ({1: "a", -5: "b"}, dict[int, str]),
    ({UUID(int=1): [Decimal("0.1")]}, dict[UUID, list[Decimal]]),
    (Line("a", 2, ["x"]), Line),
    (Order(1, lines=[Line("a")], parts=[Order(2)]), Order),
    ({"name": "ada", "age": 36}, Row),
    ({}, Row),
    (Pair(1, "x"), Pair),
    ("a", Literal["a", "b"]),
    (5, UserId),
    ("abc", Short),
    (None, str | None),
    (5, int | str),
    ([1, 2], Sequence[int]),
    ({"a": 1}, Mapping[str, int]),
    (1.5, float),
    (-0.0, float),
    ({"a": [1, None, {"b": 2.0}]}, dict[str, Any]),
    ([[1]], list),
    (True, bool),
    (None, None),
]
REFUSED: list[tuple[Any, Any, str]] = [
    ("3", int, "Expected `int`, got `str`"),
    (3, str, "Expected `str`, got `int`"),
    (True, int, "Expected `int`, got `bool`"),
    (1, bool, "Expected `bool`, got `int`"),
    (3.0, int, "Expected `int`, got `float`"),
    ("3", float, "Expected `float`, got `str`"),
    (2**53 + 1, float, "no equal float; declare it as int"),
    (math.nan, float, "nan has no place"),
    (2**63, int, "beyond 64 bits"),
    (2**63, int | None, "beyond 64 bits"),
    (None, str, "Expected `str`, got `null`"),
    ("\ud83d", str, "surrogate"),
    (["\ud83d"], list[str], r"\[0\]: .*surrogate"),
    ({"a": math.inf}, dict[str, float], r"a: inf has no place"),
    (Decimal("NaN"), Decimal, "NaN has no place"),
    (Decimal("-Infinity"), Decimal, "-Infinity has no place"),
    (1, Decimal, "a int would arrive as a Decimal; pass a Decimal"),
    ("2026-01-01", date, "a str would arrive as a date"),
    ("2026-01-01T00:00:00", datetime, "a str would arrive as a datetime"),
    (str(UUID(int=7)), UUID, "a str would arrive as a UUID"),
    (UUID(int=7), str, "a UUID would arrive as a str"),
    ("eHg=", bytes, "a str would arrive as a bytes"),
    ("red", Colour, "a str would arrive as a Colour"),
    (Size.SMALL, str, "a Size would arrive as a str"),
    ((1, 2), list[int], "a tuple would arrive as a list; pass a list"),
    ([1], tuple[int], "a list would arrive as a tuple"),
    ((1, 2), Sequence[int], "a tuple would arrive as a list"),
    ({1}, list[int], "a set would arrive as a list"),
    ([(1, 2)], list[Any], r"\[0\]: a tuple would arrive as a list"),
    ({1: "a"}, dict, r"\[1\]: this key would be lost or changed"),
    ({"a": {1: "a"}}, dict[str, Any], r"a\[1\]: this key would be lost"),
    ({Tens(5)}, set[Tens], "items of the set would be lost or changed"),
    ({Text("x")}, set[str], "type .*Text is unsupported"),
    ({(1, 2): "a"}, dict[tuple[int, int], str], r"\[<tuple>\]: "),
    ({True}, set[int], "Expected `int`, got `bool`"),
    ({"name": "ada", "nick": "a"}, Row, "this key would be lost|entries would arrive as"),
    ({"sku": "a"}, Line, "a dict would arrive as a Line; pass a Line"),
    (Line("a", "2"), Line, r"count: Expected `int`, got `str`"),  # type: ignore[arg-type]  # the mistake
    (Order(1, lines=[Line("a", tags=[5])]), Order, r"lines\[0\]\.tags\[0\]: Expected `str`, got `int`"),  # type: ignore[list-item]  # the mistake
    (Order(2**70), Order, r"id: .*beyond 64 bits"),
    (object(), Checked, "object is unsupported"),
    ("abcd", Short, "length <= 3"),
    ("c", Literal["a"], "Invalid enum value"),
    (object(), list[int], "object is unsupported"),
    (datetime(1800, 1, 1, tzinfo=OLD_AMSTERDAM), datetime, "not whole minutes; pass"),
]


def ids(cases: Sequence[tuple[Any, ...]]) -> list[str]:
    """A short, stable id for each case."""
    return [f"{number}-{type(case[0]).__name__}" for number, case in enumerate(cases)]


@pytest.mark.promise("P-100", "A-39", "E-1", "E-56")
@pytest.mark.parametrize(("value", "annotation"), ROUND_TRIPS, ids=ids(ROUND_TRIPS))
def test_a_value_of_a_declared_type_arrives_as_that_type(value: Any, annotation: Any) -> None:
    for arrived in (arrives(value, annotation), returned(value, annotation)):
        assert arrived == value
        assert type(arrived) is type(value)


@pytest.mark.promise("P-100", "E-1")
@pytest.mark.parametrize(("value", "annotation", "reason"), REFUSED, ids=ids(REFUSED))
def test_a_value_of_another_type_is_refused_at_the_caller(value: Any, annotation: Any, reason: str) -> None:
    with pytest.raises(PayloadRejected, match=f"task t, argument value.*{reason}"):
        arrives(value, annotation)
    with pytest.raises(ResultNotSerializable, match=f"the result of task t.*{reason}"):
        returned(value, annotation)


@pytest.mark.promise("P-100")
def test_a_whole_number_arrives_as_the_declared_float() -> None:
    assert same(arrives(3, float), 3.0)
    assert same(arrives([1, 2.5], list[float]), [1.0, 2.5])
    assert same(arrives(2**53, float), float(2**53))
    assert same(arrives(3, int | float), 3)


@pytest.mark.promise("P-100", "B37")
@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 1, 9, 0, 0, 123_456, tzinfo=UTC),
        datetime(2026, 1, 1, 9, tzinfo=ZoneInfo("Asia/Kathmandu")),
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=0),
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(-timedelta(hours=12))),
    ],
)
def test_an_aware_datetime_arrives_as_the_same_instant_still_aware(moment: datetime) -> None:
    arrived = arrives(moment, datetime)

    assert arrived.utcoffset() == moment.utcoffset()
    assert arrived.replace(tzinfo=None) == moment.replace(tzinfo=None)


@pytest.mark.promise("P-100", "B37")
def test_a_naive_datetime_arrives_naive() -> None:
    moment = datetime(2026, 1, 1, 9, 0, 0, 5)  # noqa: DTZ001  # naive on purpose

    assert arrives(moment, datetime) == moment
    assert arrives(moment, datetime).tzinfo is None


@pytest.mark.promise("P-100", "E-56")
@given(
    st.builds(
        Order,
        st.integers(-(2**63), 2**63 - 1),
        st.lists(st.builds(Line, TEXTS, st.integers(0, 9), st.lists(TEXTS, max_size=3)), max_size=3),
        st.lists(st.builds(Order, st.integers(0, 9)), max_size=2),
    )
)
def test_any_struct_arrives_equal(order: Order) -> None:
    assert arrives(order, Order) == order


@pytest.mark.promise("P-100")
@given(
    st.tuples(
        st.datetimes(timezones=st.just(UTC)), st.uuids(), st.binary(), st.timedeltas(), st.times(), st.dates()
    ),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dictionaries(st.integers(-(2**63), 2**63 - 1), PLAIN, max_size=4),
)
def test_any_typed_value_arrives_equal(
    scalars: tuple[Any, ...], number: Decimal, mapping: dict[int, Any]
) -> None:
    assert arrives(scalars, tuple[datetime, UUID, bytes, timedelta, time, date]) == scalars
    assert arrives(number, Decimal).as_tuple() == number.as_tuple()
    assert same(arrives(mapping, dict[int, Any]), mapping)


@pytest.mark.promise("P-100")
def test_a_declared_types_own_refusal_is_the_callers() -> None:
    bad = Checked(1)
    bad.n = -1

    with pytest.raises(PayloadRejected, match="its own code raised LookupError"):
        arrives(bad, Checked)


@pytest.mark.promise("P-100")
def test_what_a_declared_type_would_change_is_refused() -> None:
    value = Tens(10)
    value.n = 15

    with pytest.raises(PayloadRejected, match=r"value\.n: the value would arrive changed"):
        arrives(value, Tens)


@pytest.mark.promise("P-100", "B33")
def test_a_lost_sign_of_zero_is_refused() -> None:
    value = Distance(0.0)
    value.metres = -0.0

    with pytest.raises(PayloadRejected, match=r"value\.metres: the value would arrive changed"):
        arrives(value, Distance)


@pytest.mark.promise("P-101", "E-57")
def test_bytes_over_the_limit_are_refused_before_they_are_encoded() -> None:
    with pytest.raises(PayloadTooLarge, match=r"argument value: takes more than the limit of 1048576 bytes"):
        arrives(b"x" * 2_000_000, bytes)


@pytest.mark.promise("P-103")
def test_a_typed_value_is_at_most_64_deep_too() -> None:
    order = Order(0)
    for number in range(40):  # each order adds itself and its list
        order = Order(number, parts=[order])

    with pytest.raises(PayloadRejected, match="nested more than 64 deep"):
        arrives(order, Order)


@pytest.mark.promise("P-100", "E-4")
@pytest.mark.parametrize(
    "annotation",
    [Path, Iterable[int], complex, Exception, str | datetime, dict[str, Path], "Unknown"],
    ids=str,
)
def test_an_annotation_that_cannot_be_stored_is_refused_when_the_task_is_declared(annotation: Any) -> None:
    def task(value: Any) -> None: ...

    task.__annotations__ = {"value": annotation}

    with pytest.raises(InvalidSetting, match="task t"):
        signature(task)


@pytest.mark.promise("P-100")
def test_a_task_that_never_returns_may_be_declared() -> None:
    def task() -> NoReturn:
        raise ValueError

    assert signature(task).encode_result(None)
