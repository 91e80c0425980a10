"""Commands about jobs, settings and the backend that only look; and the one that prepares a store."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import click

from leasemq.app import App
from leasemq.cli.choosing import filter_options, queue_option, state_option, taken_filters
from leasemq.cli.finding import found_job
from leasemq.cli.history import HistoryOptions, attempt_row, history_options, progress_text, show_history
from leasemq.cli.listing import LIST, Paging, cursor_option, limit_option, list_jobs
from leasemq.cli.printing import print_fields, print_heading, print_json, print_table, print_text
from leasemq.cli.shaping import capabilities_plain, job_plain
from leasemq.cli.target import chosen_app, created_at, looked_at, target_options
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.names import shown
from leasemq.settings import unknown_variables
from leasemq.worker.registry import VERSION

_ATTEMPTS = ("number", "worker", "fence", "claimed_at", "renewed_at", "ended_at", "outcome", "error")
_REFUSED = ("at", "fence", "write", "answer")
_PARTS = frozenset({"arguments", "result", "error", "history", "refused", "log"})


@click.command()
@click.argument("queue", required=False)
@state_option
@filter_options
@click.option("--oldest-first", is_flag=True, help="By acceptance; else the last accepted come first.")
@limit_option
@cursor_option
@target_options
def jobs(queue: str | None, oldest_first: bool, limit: int, cursor: str | None, **given: Any) -> None:
    """List jobs, the last accepted first: of one queue, or of all."""
    paging = Paging(limit=limit, cursor=cursor, oldest_first=oldest_first)
    list_jobs(queue, taken_filters(given), paging, LIST, given)


@click.command()
@click.argument("name", metavar="[QUEUE/]ID")
@queue_option
@history_options
@target_options
def job(
    name: str,
    queue: str | None,
    paged: HistoryOptions | None,
    url: str | None,
    app_name: str | None,
    as_json: bool,
) -> None:
    """Show all that is stored about one job; secrets are masked. With --history, what happened to it."""
    if paged is not None:
        show_history(name, queue, paged, url, app_name, as_json=as_json)
        return

    async def look(app: App) -> JobRecord:
        return await found_job(app, name, queue)

    plain = job_plain(looked_at(url, app_name, look))
    if as_json:
        print_json(plain)
    else:
        _print_job(plain)


@click.command()
@target_options
def config(url: str | None, app_name: str | None, as_json: bool) -> None:
    """Show each setting and where it comes from; passwords are masked."""
    origins = chosen_app(url, app_name).origins
    for name in unknown_variables(os.environ):
        click.echo(f"note: {shown(name)} is set, and is no setting", err=True)
    if as_json:
        print_json({"settings": [asdict(origin) for origin in origins]})
    else:
        print_table(("setting", "value", "source"), [(one.name, one.value, one.source) for one in origins])


@click.command()
@target_options
def doctor(url: str | None, app_name: str | None, as_json: bool) -> None:
    """Say what the backend is, what it survives, and who works on it."""

    async def look(app: App) -> dict[str, Any]:
        found = await app.metrics()
        ages = [one.oldest_waiting_ms for one in found.queues if one.oldest_waiting_ms is not None]
        return {
            "leasemq": VERSION,
            **capabilities_plain(await app.prepare()),
            "workers": len(found.workers),
            "queues": len(found.queues),
            "paused": [one.queue for one in found.queues if one.paused],
            "without_worker": found.left_alone,
            "oldest_waiting_s": max(ages) / 1_000 if ages else None,
            "dead_letters": sum(one.dead_letters for one in found.queues),
        }

    plain = looked_at(url, app_name, look)
    if as_json:
        print_json(plain)
    else:
        print_fields(plain.items())


@click.command()
@target_options
def migrate(url: str | None, app_name: str | None, as_json: bool) -> None:
    """Prepare the store: create what is missing, upgrade what is old. Nothing is dropped.

    May be repeated, also by several at once. Whatever opens the store does the same; this is for doing it
    before a deploy, or as another user.
    """
    plain = capabilities_plain(created_at(url, app_name, lambda app: app.prepare()))
    if as_json:
        print_json(plain)
    else:
        click.echo(f"{plain['backend']} is ready: {plain['server']}, durability {plain['durability']}")


def _print_job(plain: dict[str, Any]) -> None:
    told = {**plain, "progress": progress_text(plain["progress"])}
    print_fields((name, value) for name, value in told.items() if name not in _PARTS and value != [])
    if isinstance(plain["arguments"], dict):
        print_heading("arguments")
        positional = ((str(place), value) for place, value in enumerate(plain["arguments"]["args"]))
        print_fields([*positional, *plain["arguments"]["kwargs"].items()])
    else:
        print_fields([("arguments", plain["arguments"])])
    if plain["result"] is not None or plain["state"] == "completed":
        print_heading("result")
        print_text(repr(plain["result"]))
    attempts = [attempt_row(row) for row in plain["history"]]
    for part, columns, rows in (("history", _ATTEMPTS, attempts), ("refused", _REFUSED, plain["refused"])):
        if rows:
            print_heading(part)
            print_table(columns, [[row[column] for column in columns] for row in rows])
    if plain["log"]:
        print_heading("log")
        for line in plain["log"]:
            print_text(str(line))
    error = plain["error"]
    if error is not None:
        print_heading("error")
        print_text(error if isinstance(error, str) else f"{error['traceback']}")
