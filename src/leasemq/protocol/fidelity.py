"""Whether a value that went through bytes arrives as what was given: equal in value and in type.

Two differences are allowed. A whole number given where a float is declared arrives as that float, if
the float is equal to it. An aware datetime keeps its instant and its offset, not its zone's name.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from itertools import count
from typing import cast

from leasemq.protocol.plain import Fault, fields_of, step_to


def difference(given: object, arrived: object) -> Fault | None:
    """Answer where and how the two differ, or None."""
    kind = type(given)
    if kind is not type(arrived):
        return _type_difference(given, arrived)
    if isinstance(given, float):
        return _unless(given == arrived and math.copysign(1, given) == math.copysign(1, arrived))
    if isinstance(given, str | int | Enum) or given is None:
        return _unless(given == arrived)
    if isinstance(given, dict):
        return _mapping_difference(given, cast("Mapping[object, object]", arrived))
    if isinstance(given, list | tuple):
        return _sequence_difference(given, cast("Sequence[object]", arrived))
    if isinstance(given, set | frozenset):
        return _set_difference(given, cast("frozenset[object]", arrived))
    if (fields := fields_of(given)) is not None:
        return _mapping_difference(dict(fields), dict(fields_of(arrived) or ()))
    return _scalar_difference(given, arrived)


def _type_difference(given: object, arrived: object) -> Fault | None:
    if type(given) is int and type(arrived) is float and given == arrived:
        return None
    wanted, got = type(arrived).__name__, type(given).__name__
    if type(given) is int and type(arrived) is float:
        return Fault(reason="the int has no equal float; declare it as int, or pass the float that you mean")
    return Fault(reason=f"a {got} would arrive as a {wanted}; pass a {wanted}, or declare it as {got}")


def _mapping_difference(given: Mapping[object, object], arrived: Mapping[object, object]) -> Fault | None:
    for (key, value), (arrived_key, arrived_value) in zip(given.items(), arrived.items(), strict=False):
        if difference(key, arrived_key) is not None:
            return Fault(
                reason="this key would be lost or changed on the way; declare its type", path=step_to(key)
            )
        if fault := difference(value, arrived_value):
            return fault.inside(step_to(key))
    return _unless(len(given) == len(arrived), f"{len(given)} entries would arrive as {len(arrived)}")


def _sequence_difference(given: Sequence[object], arrived: Sequence[object]) -> Fault | None:
    for position, value, arrived_value in zip(count(), given, arrived, strict=False):
        if fault := difference(value, arrived_value):
            return fault.inside(step_to(position))
    return _unless(len(given) == len(arrived), f"{len(given)} items would arrive as {len(arrived)}")


def _set_difference(given: set[object] | frozenset[object], arrived: frozenset[object]) -> Fault | None:
    if given != arrived:
        return Fault(reason="items of the set would be lost or changed on the way")
    same = {item: item for item in arrived}
    for item in given:
        if fault := difference(item, same[item]):
            return dataclasses.replace(fault, path="")
    return None


def _scalar_difference(given: object, arrived: object) -> Fault | None:
    if isinstance(given, datetime):
        return _datetime_difference(given, cast("datetime", arrived))
    if isinstance(given, Decimal):
        return _unless(given.as_tuple() == cast("Decimal", arrived).as_tuple())
    return _unless(bool(given == arrived))


def _datetime_difference(given: datetime, arrived: datetime) -> Fault | None:
    # Not ==, which is False between zones in the hour that a clock change repeats (PEP 495).
    if given.replace(tzinfo=None) != arrived.replace(tzinfo=None):
        return Fault(reason="the datetime would arrive changed")
    if given.utcoffset() == arrived.utcoffset():
        return None
    return Fault(reason=f"offset {given.utcoffset()} is not whole minutes; pass value.astimezone(UTC)")


def _unless(is_same: bool, reason: str = "the value would arrive changed") -> Fault | None:
    return None if is_same else Fault(reason=reason)
