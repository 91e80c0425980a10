"""Which values are plain data, and where in a value something is not.

Plain data is str, int, float, bool, None, list, and dict with str keys; exact types, finite numbers,
whole numbers of 64 bits, text without surrogates, nested at most 64 deep. The limits are the same on
every backend, because a value that one of them could not hold would make the backend part of the
program: 64 bits is what BSON, SQL and most JSON readers have, and NaN, infinities and lone surrogates
have no place in JSON and UTF-8 (RFC 8259, sections 6 and 8). NUL is ordinary text and comes back.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID

import msgspec

from leasemq.protocol.names import shown

MAX_NESTING = 64
INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN_CHARACTERS = 40
_SURROGATE = re.compile("[\ud800-\udfff]")
_TYPED_ONLY = (bytes, bytearray, date, time, timedelta, UUID, Decimal, Enum, msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a value cannot be stored, and the path to the place: `` (the value itself), `[2].name`."""

    reason: str
    path: str = ""
    too_large: bool = False

    def inside(self, step: str) -> Fault:
        """Answer the same fault, seen from the container that holds the value."""
        return dataclasses.replace(self, path=f"{step}{self.path}")


def plain_fault(value: object, limit_bytes: int) -> Fault | None:
    """Answer why the value is not plain data, or None: then it comes back equal in value and type.

    A value whose encoding is certain to be over the limit is refused before anything is encoded, so a
    list that holds itself many times over costs no more than the limit.
    """
    return _Walk(limit_bytes, typed=False).fault(value, 0)


def typed_fault(value: object, limit_bytes: int) -> Fault | None:
    """Answer what no annotation could make storable: bounds of numbers, text, depth and size."""
    return _Walk(limit_bytes, typed=True).fault(value, 0)


def float_fault(number: float) -> Fault | None:
    """Answer why a float is refused."""
    return (
        None if math.isfinite(number) else Fault(reason=f"{number} has no place in JSON; pass None or text")
    )


def int_fault(number: int) -> Fault | None:
    """Answer why an int is refused."""
    if INT_MIN <= number <= INT_MAX:
        return None
    return Fault(reason=f"an int of {number.bit_length()} bits is beyond 64 bits (signed); pass it as text")


def text_fault(text: str) -> Fault | None:
    """Answer why a text is refused."""
    if text.isascii() or not (found := _SURROGATE.search(text)):
        return None
    return Fault(
        reason=f"the text has a lone surrogate, {shown(found.group())}, at character {found.start()}"
    )


def step_to(key: object) -> str:
    """Answer the path from a container to one of its values."""
    if isinstance(key, int) and not isinstance(key, bool):
        return f"[{key}]" if INT_MIN <= key <= INT_MAX else "[…]"
    if not isinstance(key, str):
        return f"[<{type(key).__name__}>]"
    if _IDENTIFIER.fullmatch(key) and len(key) <= _SHOWN_CHARACTERS:
        return f".{key}"
    return f'["{shown(key, _SHOWN_CHARACTERS)}"]'


def fields_of(value: object) -> Iterator[tuple[str, object]] | None:
    """Answer the fields of a Struct or dataclass instance; None for anything else."""
    if isinstance(value, msgspec.Struct):
        names: Iterable[str] = value.__struct_fields__
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        return None
    return ((name, getattr(value, name)) for name in names)


class _Walk:
    """One look through one value. Mutable: owned by the call that made it, and dropped with it."""

    __slots__ = ("limit_bytes", "room_bytes", "typed")

    def __init__(self, limit_bytes: int, *, typed: bool) -> None:
        self.limit_bytes = limit_bytes
        self.room_bytes = limit_bytes  # minus the least that what was seen can take
        self.typed = typed

    def fault(self, value: object, depth: int) -> Fault | None:
        kind = type(value)
        if kind is str:
            return self._takes(len(value)) or text_fault(value)  # type: ignore[arg-type]  # exact type was compared
        if kind is bool or value is None:
            return None
        if kind is int:
            return int_fault(value)  # type: ignore[arg-type]  # exact type was compared
        if kind is float:
            return float_fault(value)  # type: ignore[arg-type]  # exact type was compared
        if kind is list:
            return self._in_items(value, depth)  # type: ignore[arg-type]  # exact type was compared
        if kind is dict:
            return self._in_dict(value, depth)  # type: ignore[arg-type]  # exact type was compared
        return self._in_typed(value, depth) if self.typed else Fault(reason=_why_not_plain(value))

    def _takes(self, size_bytes: int) -> Fault | None:
        self.room_bytes -= size_bytes
        if self.room_bytes >= 0:
            return None
        return Fault(reason=f"takes more than the limit of {self.limit_bytes} bytes", too_large=True)

    def _enters(self, children: int, depth: int) -> Fault | None:
        if depth >= MAX_NESTING:
            return Fault(reason=f"nested more than {MAX_NESTING} deep (or it contains itself)")
        return self._takes(2 * children + 1)

    def _in_items(self, items: Iterable[object], depth: int) -> Fault | None:
        items = list(items) if not isinstance(items, list) else items
        if fault := self._enters(len(items), depth):
            return fault
        for position, item in enumerate(items):
            if fault := self.fault(item, depth + 1):
                return fault.inside(f"[{position}]")
        return None

    def _in_dict(self, mapping: dict[object, object], depth: int) -> Fault | None:
        if fault := self._enters(2 * len(mapping), depth):
            return fault
        for key, item in mapping.items():
            if fault := self._key_fault(key) or self.fault(item, depth + 1):
                return fault.inside(step_to(key))
        return None

    def _key_fault(self, key: object) -> Fault | None:
        if type(key) is not str and not self.typed:
            return Fault(
                reason=f"a key of type {type(key).__name__} would arrive as text; "
                "use str keys, or annotate it, as in dict[int, str]"
            )
        return self.fault(key, MAX_NESTING)

    def _in_typed(self, value: object, depth: int) -> Fault | None:
        if isinstance(value, Decimal):
            return None if value.is_finite() else Fault(reason=f"{value} has no place in stored data")
        if isinstance(value, bytes | bytearray):
            return self._takes(len(value))
        if isinstance(value, tuple | set | frozenset):
            return self._in_items(value, depth)
        if isinstance(value, dict):
            return self._in_dict(value, depth)
        if (fields := fields_of(value)) is None:
            return None
        if fault := self._enters(0, depth):
            return fault
        for name, field in fields:
            if fault := self.fault(field, depth + 1):
                return fault.inside(step_to(name))
        return None


def _why_not_plain(value: object) -> str:
    name = type(value).__name__
    if isinstance(value, _TYPED_ONLY) or fields_of(value) is not None:
        return f"a {name} would arrive as other data; annotate it as {name}, so that it comes back as one"
    if isinstance(value, tuple):
        return "a tuple would arrive as a list; pass a list, or annotate it, as in tuple[int, ...]"
    if isinstance(value, set | frozenset):
        return f"a {name} would arrive as a list; pass a list, or annotate it, as in {name}[str]"
    for plain in (str, int, float, list, dict):
        if isinstance(value, plain):
            return f"a {name} would arrive as a plain {plain.__name__}; pass {plain.__name__}(value)"
    return (
        f"a {name} is not plain data; pass str, int, float, bool, None, list or dict, or an id to find it by"
    )
