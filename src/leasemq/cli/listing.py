"""Lists of jobs: of one queue in pages, or the newest of all."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from leasemq.app import App
from leasemq.cli.choosing import chosen_jobs, known_queue
from leasemq.cli.printing import print_json, print_table
from leasemq.cli.shaping import job_line
from leasemq.cli.target import looked_at
from leasemq.errors import InvalidSetting
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.names import shown

LIST = ("queue", "id", "task", "state", "attempts", "created_at")
DEAD_LIST = ("queue", "id", "task", "reason", "attempts", "ended_at")

limit_option = click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
cursor_option = click.option("--cursor", help="Go on where the last page ended; needs a queue.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """Which part of a list is asked for."""

    limit: int
    cursor: str | None
    oldest_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """What a list shows. `cut`: the queues that hold more of it."""

    records: Sequence[JobRecord]
    cursor: str | None
    cut: Sequence[str]


def list_jobs(
    queue: str | None,
    where: Mapping[str, Any],
    paging: Paging,
    columns: Sequence[str],
    target: Mapping[str, Any],
) -> None:
    """Print the jobs that the filters choose."""
    if paging.cursor is not None and queue is None:
        raise InvalidSetting("--cursor goes on in one queue; name it")

    async def look(app: App) -> _Listed:
        if queue is None:
            return await _first_of_all(app, where, paging)
        await known_queue(app, queue)
        page = await chosen_jobs(app, queue, where).page(
            cursor=paging.cursor, limit=paging.limit, oldest_first=paging.oldest_first
        )
        return _Listed(records=page.jobs, cursor=page.cursor, cut=() if page.cursor is None else (queue,))

    listed = looked_at(target["url"], target["app_name"], look)
    rows = [job_line(record) for record in listed.records]
    if target["as_json"]:
        print_json({"jobs": rows, "cursor": listed.cursor, "more_in": listed.cut})
        return
    print_table(columns, [[row[column] for column in columns] for row in rows])
    if listed.cursor is not None:
        click.echo(f"more: --cursor {shown(listed.cursor)}", err=True)
    elif listed.cut:
        click.echo(f"more in: {shown(', '.join(listed.cut))}; name the queue to go on in it", err=True)


async def _first_of_all(app: App, where: Mapping[str, Any], paging: Paging) -> _Listed:
    """Answer the first of all queues, never holding more than two pages."""
    way = 1 if paging.oldest_first else -1
    first: list[JobRecord] = []
    cut: set[str] = set()
    for name in await app.queues():
        chosen = chosen_jobs(app, name, where)
        page = await chosen.page(limit=paging.limit, oldest_first=paging.oldest_first)
        merged = list(heapq.merge(first, page.jobs, key=lambda record: way * record.created_ms))
        first = merged[: paging.limit]
        cut.update(record.ref.queue for record in merged[paging.limit :])
        if page.cursor is not None:
            cut.add(name)
    return _Listed(records=first, cursor=None, cut=sorted(cut))
