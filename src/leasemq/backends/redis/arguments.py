"""What every script of a queue is given, in one piece: see lua/shared/prelude.lua."""

from __future__ import annotations

import msgspec

from leasemq.backends.redis.settings import Settings

_encode = msgspec.msgpack.Encoder().encode
# The server's msgpack knows no binary type, so bytes travel as its strings, which are bytes in Lua:
# https://github.com/antirez/lua-cmsgpack
_SHORT = tuple(bytes((0xA0 | size,)) if size < 32 else bytes((0xD9, size)) for size in range(256))


def arguments(settings: Settings, *values: object) -> bytes:
    """Answer the clock (0: the server reads its own), the bound of the events, and the script's values."""
    now_ms = 0 if settings.clock is None else settings.clock()
    return _encode((now_ms, settings.event_limit, *map(_plain, values)))


def word(value: bytes) -> msgspec.Raw:
    """Answer bytes as a script can take them."""
    size = len(value)
    if size < len(_SHORT):
        return msgspec.Raw(_SHORT[size] + value)
    head = b"\xda" + size.to_bytes(2) if size < 65_536 else b"\xdb" + size.to_bytes(4)
    return msgspec.Raw(head + value)


def item(*values: object) -> msgspec.Raw:
    """Answer one of many items, packed: its bytes are words already."""
    return msgspec.Raw(_encode(values))


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return word(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
