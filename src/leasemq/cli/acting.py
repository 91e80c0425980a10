"""Commands that change jobs: those that are named, or with `--all` those that the filters choose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar

import click

from leasemq.app import App
from leasemq.cli.choosing import (
    Duration,
    Moment,
    ask,
    chosen_jobs,
    dry_run_option,
    filter_options,
    known_queues,
    queue_option,
    state_option,
    taken_filters,
    yes_option,
)
from leasemq.cli.finding import found_job
from leasemq.cli.printing import print_json
from leasemq.cli.shaping import ref_plain, tally_plain
from leasemq.cli.target import looked_at, target_options
from leasemq.errors import IllegalMove, JobNotFound, UniqueConflict
from leasemq.protocol.model import Ref
from leasemq.protocol.names import shown
from leasemq.queue import Queue
from leasemq.selection import Selection, Tally

P = ParamSpec("P")
T = TypeVar("T")
NOT_ALL_DONE = 1

names_argument = click.argument("names", metavar="[QUEUE/]ID...", nargs=-1)
_all_option = click.option("--all", "is_for_all", is_flag=True, help="All that the filters choose, not ids.")
_limit_option = click.option(
    "--limit", type=click.IntRange(1), help="With --all: in each queue the oldest, that many."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a command does to one job, and to many. `question`: asked before it is done to many."""

    done: str
    one: Callable[[Queue, str], Awaitable[object]]
    many: Callable[[Selection, bool], Awaitable[Tally]]
    question: str | None = None


def many_options(command: Callable[P, T]) -> Callable[P, T]:
    """Give a command names, or filters with `--all`, and what bulk actions take."""
    for option in (target_options, dry_run_option, yes_option, _limit_option, filter_options):
        command = option(command)
    return names_argument(queue_option(_all_option(command)))


@click.command()
@many_options
@state_option
def cancel(**given: Any) -> int:
    """Cancel jobs. One that has not started never does; one that runs is told to stop."""
    return do_to_jobs(
        Act(
            done="cancelled",
            one=lambda queue, id_: queue.cancel(id_),
            many=lambda chosen, dry_run: chosen.cancel(dry_run=dry_run),
            question="Cancel every job that is chosen",
        ),
        given,
    )


@click.command()
@many_options
@state_option
def replay(**given: Any) -> int:
    """Run dead or cancelled jobs again, with their payload and history.

    With --all and no --state: those that failed or expired.
    """
    return do_to_jobs(REPLAY, given)


@click.command()
@many_options
def promote(**given: Any) -> int:
    """Make delayed jobs due now."""
    return do_to_jobs(
        Act(
            done="promoted",
            one=lambda queue, id_: queue.promote(id_),
            many=lambda chosen, dry_run: chosen.promote(dry_run=dry_run),
        ),
        given,
    )


@click.command()
@many_options
@state_option
@click.option(
    "--priority", type=click.IntRange(-100, 100), required=True, help="From -100 to 100; 100 first."
)
def reprioritise(priority: int, **given: Any) -> int:
    """Change the priority of jobs that have not started."""
    return do_to_jobs(
        Act(
            done="reprioritised",
            one=lambda queue, id_: queue.reprioritise(id_, priority),
            many=lambda chosen, dry_run: chosen.reprioritise(priority, dry_run=dry_run),
        ),
        given,
    )


@click.command()
@many_options
@state_option
@click.option("--in", "delay", type=Duration(), metavar="DELAY", help="Due so long from now: 0, 90, 15m, 2d.")
@click.option("--at", "due_at", type=Moment(), metavar="INSTANT", help="Due then: 2030-01-31T09:00+00:00.")
def reschedule(delay: timedelta | None, due_at: datetime | None, **given: Any) -> int:
    """Move the due time of scheduled and waiting jobs."""
    if (delay is None) == (due_at is None):
        raise click.UsageError("say --in or --at")
    return do_to_jobs(
        Act(
            done="rescheduled",
            one=lambda queue, id_: queue.reschedule(id_, delay, due_at=due_at),
            many=lambda chosen, dry_run: chosen.reschedule(delay, due_at=due_at, dry_run=dry_run),
        ),
        given,
    )


