"""Scripts that show what the connection does with a script, whatever it is about."""

from __future__ import annotations

import hashlib

from leasemq.backends.redis.scripts import Script


def made(name: str, body: str, flags: str = "") -> Script:
    """A script of this text, as the loader makes them."""
    text = f"#!lua flags={flags}\n{body}" if flags else f"#!lua\n{body}"
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, is_read=flags == "no-writes")


ECHO = made("echo", "return ARGV[1]", "no-writes")
ADD = made("add", "return redis.call('INCRBY', KEYS[1] .. 'sum', ARGV[1])")
SUM = made("sum", "return tonumber(redis.call('GET', KEYS[1] .. 'sum') or 0)", "no-writes")
DROP = made("drop", "return redis.call('DEL', KEYS[1] .. 'sum')", "allow-oom")
