"""The command that follows one job to its end: a bar on a terminal, a line for each event elsewhere."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any, Protocol

import click

from leasemq.app import App
from leasemq.cli.choosing import queue_option
from leasemq.cli.finding import found_job
from leasemq.cli.printing import text_width
from leasemq.cli.sight import Glyphs, Progress, Sight, bar_of, glyphs_for, json_of, line_of, progress_of
from leasemq.cli.target import looked_at, target_options
from leasemq.clock import Clock, wall_ms
from leasemq.errors import BackendUnavailable, CorruptRecord, JobNotFound
from leasemq.feed import JobEvent
from leasemq.job import Job
from leasemq.protocol.failure import decode_error
from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import State
from leasemq.protocol.times import due_at_ms

ENDS = {State.COMPLETED: 0, State.FAILED: 3, State.CANCELLED: 4, State.EXPIRED: 5}
REMOVED = 6
EXITS = """
\b
Elsewhere than on a terminal each event is a line of eight columns, with a tab between them: time, job,
event, state, attempt, count, per cent, message. Ctrl-C stops the watching; the job goes on.

\b
Exit codes:
    0  the job completed
    1  there is no such job, or the backend cannot be reached
    2  wrong use
    3  it failed
    4  it was cancelled
    5  it expired before it was started
    6  it was removed before it ended
  130  Ctrl-C
"""
_REDRAW_S = 1.0
_GONE = "removed"
_COLOURS = {
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "expired": "yellow",
    _GONE: "yellow",
}
_WITH_ERROR = (EventKind.RETRIED, EventKind.FAILED)


class View(Protocol):
    """What shows a job to somebody."""

    def show(self, sight: Sight) -> None:
        """Show what has just happened."""

    def close(self) -> None:
        """Leave the output as others expect it."""


class Lines:
    """One line for each event."""

    def __init__(self, text_of: Callable[[Sight], str]) -> None:
        self._text_of = text_of

    def show(self, sight: Sight) -> None:
        """See `View.show`."""
        click.echo(self._text_of(sight))

    def close(self) -> None:
        """See `View.close`."""


class Screen:
    """One line of a terminal, drawn anew at each event and each second. Owner: the command, in its loop."""

    def __init__(self, glyphs: Glyphs, clock: Clock = wall_ms) -> None:
        self._glyphs = glyphs
        self._clock = clock
        self._sight: Sight | None = None
        self._since_ms = 0  # when it came into its state; of one that is over, into the state before
        self._progress: Progress | None = None  # of this attempt
        self._width = 0  # of what is on the line
        self._redraw: asyncio.TimerHandle | None = None

    def show(self, sight: Sight) -> None:
        """See `View.show`."""
        before = self._sight
        if before is None:
            click.echo(_bold(self._glyphs.escaped(f"{sight.queue}/{sight.id}")))
        if before is None or (before.state != sight.state and sight.state not in _COLOURS):
            self._since_ms = sight.at_ms
        if sight.event == EventKind.CLAIMED:
            self._progress = None
        self._progress = sight.progress or self._progress
        self._sight = replace(sight, progress=self._progress)
        self._draw()

    def close(self) -> None:
        """See `View.close`."""
        if self._redraw is not None:
            self._redraw.cancel()
        if self._width:
            click.echo()
        self._width = 0

    def _draw(self) -> None:
        """Draw over what is there; the last column stays free, since a full line wraps on some terminals."""
        sight = self._sight
        assert sight is not None
        is_over = sight.state in _COLOURS
        until_ms = sight.at_ms if is_over else self._clock()
        columns = max(1, shutil.get_terminal_size().columns - 1)
        line = bar_of(sight, (until_ms - self._since_ms) // 1_000, columns, self._glyphs)
        blank = " " * (min(self._width, columns) - text_width(line))
        self._width = text_width(line)
        click.echo(f"\r{_coloured(line, sight.state)}{blank}", nl=False)
        if self._redraw is not None:
            self._redraw.cancel()
        self._redraw = None if is_over else asyncio.get_running_loop().call_later(_REDRAW_S, self._draw)


@click.command(epilog=EXITS)
@click.argument("name", metavar="[QUEUE/]ID")
@queue_option
@target_options
def watch(name: str, queue: str | None, url: str | None, app_name: str | None, as_json: bool) -> int:
    """Follow one job until it ends: what has happened to it, then what happens."""

    async def look(app: App) -> int:
        record = await found_job(app, name, queue)
        job = app.job(record.ref.queue, record.ref.id, generation=record.ref.generation)
        return await followed(job, _view(as_json=as_json))

    return looked_at(url, app_name, look)


async def followed(job: Job[Any], view: View) -> int:
    """Show each event of a job until its end, and answer the exit code. Raises: JobNotFound."""
    code = REMOVED
    try:
        async with aclosing(job.watch()) as events:
            async for event in events:
                view.show(_sight_of(event, await _note(job, event)))
                code = REMOVED if event.state is None else ENDS.get(event.state, REMOVED)
    finally:
        view.close()
    return code


def _view(*, as_json: bool) -> View:
    if as_json:
        return Lines(json_of)
    glyphs = glyphs_for(None if sys.stdout is None else sys.stdout.encoding)
    if sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        return Screen(glyphs)
    return Lines(lambda sight: line_of(sight, glyphs))


def _sight_of(event: JobEvent, note: str | None) -> Sight:
    return Sight(
        at_ms=due_at_ms(event.at),
        queue=event.queue,
        id=event.id,
        generation=event.generation,
        event=event.kind,
        state=_GONE if event.state is None else event.state,
        attempt=event.attempt,
        progress=None if event.progress is None else progress_of(asdict(event.progress)),
        note=note,
    )


async def _note(job: Job[Any], event: JobEvent) -> str | None:
    """Answer the error that an attempt ended with, if its record still has it."""
    if event.kind not in _WITH_ERROR:
        return None
    try:
        record = await job.record()
        ended_ms = due_at_ms(event.at)  # numbers begin anew at a replay
        errors = [attempt.error for attempt in record.history if attempt.ended_ms == ended_ms]
        stored = errors[-1] if errors else None
        error = None if stored is None else decode_error(stored, job=job.id)
    except (JobNotFound, CorruptRecord, BackendUnavailable):  # the events go on through an outage
        return None
    if error is not None:
        return f"{error.type}: {error.message}"
    return record.reason if event.kind is EventKind.FAILED else None


def _bold(text: str) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, bold=True)


def _coloured(line: str, state: str) -> str:
    """Answer the line with its first word, the state, in a colour of its own."""
    colour = None if os.environ.get("NO_COLOR") else _COLOURS.get(state)
    return line if colour is None else f"{click.style(line[: len(state)], fg=colour)}{line[len(state) :]}"
