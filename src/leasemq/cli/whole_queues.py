"""Commands about whole queues: `queues` lists them, and has what is done to one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from leasemq.app import App
from leasemq.cli.choosing import (
    ask,
    carry,
    dry_run_option,
    known_queue,
    older_option,
    yes_option,
)
from leasemq.cli.printing import print_fields, print_json, print_table
from leasemq.cli.shaping import counts_plain
from leasemq.cli.target import looked_at, target_options
from leasemq.protocol.model import NOT_STARTED, TERMINAL
from leasemq.protocol.names import check_queue, shown
from leasemq.queue import Queue

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
    "oldest_waiting_s": "oldest_s",
}


@click.group(invoke_without_command=True)
@target_options
@click.pass_context
def queues(context: click.Context, /, **target: Any) -> None:
    """List the queues with their counts. Subcommands are about one of them."""
    if context.invoked_subcommand is not None:
        carry(context, **target)
        return

    async def look(app: App) -> list[dict[str, Any]]:
        return [counts_plain(await app.queue(name).counts()) for name in await app.queues()]

    rows = looked_at(target["url"], target["app_name"], look)
    if target["as_json"]:
        print_json({"queues": rows})
    else:
        print_table(_COUNTS.values(), [[row[column] for column in _COUNTS] for row in rows])


@queues.command()
@click.argument("queue")
@target_options
def show(queue: str, url: str | None, app_name: str | None, as_json: bool) -> None:
    """Show one queue: its counts, its oldest waiting job, whether it is paused."""

    async def look(app: App) -> dict[str, Any]:
        return counts_plain(await (await known_queue(app, queue)).counts())

    plain = looked_at(url, app_name, look)
    if as_json:
        print_json(plain)
    else:
        print_fields(plain.items())


@click.command()
@click.argument("queue")
@target_options
def pause(queue: str, url: str | None, app_name: str | None, as_json: bool) -> None:
    """Stop claims of a queue in every process; running jobs go on."""

    async def work(app: App) -> bool:
        is_known = queue in await app.queues()
        await app.queue(queue).pause()
        return is_known

    if not looked_at(url, app_name, work):
        click.echo(f"note: no job was ever enqueued into {shown(queue)}; is its name right?", err=True)
    _told_of_queue(queue, "paused", as_json=as_json)


@click.command()
@click.argument("queue")
@target_options
def resume(queue: str, url: str | None, app_name: str | None, as_json: bool) -> None:
    """Let a paused queue go on."""
    looked_at(url, app_name, lambda app: app.queue(queue).resume())
    _told_of_queue(queue, "resumed", as_json=as_json)


@click.command()
@click.argument("queue")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in sorted(NOT_STARTED)]),
    help="Only these: `--state waiting` leaves delayed jobs alone.",
)
@dry_run_option
@yes_option
@target_options
def drain(queue: str, states: tuple[str, ...], **given: Any) -> None:
    """Delete the jobs of a queue that have not started."""
    chosen = states or tuple(NOT_STARTED)
    _empty(
        queue,
        f"Delete every job of {shown(queue)} that has not started ({', '.join(sorted(chosen))})?",
        lambda found: found.drain(chosen, dry_run=given["dry_run"]),
        given,
    )


@click.command()
@click.argument("queue")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in sorted(TERMINAL)]),
    help="Only what ended so; may be given several times.",
)
@older_option
@click.option("--limit", type=click.IntRange(1), help="So many at most, the longest ended first.")
@dry_run_option
@yes_option
@target_options
def purge(queue: str, states: tuple[str, ...], older_than: Any, limit: int | None, **given: Any) -> None:
    """Delete jobs of a queue that have ended, by state and age."""
    chosen = states or tuple(TERMINAL)
    _empty(
        queue,
        f"Delete the jobs of {shown(queue)} that have ended ({', '.join(sorted(chosen))})?",
        lambda found: found.purge(chosen, older_than=older_than or 0, limit=limit, dry_run=given["dry_run"]),
        given,
    )


@click.command()
@click.argument("queue")
@click.option("--force", is_flag=True, help="Even while jobs run: their workers then lose the leases.")
@dry_run_option
@yes_option
@target_options
def obliterate(queue: str, force: bool, **given: Any) -> None:
    """Delete every job of a queue; refused while jobs run, unless forced."""
    _empty(
        queue,
        f"Delete every job of {shown(queue)}, whatever its state?",
        lambda found: found.obliterate(force=force, dry_run=given["dry_run"]),
        given,
    )


for command in (pause, resume, drain, purge, obliterate):
    queues.add_command(command)


def _empty(queue: str, question: str, act: Callable[[Queue], Awaitable[int]], given: dict[str, Any]) -> None:
    check_queue(queue)
    dry_run = given["dry_run"]
    ask(question, is_sure=given["yes"] or dry_run)

    async def work(app: App) -> int:
        return await act(await known_queue(app, queue))

    removed = looked_at(given["url"], given["app_name"], work)
    if given["as_json"]:
        print_json({"queue": queue, "removed": removed, **({"dry_run": True} if dry_run else {})})
    else:
        click.echo(f"{shown(queue)}: {removed} {'would be removed' if dry_run else 'removed'}")


def _told_of_queue(queue: str, answer: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"queue": queue, "answer": answer})
    else:
        click.echo(f"{shown(queue)}: {answer}")
