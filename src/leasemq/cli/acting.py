"""Commands that change something: one job, or a whole queue."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence

import click

from leasemq.app import App
from leasemq.cli.finding import found_job
from leasemq.cli.printing import print_json
from leasemq.cli.shaping import ref_plain
from leasemq.cli.target import looked_at, target_options
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.names import check_queue, shown

Act = Callable[[App, JobRecord], Awaitable[str]]

names_argument = click.argument("names", metavar="[QUEUE/]ID...", nargs=-1, required=True)
queue_option = click.option("--queue", help="The queue, if the id alone is not clear.")


@click.command()
@names_argument
@queue_option
@target_options
def cancel(
    names: Sequence[str], queue: str | None, url: str | None, app_name: str | None, as_json: bool
) -> None:
    """Cancel jobs: one that has not started never does, one that runs is told to stop."""

    async def act(app: App, record: JobRecord) -> str:
        return str(await app.queue(record.ref.queue).cancel(record.ref.id))

    _each(names, queue, act, url, app_name, as_json=as_json)


@click.command()
@names_argument
@queue_option
@target_options
def replay(
    names: Sequence[str], queue: str | None, url: str | None, app_name: str | None, as_json: bool
) -> None:
    """Run dead or cancelled jobs again, with their payload and history."""
    replay_each(names, queue, url, app_name, as_json=as_json)


@click.command()
@names_argument
@queue_option
@target_options
def promote(
    names: Sequence[str], queue: str | None, url: str | None, app_name: str | None, as_json: bool
) -> None:
    """Make delayed jobs due now."""

    async def act(app: App, record: JobRecord) -> str:
        await app.queue(record.ref.queue).promote(record.ref.id)
        return "promoted"

    _each(names, queue, act, url, app_name, as_json=as_json)


@click.command()
@names_argument
@queue_option
@click.option("--force", is_flag=True, help="Even one that runs: its worker then loses the lease.")
@target_options
def remove(
    names: Sequence[str],
    queue: str | None,
    force: bool,
    url: str | None,
    app_name: str | None,
    as_json: bool,
) -> None:
    """Delete jobs and all that is stored with them."""

    async def act(app: App, record: JobRecord) -> str:
        await app.queue(record.ref.queue).remove(record.ref.id, force=force)
        return "removed"

    _each(names, queue, act, url, app_name, as_json=as_json)


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
@click.option("--yes", is_flag=True, help="Do not ask.")
@target_options
def drain(queue: str, yes: bool, url: str | None, app_name: str | None, as_json: bool) -> None:
    """Delete the jobs of a queue that have not started."""
    check_queue(queue)
    if not yes and sys.stdin is None:
        raise click.UsageError("nobody can be asked, since there is no input; say --yes")
    if not yes:
        click.confirm(f"Delete every job of {shown(queue)} that has not started?", abort=True, err=True)
    removed = looked_at(url, app_name, lambda app: app.queue(queue).drain())
    if as_json:
        print_json({"queue": queue, "removed": removed})
    else:
        click.echo(f"{shown(queue)}: {removed} removed")


def replay_each(
    names: Sequence[str], queue: str | None, url: str | None, app_name: str | None, *, as_json: bool
) -> None:
    """Replay each job that is named."""

    async def act(app: App, record: JobRecord) -> str:
        await app.queue(record.ref.queue).replay(record.ref.id)
        return "replayed"

    _each(names, queue, act, url, app_name, as_json=as_json)


def _each(
    names: Sequence[str],
    queue: str | None,
    act: Act,
    url: str | None,
    app_name: str | None,
    *,
    as_json: bool,
) -> None:
    """Find every job first, so that a mistyped name changes nothing; then act on each in turn."""

    async def work(app: App) -> list[tuple[JobRecord, str]]:
        records = [await found_job(app, name, queue) for name in names]
        return [(record, await act(app, record)) for record in records]

    done = looked_at(url, app_name, work)
    if as_json:
        print_json({"jobs": [{**ref_plain(record.ref), "answer": answer} for record, answer in done]})
        return
    for record, answer in done:
        click.echo(f"{shown(record.ref.queue)}/{shown(record.ref.id)}: {answer}")


def _told_of_queue(queue: str, answer: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"queue": queue, "answer": answer})
    else:
        click.echo(f"{shown(queue)}: {answer}")
