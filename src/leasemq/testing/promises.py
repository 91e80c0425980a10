"""The table promise × backend: what a test run and its planted faults show about each promise.

Three files meet here: the catalogue of promises (TOML, written by hand), what the tests did (JSON, written
by `promise_recorder`), and which planted faults were found out (JSON, written by the mutants' runner).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

CORE = "core"  # the backend of a test that has none
UNKNOWN = "unknown"  # the backend of a test that failed before it had one
LEFT_OUT = "left out"  # the outcome of a test that does not apply to its backend, and says why


class Standing(StrEnum):
    """What is known of a promise on one backend."""

    PROVEN = "proven"
    TESTED = "tested"
    TESTED_CORE = "tested (core)"
    FAILED = "failed"
    NO_TEST = "no test"
    EXCEPTED = "excepted"
    LATER = "later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A line of the catalogue.

    `is_core`: not about a backend, so a test without one speaks for all. `is_delivered`: false for what a
    later release brings. `excepted`: backend -> why it need not keep the promise.
    """

    id: str
    says: str
    is_core: bool = False
    is_delivered: bool = True
    excepted: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """All promises, and the backends they are shown on, in the order of the table."""

    backends: tuple[str, ...]
    promises: tuple[Promise, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of one test that names promises."""

    nodeid: str
    ids: tuple[str, ...]
    backend: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A planted fault that breaks a promise, and the backends on which a test naming it failed."""

    mutant: str
    promise: str
    backends: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One promise on one backend, with what says so."""

    standing: Standing
    tests: int
    mutants: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One promise on every backend."""

    promise: Promise
    cells: Mapping[str, Cell]


def read_catalogue(path: Path) -> Catalogue:
    """The promises of a TOML file: `backends = [...]` and a table `promises` of id -> fields.

    Raises:
        msgspec.ValidationError: A field is unknown or of the wrong type.
    """
    document = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _Document)
    return Catalogue(
        backends=tuple(document.backends),
        promises=tuple(
            Promise(
                id=name,
                says=entry.says,
                is_core=entry.core,
                is_delivered=entry.delivered,
                excepted=entry.excepted,
            )
            for name, entry in document.promises.items()
        ),
    )


def read_trials(path: Path) -> list[Trial]:
    """What the recorder wrote; empty when there is no file."""
    return msgspec.json.decode(path.read_bytes(), type=list[Trial]) if path.exists() else []


def read_kills(path: Path) -> list[Kill]:
    """What the mutants' runner wrote; empty when there is no file."""
    return msgspec.json.decode(path.read_bytes(), type=list[Kill]) if path.exists() else []


def promise_table(catalogue: Catalogue, trials: Iterable[Trial], kills: Iterable[Kill]) -> tuple[Row, ...]:
    """One row per promise, in the order of the catalogue."""
    by_promise: dict[str, list[Trial]] = {}
    for test in trials:
        for promise_id in test.ids:
            by_promise.setdefault(promise_id, []).append(test)
    killed = list(kills)
    return tuple(
        Row(
            promise=promise,
            cells={
                backend: _cell(promise, backend, by_promise.get(promise.id, []), killed)
                for backend in catalogue.backends
            },
        )
        for promise in catalogue.promises
    )


def proven_everywhere(rows: Iterable[Row], backends: Sequence[str] = ()) -> list[str]:
    """Ids of the promises that are proven on each of these backends; on all of the table if none is named."""
    return [
        row.promise.id
        for row in rows
        if all(row.cells[name].standing is Standing.PROVEN for name in backends or row.cells)
    ]


def untested(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Backend -> ids of the delivered promises that no test on it names."""
    missing = (Standing.NO_TEST, Standing.TESTED_CORE)
    delivered = [row for row in rows if row.promise.is_delivered]
    backends = list(rows[0].cells) if rows else []
    found = {
        backend: [row.promise.id for row in delivered if row.cells[backend].standing in missing]
        for backend in backends
    }
    return {backend: ids for backend, ids in found.items() if ids}


def as_text(rows: Sequence[Row]) -> str:
    """The table for a terminal."""
    backends = list(rows[0].cells) if rows else []
    lines = [["promise", *backends, "says"]]
    lines += [
        [row.promise.id, *(_told(cell) for cell in row.cells.values()), row.promise.says] for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(backends) + 1)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[-1]])
        for line in lines
    )


def as_markdown(rows: Sequence[Row]) -> str:
    """The table for the documentation."""
    backends = list(rows[0].cells) if rows else []
    lines = [
        f"| promise | says | {' | '.join(backends)} |",
        f"| --- | --- | {' | '.join('---' for _ in backends)} |",
    ]
    for row in rows:
        told = " | ".join(str(cell.standing) for cell in row.cells.values())
        lines.append(f"| {row.promise.id} | {row.promise.says.replace('|', '&#124;')} | {told} |")
    reasons = {
        f"{row.promise.id} on {backend}: {reason}."
        for row in rows
        for backend, reason in row.promise.excepted.items()
        if backend in backends
    }
    return "\n".join([*lines, "", "Excepted:", "", *(f"- {reason}" for reason in sorted(reasons)), ""])


def totals(rows: Sequence[Row]) -> str:
    """How many promises stand how, backend by backend, and how many are proven on all of them."""
    backends = list(rows[0].cells) if rows else []
    lines = []
    for backend in backends:
        standings = [row.cells[backend].standing for row in rows]
        counted = ", ".join(f"{standings.count(one)} {one}" for one in Standing if one in standings)
        lines.append(f"promises on {backend}: {counted}")
    everywhere = "both backends" if len(backends) == 2 else f"all {len(backends)} backends"
    return "\n".join([*lines, f"promises proven on {everywhere}: {len(proven_everywhere(rows))}"])


def _cell(promise: Promise, backend: str, tests: Sequence[Trial], kills: Sequence[Kill]) -> Cell:
    speaks_for_it = {backend, CORE} if promise.is_core else {backend}
    own = [test for test in tests if test.backend in speaks_for_it and test.outcome != LEFT_OUT]
    mutants = tuple(
        kill.mutant for kill in kills if kill.promise == promise.id and speaks_for_it & set(kill.backends)
    )
    return Cell(
        standing=_standing(promise, backend, own, tests, is_killed=bool(mutants)),
        tests=len(own),
        mutants=mutants,
    )


def _standing(
    promise: Promise, backend: str, own: Sequence[Trial], tests: Sequence[Trial], *, is_killed: bool
) -> Standing:
    """A failure anywhere a test may speak for this backend outweighs all; a skip is no pass.

    A test that was left out says nothing: it asks what the backend does not declare. A promise of which
    parts come later is not proven by its tests so far.
    """
    may_speak = {backend, CORE, UNKNOWN}
    outcomes = {test.outcome for test in own}
    if any(test.outcome == "failed" and test.backend in may_speak for test in tests):
        return Standing.FAILED
    if outcomes == {"passed"} and is_killed and promise.is_delivered:
        return Standing.PROVEN
    if "passed" in outcomes:
        return Standing.TESTED
    if backend in promise.excepted:
        return Standing.EXCEPTED
    if any(test.outcome == "passed" and test.backend == CORE for test in tests):
        return Standing.TESTED_CORE
    return Standing.NO_TEST if promise.is_delivered else Standing.LATER


def _told(cell: Cell) -> str:
    return f"{cell.standing} {cell.tests}/{len(cell.mutants)}" if cell.tests else str(cell.standing)


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    says: str
    core: bool = False
    delivered: bool = True
    excepted: dict[str, str] = {}


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    backends: list[str]
    promises: dict[str, _Entry]
