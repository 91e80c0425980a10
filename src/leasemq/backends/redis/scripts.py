"""The scripts of this backend: one .lua file per operation, put together with the shared parts that it uses.

The comment on top of an operation's file names the parts (`Uses:`, from lua/shared, in their order) and the
server's flags (`Flags:`). The flags make the server refuse a script as a whole, before its first line, when
it may not write or has no memory left: https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from dataclasses import dataclass
from functools import cache

_TOLD = re.compile(r"^-- (Uses|Flags):(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One operation, whole as the server takes it."""

    name: str
    text: str
    sha: str
    is_read: bool  # it writes nothing: lost replies are harmless


@cache
def script(name: str) -> Script:
    """Read `lua/<name>.lua` and what it uses."""
    body = _text(name)
    told = {word: value.split() for word, value in _TOLD.findall(body)}
    flags = told.get("Flags", [])
    shebang = f"#!lua flags={','.join(flags)}\n" if flags else "#!lua\n"
    parts = [_text(f"shared/{part}") for part in told["Uses"]]
    text = shebang + "".join(_without_comments(part) for part in (*parts, body))
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()  # how EVALSHA names a script
    return Script(name, text, sha, is_read="no-writes" in flags)


def _text(name: str) -> str:
    data = pkgutil.get_data(__package__, f"lua/{name}.lua")
    assert data is not None
    return data.decode()


def _without_comments(text: str) -> str:
    """The text without the lines that are comments: every server holds each script for as long as it runs."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("--"))