@click.command()
@many_options
@state_option
@click.option("--force", is_flag=True, help="Even one that runs: its worker then loses the lease.")
def remove(force: bool, **given: Any) -> int:
    """Delete jobs and all that is stored with them."""
    return do_to_jobs(
        Act(
            done="removed",
            one=lambda queue, id_: queue.remove(id_, force=force),
            many=lambda chosen, dry_run: chosen.remove(force=force, dry_run=dry_run),
            question="Delete every job that is chosen",
        ),
        given,
    )


REPLAY = Act(
    done="replayed",
    one=lambda queue, id_: queue.replay(id_),
    many=lambda chosen, dry_run: chosen.replay(dry_run=dry_run),
)


def do_to_jobs(act: Act, given: dict[str, Any]) -> int:
    """Act on the jobs that are named, or on all that the filters choose; answers the exit code."""
    where, names = taken_filters(given), given["names"]
    if given["is_for_all"]:
        if names:
            raise click.UsageError("name jobs, or say --all with filters; not both")
        return do_to_all(act, where, given)
    if where or given["limit"] is not None:
        raise click.UsageError("filters choose jobs only with --all")
    if not names:
        raise click.UsageError("Missing argument '[QUEUE/]ID...': name jobs, or say --all with filters")
    return _do_to_named(act, names, given)


def do_to_all(act: Act, where: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """Act on all that the filters choose, queue by queue; answers the exit code."""
    queue, dry_run = given["queue"], given["dry_run"]
    if act.question is not None:
        place = "in all queues" if queue is None else f"in {shown(queue)}"
        ask(f"{act.question} {place}?", is_sure=given["yes"] or dry_run)

    async def work(app: App) -> dict[str, Tally]:
        names = await known_queues(app, queue)
        return {
            name: await act.many(chosen_jobs(app, name, where, given["limit"]), dry_run) for name in names
        }

    done = looked_at(given["url"], given["app_name"], work)
    if given["as_json"]:
        print_json({"dry_run": dry_run, "queues": [tally_plain(name, one) for name, one in done.items()]})
    else:
        for name, tally in done.items():
            click.echo(f"{shown(name)}: {_said(tally, act.done)}")
    return NOT_ALL_DONE if any(tally.conflicts for tally in done.values()) else 0


def _said(tally: Tally, done: str) -> str:
    parts = [f"{tally.done} would be {done}" if tally.dry_run else f"{tally.done} {done}"]
    for count, said in (
        (tally.cancelling, "told to stop"),
        (tally.conflicts, "in conflict with the holder of their unique key"),
        (tally.left_alone, "left alone"),
        (tally.not_found, "gone meanwhile"),
    ):
        parts += [f"{count} {said}"] if count else []
    return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What became of one job that was named; `refusal`: why nothing was done."""

    ref: Ref
    answer: str
    refusal: str | None = None


def _do_to_named(act: Act, names: Sequence[str], given: Mapping[str, Any]) -> int:
    """Find every job first, so that a mistyped name changes nothing; then act on each in turn."""
    if given["dry_run"]:
        raise click.UsageError("--dry-run says what --all would do; a job that is named is shown by `job`")

    async def work(app: App) -> list[_Told]:
        found = [await found_job(app, name, given["queue"]) for name in names]
        return [await _told(act, app.queue(record.ref.queue), record.ref) for record in found]

    told = looked_at(given["url"], given["app_name"], work)
    if given["as_json"]:
        print_json({"jobs": [_plain(one) for one in told]})
    for one in told:
        if one.refusal is not None:
            click.echo(f"error: {shown(one.refusal)}", err=True)
        elif not given["as_json"]:
            click.echo(f"{shown(one.ref.queue)}/{shown(one.ref.id)}: {one.answer}")
    return NOT_ALL_DONE if any(one.refusal is not None for one in told) else 0


async def _told(act: Act, queue: Queue, ref: Ref) -> _Told:
    try:
        answer = await act.one(queue, ref.id)
    except (IllegalMove, UniqueConflict, JobNotFound) as error:
        return _Told(ref=ref, answer="refused", refusal=str(error))
    return _Told(ref=ref, answer=act.done if answer is None else str(answer))


def _plain(told: _Told) -> dict[str, Any]:
    plain = {**ref_plain(told.ref), "answer": told.answer}
    return plain if told.refusal is None else {**plain, "error": told.refusal}
