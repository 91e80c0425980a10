"""The functions of this backend: one .sql file each, installed under a name that says which text it is.

A function's name carries a digest of its text and, through the names that it calls, of theirs. So two
releases whose functions differ run side by side on one schema, each with its own.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import sha256
from importlib.resources import files

from leasemq.backends.postgres.routine import Routine
from leasemq.backends.postgres.settings import quoted

# What stands between braces in a file: the schema, the function itself, or another file's function.
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_SIGNATURE = re.compile(r"CREATE FUNCTION \{self\}\(([^)]*)\)", re.DOTALL)
_DIGEST_CHARACTERS = 10
_HARMLESS = "-- A repeat changes nothing.\n"  # told by a function that reads, though it writes something down


def _read(folder: str) -> dict[str, str]:
    """Answer the texts of a folder by name. Read with this module: no loop may wait for a disk."""
    found = (file for file in (files(__package__) / folder).iterdir() if file.name.endswith(".sql"))
    return {file.name.removesuffix(".sql"): file.read_text("utf-8") for file in found}


TEXTS = _read("sql")
MIGRATIONS = _read("migrations")


@cache
def names() -> tuple[str, ...]:
    """Answer every function, each after those that it calls."""
    ordered: dict[str, None] = {}
    for name in sorted(TEXTS):
        _add_after_called(name, ordered)
    return tuple(ordered)


@cache
def installed_name(name: str) -> str:
    """Answer the name under which a function is installed."""
    text = _PLACEHOLDER.sub(lambda match: _digested(match[1]), TEXTS[name])
    return f"{name}_{sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]}"


class Functions:
    """The functions of this release in one schema."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._routines: dict[str, Routine] = {}

    def routine(self, name: str) -> Routine:
        """Answer what a call of a function needs to know."""
        found = self._routines.get(name)
        if found is None:
            found = self._routines[name] = _routine(self._schema, name)
        return found

    async def install(self, execute: Callable[[str], Awaitable[None]]) -> None:
        """Create the functions that are missing; repeatable, and safe from many processes at once."""
        place = self._schema.replace("'", "''")
        parts = [
            "SELECT set_config('lock_timeout', '0', true)",  # whoever comes first takes as long as it takes
            f"SELECT pg_advisory_xact_lock(hashtextextended('leasemq install {place}', 0))",
        ]
        for name in names():
            create = rendered(self._schema, TEXTS[name], name).strip().rstrip(";")
            parts.append(
                "DO $install$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_proc p"
                " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
                f" WHERE n.nspname = '{place}' AND p.proname = '{installed_name(name)}')"
                f" THEN {create}; END IF; END $install$"
            )
        await execute(";\n".join(parts))  # as one request, and so as one transaction


def rendered(schema: str, text: str, own_name: str = "") -> str:
    """Answer the text of a file as the server takes it."""

    def put(match: re.Match[str]) -> str:
        if match[1] == "schema":
            return quoted(schema)
        name = own_name if match[1] == "self" else match[1]
        return f"{quoted(schema)}.{quoted(installed_name(name))}"

    return _PLACEHOLDER.sub(put, text)


def _routine(schema: str, name: str) -> Routine:
    text = TEXTS[name]
    signature = _SIGNATURE.search(text)
    assert signature is not None, f"sql/{name}.sql has no CREATE FUNCTION {{self}}(...)"
    parameters = [part.split() for part in signature[1].split(",") if part.strip()]
    return Routine(
        name=name,
        qualified=f"{quoted(schema)}.{quoted(installed_name(name))}",
        parameters=tuple(" ".join(part[1:]) for part in parameters),
        is_read=" STABLE" in text or _HARMLESS in text,
    )


def _digested(name: str) -> str:
    return name if name in ("schema", "self") else installed_name(name)


def _add_after_called(name: str, ordered: dict[str, None]) -> None:
    for called in _PLACEHOLDER.findall(TEXTS[name]):
        if called not in ("schema", "self") and called not in ordered:
            _add_after_called(called, ordered)
    ordered.setdefault(name)
