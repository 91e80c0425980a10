"""Sizes as people write them: bytes, or a number with a unit."""

from __future__ import annotations

import re

from leasemq.errors import InvalidSetting
from leasemq.protocol.names import shown_value

LEAST_BYTES = 1 << 20  # a smaller number was meant in another unit
MOST_BYTES = 1 << 50
_UNITS = {
    "KB": 1_000,
    "MB": 1_000**2,
    "GB": 1_000**3,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}  # of the SI, and of IEC 80000-13
_SPELLED = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMG]i?B)\s*", re.ASCII)


def size_to_bytes(value: object, field: str) -> int:
    """Answer a size in bytes: a whole number of them, or a text such as "512MiB" or "1.5 GB".

    Raises: InvalidSetting, naming the field and the value.
    """
    size_bytes: int | None = None
    if type(value) is int:
        size_bytes = value
    elif isinstance(value, str) and (parts := _SPELLED.fullmatch(value)):
        size_bytes = round(float(parts[1]) * _UNITS[parts[2]])
    if size_bytes is None:
        raise InvalidSetting(
            f"{field}={shown_value(value)} is neither a whole number of bytes nor a text such as '512MiB'"
        )
    if not LEAST_BYTES <= size_bytes <= MOST_BYTES:
        raise InvalidSetting(
            f"{field}={shown_value(value)} is {size_bytes} bytes, not 1 MiB to 1 PiB; say it with a unit, "
            "such as '512MiB'"
        )
    return size_bytes
