"""What every script of a queue is given, in one piece: see lua/shared/prelude.lua."""

from __future__ import annotations

import msgspec

from leasemq.backends.redis.settings import Settings

_encode = msgspec.msgpack.Encoder().encode


def arguments(settings: Settings, *values: object) -> bytes:
    """Answer the clock (0: the server reads its own), the bound of the events, and the other values."""
    now_ms = 0 if settings.clock is None else settings.clock()
    return _encode((now_ms, settings.event_limit, *values))
