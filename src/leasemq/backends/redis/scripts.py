"""The scripts of this backend: one .lua file per operation, put together with the shared parts that it uses.

The comment on top of an operation's file names the parts (`Uses:`, from lua/shared, in their order; those
after a semicolon are made with the rest) and the flags of the server (`Flags:`). They make it refuse a
script as a whole, before its first line, when it may not write or has no memory left:
https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FOLDER = files(__package__) / "lua"
_FUNCTION = re.compile(r"^local function (\w+)\(.*?^end\n", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[a-zA-Z_]\w*")
_REST = "-- THE REST\n"  # what comes before it may answer, and then nothing of the rest is made
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
    first, _, rest = _text(name).rpartition(_REST)
    told = dict(_TOLD.findall(first or rest))
    flags = told.get("Flags", "").split()
    shebang = f"#!lua flags={','.join(flags)}\n" if flags else "#!lua\n"
    text = shebang + _flat(_needed(_nested(told["Uses"], first, rest)))
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()  # how EVALSHA names a script
    return Script(name, text, sha, is_read="no-writes" in flags)


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")


def _without_comments(text: str) -> str:
    """The text without the lines that are comments: every server holds each script for as long as it runs."""
    lines = (line.rstrip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.lstrip().startswith("--"))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some lines of a script: one function, or what stands between functions."""

    name: str  # empty: no function
    text: str
    named: frozenset[str]  # all that it names


def _pieces(text: str) -> list[_Piece]:
    pieces, at = [], 0
    for found in _FUNCTION.finditer(text):
        pieces += [_piece("", text[at : found.start()]), _piece(found[1], found[0])]
        at = found.end()
    return [*pieces, _piece("", text[at:])]


def _piece(name: str, text: str) -> _Piece:
    return _Piece(name, text, frozenset(_NAME.findall(text)))


@cache
def _shared_pieces(name: str) -> list[_Piece]:
    return _pieces(_without_comments(_text(f"shared/{name}")))


def _nested(uses: str, first: str, rest: str) -> list[_Piece]:
    """What is used, and the script's own; what stands after the semicolon, and the rest, in a function.

    What that function uses of the outermost one costs less to bind, and Lua gives it room of its own. A call
    that is answered before it is reached does not even make what it consists of.
    """
    outer, _, inner = uses.partition(";")
    outside = [piece for part in outer.split() for piece in _shared_pieces(part)]
    outside += _pieces(_without_comments(first))
    inside = [piece for part in inner.split() for piece in _shared_pieces(part)]
    inside += _pieces(_without_comments(rest))
    if not inner:
        return [*outside, *inside]
    return [*outside, _piece("", "return (function()\n"), *inside, _piece("", "end)()\n")]


def _needed(pieces: list[_Piece]) -> str:
    """The pieces without functions that nothing names: each call of a script makes them all anew."""
    functions = {piece.name: piece.named for piece in pieces if piece.name}
    named: set[str] = set()
    new = {name for piece in pieces if not piece.name for name in piece.named}
    while new:
        named |= new
        new = {name for function in new & functions.keys() for name in functions[function]} - named
    return "".join(piece.text for piece in pieces if not piece.name or piece.name in named)


def _flat(text: str) -> str:
    return "".join(f"{line.lstrip()}\n" for line in text.splitlines())


# Not when first used: that is inside an event loop, where reading files would hold up everybody.
_SCRIPTS = {
    name: _read(name)
    for name, suffix in (entry.name.rsplit(".", 1) for entry in _FOLDER.iterdir() if entry.is_file())
    if suffix == "lua"
}
