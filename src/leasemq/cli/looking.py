"""Commands that only look: queues, jobs, one job, dead letters, workers, settings, the backend."""

from __future__ import annotations

import heapq
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from leasemq.app import App
from leasemq.cli.acting import replay_each
from leasemq.cli.finding import found_job
from leasemq.cli.printing import print_fields, print_heading, print_json, print_table, print_text
from leasemq.cli.shaping import (
    STATES,
    capabilities_plain,
    counts_plain,
    job_line,
    job_plain,
    worker_plain,
)
from leasemq.cli.target import chosen_app, looked_at, target_options
from leasemq.errors import InvalidSetting
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import DEAD
from leasemq.protocol.names import shown
from leasemq.settings import unknown_variables

_LIST = ("queue", "id", "task", "state", "attempts", "created_at")
_DEAD_LIST = ("queue", "id", "task", "reason", "attempts", "ended_at")
_COUNTS = {  # field: heading
    "queue": "queue",
    "scheduled": "sched",
    "waiting": "wait",
    "active": "active",
    "blocked": "block",
    "completed": "done",
    "failed": "fail",
    "cancelled": "cancel",
    "expired": "expire",
    "paused": "paused",
    "oldest_waiting_s": "oldest",
}
_WORKERS = (
    *("worker", "incarnation", "host", "pid", "version"),
    *("queues", "slots", "running", "holds", "seen_at"),
)
_ATTEMPTS = ("number", "worker", "fence", "claimed_at", "ended_at", "outcome")
_REFUSED = ("at", "fence", "write", "answer")
_PARTS = frozenset({"arguments", "result", "error", "history", "refused", "log"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """What a list shows. `cut`: the queues that hold more of it."""

    records: Sequence[JobRecord]
    cursor: str | None
    cut: Sequence[str]


limit_option = click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
cursor_option = click.option("--cursor", help="Go on where the last page ended; needs a queue.")


@click.command()
@target_options
def queues(url: str | None, app_name: str | None, as_json: bool) -> None:
    """List the queues with their counts."""

    async def look(app: App) -> list[dict[str, Any]]:
        return [counts_plain(await app.queue(name).counts()) for name in await app.queues()]

    rows = looked_at(url, app_name, look)
    if as_json:
        print_json({"queues": rows})
    else:
        print_table(_COUNTS.values(), [[row[column] for column in _COUNTS] for row in rows])


@click.command()
@click.argument("queue", required=False)
@click.option("--state", "states", multiple=True, type=click.Choice([state.value for state in STATES]))
@click.option("--task", help="Only jobs of this task.")
@click.option("--id", "id_prefix", metavar="PREFIX", help="Only ids that begin so.")
@limit_option
@cursor_option
@target_options
def jobs(
    queue: str | None,
    states: Sequence[str],
    task: str | None,
    id_prefix: str | None,
    limit: int,
    cursor: str | None,
    **target: Any,
) -> None:
    """List jobs, the last accepted first: of one queue, or of all."""
    where = {"states": states, "task": task, "id_prefix": id_prefix}
    _list(queue, where, limit, cursor, _LIST, target)


@click.command()
@click.argument("name", metavar="[QUEUE/]ID")
@click.option("--queue", help="The queue, if the id alone is not clear.")
@target_options
def job(name: str, queue: str | None, url: str | None, app_name: str | None, as_json: bool) -> None:
    """Show all that is stored about one job; secrets are masked."""

    async def look(app: App) -> JobRecord:
        return await found_job(app, name, queue)

    plain = job_plain(looked_at(url, app_name, look))
    if as_json:
        print_json(plain)
    else:
        _print_job(plain)


@click.group(invoke_without_command=True)
@click.option("--queue", help="Only this queue.")
@click.option("--task", help="Only jobs of this task.")
@limit_option
@cursor_option
@target_options
@click.pass_context
def dead(
    context: click.Context,
    /,
    queue: str | None,
    task: str | None,
    limit: int,
    cursor: str | None,
    **target: Any,
) -> None:
    """List the dead letters: jobs that failed or expired. `dead replay ID` runs one again."""
    if context.invoked_subcommand is None:
        _list(queue, {"states": tuple(DEAD), "task": task}, limit, cursor, _DEAD_LIST, target)
        return
    if task is not None or cursor is not None:
        raise click.UsageError("--task and --cursor choose what is listed; replay takes ids", context)
    # An option before the subcommand's name holds for the subcommand too, unless it has one of its own.
    context.default_map = {context.invoked_subcommand: {"queue": queue, **target}}


@dead.command("replay")
@click.argument("names", metavar="[QUEUE/]ID...", nargs=-1, required=True)
@click.option("--queue", help="The queue, if the id alone is not clear.")
@target_options
def dead_replay(
    names: Sequence[str], queue: str | None, url: str | None, app_name: str | None, as_json: bool
) -> None:
    """Run dead letters again, with their payload and history."""
    replay_each(names, queue, url, app_name, as_json=as_json)


@click.command()
@target_options
def workers(url: str | None, app_name: str | None, as_json: bool) -> None:
    """List the workers that announced themselves lately."""

    async def look(app: App) -> list[dict[str, Any]]:
        return [worker_plain(worker) for worker in await app.workers()]

    rows = looked_at(url, app_name, look)
    if as_json:
        print_json({"workers": rows})
    else:
        for row in rows:
            row["holds"] = [f"{one['queue']}/{one['id']}" for one in row["jobs"]]
        print_table(_WORKERS, [[row[column] for column in _WORKERS] for row in rows])


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
        counts = [await app.queue(name).counts() for name in await app.queues()]
        return {
            **capabilities_plain(await app.prepare()),
            "workers": len(await app.workers()),
            "queues": len(counts),
            "paused": [one.queue for one in counts if one.paused],
            "dead_letters": sum(one.failed + one.expired for one in counts),
        }

    plain = looked_at(url, app_name, look)
    if as_json:
        print_json(plain)
    else:
        print_fields(plain.items())


def _list(
    queue: str | None,
    where: dict[str, Any],
    limit: int,
    cursor: str | None,
    columns: Sequence[str],
    target: dict[str, Any],
) -> None:
    if cursor is not None and queue is None:
        raise InvalidSetting("--cursor goes on in one queue; name it")

    async def look(app: App) -> _Listed:
        if queue is None:
            return await _newest_of_all(app, where, limit)
        page = await app.queue(queue).find(**where, cursor=cursor, limit=limit)
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


async def _newest_of_all(app: App, where: dict[str, Any], limit: int) -> _Listed:
    """Answer the newest of all queues, never holding more than two pages."""
    newest: list[JobRecord] = []
    cut: set[str] = set()
    for name in await app.queues():
        page = await app.queue(name).find(**where, limit=limit)
        merged = list(heapq.merge(newest, page.jobs, key=lambda record: -record.created_ms))
        newest = merged[:limit]
        cut.update(record.ref.queue for record in merged[limit:])
        if page.cursor is not None:
            cut.add(name)
    return _Listed(records=newest, cursor=None, cut=sorted(cut))


def _print_job(plain: dict[str, Any]) -> None:
    print_fields((name, value) for name, value in plain.items() if name not in _PARTS and value != [])
    if isinstance(plain["arguments"], dict):
        print_heading("arguments")
        positional = ((str(place), value) for place, value in enumerate(plain["arguments"]["args"]))
        print_fields([*positional, *plain["arguments"]["kwargs"].items()])
    else:
        print_fields([("arguments", plain["arguments"])])
    if plain["result"] is not None or plain["state"] == "completed":
        print_heading("result")
        print_text(repr(plain["result"]))
    for part, columns in (("history", _ATTEMPTS), ("refused", _REFUSED)):
        if plain[part]:
            print_heading(part)
            print_table(columns, [[row[column] for column in columns] for row in plain[part]])
    if plain["log"]:
        print_heading("log")
        for line in plain["log"]:
            print_text(str(line))
    error = plain["error"]
    if error is not None:
        print_heading("error")
        print_text(error if isinstance(error, str) else f"{error['traceback']}")
