"""Parameters as the server's binary form, by the type that the function declares.

A type guessed from the value (a small int is an int2) would make a prepared statement per guess, and the
driver's arrays go element by element. Form: https://www.postgresql.org/docs/current/protocol-overview.html
and `array_send` in the server's arrayfuncs.c.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.abc import AdaptContext, DumperKey
from psycopg.adapt import Dumper, PyFormat
from psycopg.pq import Format

Encode = Callable[[Any], bytes]

_NULL = b"\xff\xff\xff\xff"  # the length of an element that is NULL
_LENGTH = struct.Struct(">i")
_ARRAY = struct.Struct(">iiIii")  # dimensions, has NULLs, element type, length, lower bound
_EMPTY = struct.Struct(">iiI")
_BIGINT = struct.Struct(">q")
_PLAIN_BIGINTS_FROM = 8  # elements from which one call for all is worth its preparation


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value in its binary form; None is NULL."""

    oid: int
    data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Type:
    oid: int
    array_oid: int
    encode: Encode


_TYPES: Mapping[str, _Type] = {
    "bigint": _Type(oid=20, array_oid=1016, encode=_BIGINT.pack),
    "integer": _Type(oid=23, array_oid=1007, encode=struct.Struct(">i").pack),
    "smallint": _Type(oid=21, array_oid=1005, encode=struct.Struct(">h").pack),
    "boolean": _Type(oid=16, array_oid=1000, encode=struct.Struct(">?").pack),
    "double precision": _Type(oid=701, array_oid=1022, encode=struct.Struct(">d").pack),
    "text": _Type(oid=25, array_oid=1009, encode=str.encode),
    "bytea": _Type(oid=17, array_oid=1001, encode=bytes),
}


def encoded(types: Sequence[str], values: Iterable[object]) -> list[Parameter]:
    """Answer the parameters of a call. Raises: ValueError if their number differs."""
    return [_parameter(type_, value) for type_, value in zip(types, values, strict=True)]


def _parameter(type_: str, value: Any) -> Parameter:
    if not type_.endswith("[]"):
        known = _TYPES[type_]
        return Parameter(known.oid, None if value is None else known.encode(value))
    element = _TYPES[type_.removesuffix("[]")]
    return Parameter(element.array_oid, None if value is None else _array(element, value))


def _array(element: _Type, values: Sequence[Any]) -> bytes:
    if not values:
        return _EMPTY.pack(0, 0, element.oid)
    if element.oid == _TYPES["bigint"].oid and len(values) >= _PLAIN_BIGINTS_FROM and None not in values:
        alternating = [8] * (2 * len(values))
        alternating[1::2] = values
        head = _ARRAY.pack(1, 0, element.oid, len(values), 1)
        return head + struct.pack(">" + "iq" * len(values), *alternating)
    parts: list[bytes] = [b""]
    has_nulls = 0
    for value in values:
        if value is None:
            has_nulls = 1
            parts.append(_NULL)
            continue
        data = element.encode(value)
        parts.append(_LENGTH.pack(len(data)))
        parts.append(data)
    parts[0] = _ARRAY.pack(1, has_nulls, element.oid, len(values), 1)
    return b"".join(parts)


class ParameterDumper(Dumper):
    """Hands a `Parameter` to the driver as it is. Registered on our own connections only."""

    format = Format.BINARY

    def __init__(self, cls: type, context: AdaptContext | None = None, oid: int = 0) -> None:
        super().__init__(cls, context)
        self.oid = oid

    def get_key(self, obj: Parameter, format: PyFormat) -> DumperKey:
        """See `psycopg.adapt.Dumper.get_key`: one dumper per type."""
        return (self.cls, obj.oid)  # type: ignore[return-value]  # any hashable will do

    def upgrade(self, obj: Parameter, format: PyFormat) -> Dumper:
        """See `psycopg.adapt.Dumper.upgrade`."""
        return ParameterDumper(self.cls, None, obj.oid)

    def dump(self, obj: Parameter) -> bytes | None:
        """See `psycopg.adapt.Dumper.dump`."""
        return obj.data
