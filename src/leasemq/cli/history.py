"""What happened to one job, page by page, and how far it said it was: for `leasemq job`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click

from leasemq.app import App
from leasemq.cli.finding import found_job
from leasemq.cli.printing import print_json, print_table
from leasemq.cli.shaping import ref_plain
from leasemq.cli.sight import progress_of
from leasemq.cli.target import looked_at
from leasemq.notes import HistoryEntry, HistoryPage
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.names import shown
from leasemq.protocol.times import iso_utc

_COLUMNS = ("number", "at", "attempt", "kind", "state", "told")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """Which page of a history is asked for."""

    cursor: str | None
    limit: int


def history_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--history` with its page, given to the command as `paged`; None: it was not asked for."""

    @click.option("--history", is_flag=True, help="Show what happened to it, if it keeps that: history=N.")
    @click.option("--limit", type=click.IntRange(1, 1_000), help="With --history: entries, 100 if not given.")
    @click.option("--cursor", help="With --history: go on where the last page ended.")
    @functools.wraps(command)
    def with_page(*, history: bool, limit: int | None, cursor: str | None, **rest: Any) -> Any:
        if not history and (limit is not None or cursor is not None):
            raise click.UsageError("--limit and --cursor go with --history")
        paged = HistoryOptions(cursor=cursor, limit=limit or 100) if history else None
        return command(paged=paged, **rest)

    return with_page


def show_history(
    name: str,
    queue: str | None,
    asked: HistoryOptions,
    url: str | None,
    app_name: str | None,
    *,
    as_json: bool,
) -> None:
    """Print one page of what happened to a job."""

    async def look(app: App) -> tuple[JobRecord, HistoryPage]:
        record = await found_job(app, name, queue)
        job = app.job(record.ref.queue, record.ref.id, generation=record.ref.generation)
        return record, await job.history(asked.cursor, asked.limit)

    record, page = looked_at(url, app_name, look)
    entries = [_plain(entry) for entry in page.entries]
    if as_json:
        told = {"history": entries, "cursor": page.cursor, "truncated": page.truncated, "keeps": record.trail}
        print_json({**ref_plain(record.ref), **told})
        return
    for entry in entries:
        entry["told"] = entry["message"] or progress_text(entry["progress"]) or ""
    print_table(_COLUMNS, [[entry[column] for column in _COLUMNS] for entry in entries])
    if not record.trail:
        click.echo("it keeps no history; a task or an enqueue with history=N does", err=True)
    if page.truncated:
        click.echo(f"earlier entries are gone: the newest {record.trail} are kept", err=True)
    if len(entries) == asked.limit:
        click.echo(f"more: --cursor {shown(page.cursor)}", err=True)


def _plain(entry: HistoryEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "at": iso_utc(round(entry.at.timestamp() * 1_000)),
        "attempt": entry.attempt,
        "kind": entry.kind,
        "state": entry.state.value,
        "progress": None if entry.progress is None else asdict(entry.progress),
        "message": entry.message,
    }


def progress_text(plain: Any) -> Any:
    """Answer stored progress in a few words; as it is where it is in no form of ours."""
    progress = progress_of(plain)
    if progress is None:
        return plain
    percent = "" if progress.percent is None else f" ({progress.percent} %)"
    message = "" if progress.message is None else f" {progress.message}"
    return f"{progress.count}{percent}{message}"


def attempt_row(plain: dict[str, Any]) -> dict[str, Any]:
    """Answer an attempt as a table shows it: its error in one line."""
    error = plain["error"]
    return {**plain, "error": f"{error['type']}: {error['message']}" if isinstance(error, dict) else error}
