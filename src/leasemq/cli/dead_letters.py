"""Commands about dead letters: jobs that failed or expired."""

from __future__ import annotations

from typing import Any

import click

from leasemq.app import App
from leasemq.cli.acting import REPLAY, Act, do_to_all, do_to_jobs, many_options
from leasemq.cli.choosing import (
    carry,
    chosen_jobs,
    dry_run_option,
    filter_options,
    known_queues,
    taken_filters,
    yes_option,
)
from leasemq.cli.listing import DEAD_LIST, Paging, cursor_option, limit_option, list_jobs
from leasemq.cli.printing import print_json, print_table
from leasemq.cli.target import looked_at, target_options
from leasemq.protocol.model import DEAD

_DEAD = tuple(sorted(DEAD))
_queue_option = click.option("--queue", help="Only this queue.")


@click.group(invoke_without_command=True)
@_queue_option
@filter_options
@limit_option
@cursor_option
@target_options
@click.pass_context
def dead(context: click.Context, /, queue: str | None, limit: int, cursor: str | None, **given: Any) -> None:
    """List the dead letters: jobs that failed or expired.

    Subcommands count, replay and purge them: `dead replay ID` runs one again,
    `dead replay --all` all that the filters choose.
    """
    if context.invoked_subcommand is not None:
        if cursor is not None:
            raise click.UsageError("--cursor goes on with a list; it is nothing to a subcommand", context)
        carry(context, queue=queue, **given)
        return
    where = {**taken_filters(given), "states": _DEAD}
    list_jobs(queue, where, Paging(limit=limit, cursor=cursor), DEAD_LIST, given)


@dead.command("replay")
@many_options
def dead_replay(**given: Any) -> int:
    """Run dead letters again, with their payload and history."""
    return do_to_jobs(REPLAY, given)


@dead.command("count")
@_queue_option
@filter_options
@target_options
def dead_count(queue: str | None, **given: Any) -> None:
    """Count the dead letters, by queue."""
    where = {**taken_filters(given), "states": _DEAD}

    async def look(app: App) -> dict[str, int]:
        names = await known_queues(app, queue)
        return {name: await chosen_jobs(app, name, where).count() for name in names}

    found = looked_at(given["url"], given["app_name"], look)
    if given["as_json"]:
        rows = [{"queue": name, "dead_letters": count} for name, count in found.items()]
        print_json({"dead_letters": sum(found.values()), "queues": rows})
    else:
        print_table(("queue", "dead_letters"), list(found.items()))


@dead.command("purge")
@_queue_option
@filter_options
@click.option("--limit", type=click.IntRange(1), help="In each queue the oldest, that many.")
@dry_run_option
@yes_option
@target_options
def dead_purge(**given: Any) -> int:
    """Delete dead letters, by age (`--older-than 30d`) and what else the filters say."""
    purge = Act(
        done="removed",
        one=lambda queue, id_: queue.remove(id_),
        many=lambda chosen, dry_run: chosen.remove(dry_run=dry_run),
        question="Delete every dead letter that is chosen",
    )
    return do_to_all(purge, {**taken_filters(given), "states": _DEAD}, given)
