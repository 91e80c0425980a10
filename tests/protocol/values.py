"""Values and types that several tests of stored data share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, NamedTuple, TypedDict

import msgspec
from hypothesis import strategies as st

from leasemq.protocol.signature import Signature


class Colour(Enum):
    """An enum of texts."""

    RED = "red"
    BLUE = "blue"


class Size(StrEnum):
    """An enum that is text."""

    SMALL = "s"


@dataclass
class Line:
    """One line of an order."""

    sku: str
    count: int = 1
    tags: list[str] = field(default_factory=list)


class Order(msgspec.Struct):
    """An order that holds others."""

    id: int
    lines: list[Line] = []
    parts: list[Order] = []


class Row(TypedDict, total=False):
    """A dict with known keys."""

    name: str
    age: int


class Pair(NamedTuple):
    """A tuple with names."""

    left: int
    right: str


def signature(function: Callable[..., Any], **options: Any) -> Signature:
    """The signature of a function under the task name `t`."""
    return Signature.of(function, task="t", **options)


def anything(value: Any) -> None:
    """A task of one argument without a type."""


def sent(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the function would be called with after the arguments went through bytes."""
    found = signature(function)
    return found.decode_arguments(found.encode_arguments(args, kwargs))


def arrives(value: Any, annotation: Any = Any) -> Any:
    """What becomes of a value in a parameter of this annotation."""

    def task(value: Any) -> None: ...

    task.__annotations__ = {"value": annotation}
    return sent(task, value)[1]["value"]


def returned(value: Any, annotation: Any = Any) -> Any:
    """What becomes of a result of this return annotation."""

    def task() -> Any: ...

    task.__annotations__ = {"return": annotation}
    found = signature(task)
    return found.decode_result(found.encode_result(value))


def refusal_of(call: Callable[[], object], *expected: type[Exception]) -> Exception | None:
    """The expected error that the call raised, or None; any other error goes through."""
    try:
        call()
    except expected as error:
        return error
    return None


def same(one: object, other: object) -> bool:
    """Equal in value and type at every depth, by a rule of this file's own."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=25,
)
