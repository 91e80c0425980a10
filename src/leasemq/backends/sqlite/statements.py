"""The statements of this backend: one .sql file each, read once."""

from __future__ import annotations

import pkgutil
import re
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]  # Any: what a column holds is checked where the row is read

_PARAMETER = re.compile(r":([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. Parameters go by position, which binds three times faster than by name."""

    name: str
    sql: str
    parameters: tuple[str, ...]

    def rows(self, connection: sqlite3.Connection, *values: object) -> list[Row]:
        """Run it and answer every row."""
        return connection.execute(self.sql, values).fetchall()

    def each(self, connection: sqlite3.Connection, *values: object) -> Generator[Row, None, None]:
        """Run it and answer row by row; whoever closes this early has read no more."""
        cursor = connection.execute(self.sql, values)
        try:
            yield from cursor
        finally:
            cursor.close()

    def row(self, connection: sqlite3.Connection, *values: object) -> Row | None:
        """Run it and answer the first row."""
        found: Row | None = connection.execute(self.sql, values).fetchone()
        return found

    def run(self, connection: sqlite3.Connection, *values: object) -> int:
        """Run it and answer how many rows it changed."""
        return connection.execute(self.sql, values).rowcount

    def many(self, connection: sqlite3.Connection, batch: Iterable[Sequence[object]]) -> int:
        """Run it once for each set of values, and answer how many rows it changed in all."""
        return connection.executemany(self.sql, batch).rowcount


def statement(name: str) -> Statement:
    """Read `sql/<name>.sql`; `:name` becomes the number of its place in the `In:` line."""
    head, body = _parts(name)
    told = "\n".join(head).partition("In:")[2].partition("Out:")[0]
    parameters = tuple(_PARAMETER.findall(re.sub(r"\([^)]*\)", "", told)))
    number = {parameter: str(place) for place, parameter in enumerate(parameters, start=1)}
    return Statement(name, _PARAMETER.sub(lambda match: f"?{number[match[1]]}", body), parameters)


def script(name: str) -> list[str]:
    """Read `sql/<name>.sql` as several statements without parameters."""
    _, body = _parts(name)
    return [part.strip() for part in body.split(";") if part.strip()]


def _parts(name: str) -> tuple[list[str], str]:
    """The comment lines on top, and the rest without its comments."""
    data = pkgutil.get_data(__package__, f"sql/{name}.sql")
    assert data is not None
    text = data.decode()
    lines = text.splitlines()
    top = next(place for place, line in enumerate(lines) if not line.startswith("--"))
    return lines[:top], "\n".join(line for line in lines[top:] if not line.startswith("--")).strip()
