"""The scripts of this backend: one .lua file per operation, put together with the shared parts that it uses.

The comment on top of an operation's file names the parts (`Uses:`, from lua/shared, in their order) and the
server's flags (`Flags:`). The flags make the server refuse a script as a whole, before its first line, when
it may not write or has no memory left: https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FOLDER = files(__package__) / "lua"
_TOLD = re.compile(r"^-- (Uses|Flags):(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One operation, whole as the server takes it."""

    name: str
    text: str
    sha: str
    is_read: bool  # it writes nothing: lost replies are harmless


def script(name: str) -> Script:
    """Answer `lua/<name>.lua` with what it uses; all were read when this module was imported."""
    return _SCRIPTS[name]


def _read(name: str) -> Script:
    body = _text(name)
    told = {word: value.split() for word, value in _TOLD.findall(body)}
    flags = told.get("Flags", [])
    shebang = f"#!lua flags={','.join(flags)}\n" if flags else "#!lua\n"
    parts = (_shared(part) for part in told["Uses"])
    text = "".join((shebang, *parts, _without_comments(body)))
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()  # how EVALSHA names a script
    return Script(name, text, sha, is_read="no-writes" in flags)


@cache
def _shared(name: str) -> str:
    return _without_comments(_text(f"shared/{name}"))


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")


def _without_comments(text: str) -> str:
    """The text without the lines that are comments: every server holds each script for as long as it runs."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("--"))


# Not when first used: that is inside an event loop, where reading files would hold up everybody.
_SCRIPTS = {
    name: _read(name)
    for name, suffix in (entry.name.rsplit(".", 1) for entry in _FOLDER.iterdir() if entry.is_file())
    if suffix == "lua"
}
