"""Commands about workers as the store knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from leasemq.app import App
from leasemq.cli.choosing import carry
from leasemq.cli.printing import print_fields, print_json, print_table
from leasemq.cli.shaping import worker_plain
from leasemq.cli.target import looked_at, target_options
from leasemq.errors import WorkerNotFound
from leasemq.protocol.insight import WorkerInfo
from leasemq.protocol.names import shown

_WORKERS = (
    *("worker", "incarnation", "host", "pid", "version"),
    *("queues", "slots", "running", "holds", "seen_at"),
)


@click.group(invoke_without_command=True)
@target_options
@click.pass_context
def workers(context: click.Context, /, **target: Any) -> None:
    """List the workers that announced themselves lately. Subcommands are about one of them."""
    if context.invoked_subcommand is not None:
        carry(context, **target)
        return

    async def look(app: App) -> Sequence[WorkerInfo]:
        return await app.workers()

    rows = [worker_plain(one) for one in looked_at(target["url"], target["app_name"], look)]
    if target["as_json"]:
        print_json({"workers": rows})
    else:
        rows = [_with_jobs_named(row) for row in rows]
        print_table(_WORKERS, [[row[column] for column in _WORKERS] for row in rows])


@workers.command()
@click.argument("name", metavar="NAME-OR-INCARNATION")
@target_options
def show(name: str, url: str | None, app_name: str | None, as_json: bool) -> None:
    """Show one worker, with the jobs that it holds; each life of it, if there are several."""

    async def look(app: App) -> list[WorkerInfo]:
        return [one for one in await app.workers() if name in (one.worker, one.incarnation)]

    lives = looked_at(url, app_name, look)
    if not lives:
        raise WorkerNotFound(f"no worker {shown(name)}: none of that name announced itself lately")
    if as_json:
        print_json({"workers": [worker_plain(one) for one in lives]})
        return
    for place, one in enumerate(lives):
        if place:
            click.echo()
        row = _with_jobs_named(worker_plain(one))
        print_fields((field, value) for field, value in row.items() if field != "jobs")


@workers.command()
@click.argument("name", metavar="NAME-OR-INCARNATION")
@target_options
def deregister(name: str, url: str | None, app_name: str | None, as_json: bool) -> None:
    """Take a worker off the list. It stops nothing.

    A worker that lives announces itself again within 25 s; stop it by a signal. One that died leaves
    the list by itself within 30 s.
    """
    lives = looked_at(url, app_name, lambda app: app.deregister(name))
    if as_json:
        print_json({"deregistered": [worker_plain(one) for one in lives]})
        return
    for one in lives:
        click.echo(f"{shown(one.worker)} ({shown(one.incarnation)}): deregistered")


def _with_jobs_named(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "holds": [f"{one['queue']}/{one['id']}" for one in row["jobs"]]}
