"""How a command chooses jobs and queues: filters, durations, is a queue known, is somebody sure."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar

import click

from leasemq.app import App
from leasemq.cli.shaping import STATES
from leasemq.protocol.names import check_queue, shown
from leasemq.queue import Queue
from leasemq.selection import Selection

P = ParamSpec("P")
T = TypeVar("T")

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])?")
FILTERS = ("states", "task", "id_prefix", "reason", "older_than", "newer_than")


class Duration(click.ParamType[timedelta]):
    """A number of seconds, or one with a unit: 90, 15m, 2h, 7d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Answer it as a timedelta."""
        if isinstance(value, timedelta):
            return value
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{shown(str(value))!r} is no duration; say 90, 15m, 2h or 7d", param, ctx)
        try:
            return timedelta(seconds=float(found[1]) * _UNITS[found[2] or "s"])
        except OverflowError:
            self.fail(f"{shown(str(value))} is over 100 years", param, ctx)


class Moment(click.ParamType[datetime]):
    """An instant in ISO 8601, with its distance from UTC."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Answer it as a datetime with a time zone."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{shown(str(value))!r} is no instant; say 2030-01-31T09:00+00:00", param, ctx)
        if moment.utcoffset() is None:
            self.fail(f"{shown(str(value))!r} has no time zone; say 2030-01-31T09:00+00:00", param, ctx)
        return moment


queue_option = click.option("--queue", help="The queue, if the id alone is not clear.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
task_option = click.option("--task", help="Only jobs of this task.")
older_option = click.option(
    "--older-than", type=Duration(), metavar="AGE", help="Only what ended (or was accepted) so long ago: 7d."
)


def filter_options(command: Callable[P, T]) -> Callable[P, T]:
    """Give a command the options that choose jobs, but for the states."""
    id_prefix = click.option("--id", "id_prefix", metavar="PREFIX", help="Only ids that begin so.")
    reason = click.option("--reason", help="Only what failed so: error, retries, dead, timeout, stalled, ...")
    newer = click.option("--newer-than", type=Duration(), metavar="AGE", help="The same, at most so long.")
    return task_option(id_prefix(reason(older_option(newer(command)))))


state_option = click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in STATES]),
    help="Only in this state; may be given several times.",
)


def taken_filters(given: dict[str, Any]) -> dict[str, Any]:
    """Take the filters out of a command's options, those that were given."""
    taken = {name: given.pop(name) for name in FILTERS if name in given}
    return {name: value for name, value in taken.items() if value not in (None, ())}


def chosen_jobs(app: App, queue: str, where: Mapping[str, Any], limit: int | None = None) -> Selection:
    """Answer the jobs of one queue that the filters choose."""
    return app.queue(queue).where(**where, limit=limit)


async def known_queue(app: App, name: str) -> Queue:
    """Answer a queue that is known. Raises: ClickException (exit code 1) for another."""
    check_queue(name)
    if name not in await app.queues():
        raise click.ClickException(
            f"there is no queue {shown(name)}: no job was ever enqueued there; `leasemq queues` lists them"
        )
    return app.queue(name)


async def known_queues(app: App, name: str | None) -> Sequence[str]:
    """Answer the one queue that is named, if it is known, or all."""
    return await app.queues() if name is None else [(await known_queue(app, name)).name]


def ask(question: str, *, is_sure: bool) -> None:
    """Go on only if somebody says yes. Raises: Abort, UsageError if nobody can be asked."""
    if is_sure:
        return
    if sys.stdin is None:
        raise click.UsageError("nobody can be asked, since there is no input; say --yes")
    click.confirm(question, abort=True, err=True)


def carry(context: click.Context, **given: Any) -> None:
    """Let an option before a subcommand's name hold for the subcommand, unless it has one of its own."""
    assert context.invoked_subcommand is not None
    context.default_map = {context.invoked_subcommand: given}
