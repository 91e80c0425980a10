"""MessagePack as scripts are given it: its strings are bytes, whatever they are."""

from __future__ import annotations

from leasemq.backends.redis.arguments import item, word

_FIXED = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_SIZES = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4}


def unpacked(blob: bytes) -> object:
    """Answer the value that a blob begins with: numbers, bytes, lists, and what msgpack has names for."""
    return _at(blob, 0)[0]


def packed(value: object) -> bytes:
    """Answer a value as scripts can take it."""
    match value:
        case bytes():
            return bytes(word(value))
        case list():
            inner = [packed(each) for each in value]
            head = bytes((0xDD,)) + len(inner).to_bytes(4)
            return head + b"".join(inner)
        case _:
            return bytes(item(value))[1:]  # without the list of one that it stands in


def _at(blob: bytes, at: int) -> tuple[object, int]:
    kind = blob[at]
    if kind in _FIXED:
        return _FIXED[kind], at + 1
    if kind < 0x80 or kind >= 0xE0:
        return (kind if kind < 0x80 else kind - 256), at + 1
    if kind in _NUMBERS:
        end = at + 1 + _NUMBERS[kind]
        return int.from_bytes(blob[at + 1 : end], signed=kind >= 0xD0), end
    if 0x90 <= kind < 0xA0 or kind in (0xDC, 0xDD):
        return _list(blob, *_sized(blob, at, kind & 0x0F))
    if 0xA0 <= kind < 0xC0 or kind in _SIZES:
        size, start = _sized(blob, at, kind & 0x1F)
        return blob[start : start + size], start + size
    raise ValueError(f"a blob has {kind:#x} at {at}")


def _sized(blob: bytes, at: int, small: int) -> tuple[int, int]:
    """The size of a text or list, and where its content begins."""
    width = _SIZES.get(blob[at])
    if width is None:
        return small, at + 1
    return int.from_bytes(blob[at + 1 : at + 1 + width]), at + 1 + width


def _list(blob: bytes, size: int, at: int) -> tuple[list[object], int]:
    values = []
    for _ in range(size):
        value, at = _at(blob, at)
        values.append(value)
    return values, at
