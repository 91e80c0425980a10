"""`leasemq watch`: what happened to a job and then what happens, on a terminal and in a pipe."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from leasemq import App, State
from leasemq.backends.memory import MemoryBackend
from leasemq.cli.printing import text_width
from leasemq.cli.sight import Progress, Sight, glyphs_for
from leasemq.cli.watching import ENDS, EXITS, REMOVED, Screen, followed
from leasemq.protocol.decide import Reason
from leasemq.protocol.envelope import encode_plain
from leasemq.protocol.model import Lease, Note, NoteKind
from leasemq.testing.faults import Wire, faulty
from leasemq.testing.virtual_loop import run_virtual
from tests.app.holder import Holder
from tests.cli.conftest import Command
from tests.cli.test_terminal import on_terminal

AT = "--app=myapp:app"
PLAYER = [sys.executable, "-W", "error", "-m", "leasemq", "watch", "mail/w"]


class Course:
    """Moves the job `mail/w` on, as a worker would."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._holder = Holder(app)
        self._lease: Lease | None = None
        self._notes = 0
        app.tasks["send"].options(id="w").enqueue_sync("ada")

    def claim(self) -> None:
        (self._lease,) = self._app.call_sync(lambda: self._holder.claim("mail"))
        self._notes = 0

    def tell(self, current: int, total: int | None = None, message: str | None = None) -> None:
        value = encode_plain({"current": current, "total": total, "message": message}, what="progress")
        self._notes += 1
        note = Note(
            job_id="w", fence=self.lease.fence, kind=NoteKind.PROGRESS, value=value, number=self._notes
        )

        async def write() -> None:
            await (await self._app._connections.here()).backend.note("mail", [note])

        self._app.call_sync(write)

    def complete(self) -> None:
        send = self._app.tasks["send"]
        self._app.call_sync(lambda: self._holder.returns(self.lease, send, "sent"))

    def give_up(self, error: Exception) -> None:
        self._app.call_sync(lambda: self._holder.gives_up(self.lease, error, Reason.DEAD))

    def expire(self) -> None:
        """Replace the job by one that has lived too long, and sweep until that was seen."""
        self._app.queue("mail").remove_sync("w")
        self._app.tasks["send"].options(id="w", ttl=0.001).enqueue_sync("ada")

        async def sweep() -> None:
            backend = (await self._app._connections.here()).backend
            job = self._app.job("mail", "w")
            while await job.state() is not State.EXPIRED:
                await backend.advance("mail", 10)

        self._app.call_sync(sweep)

    @property
    def lease(self) -> Lease:
        assert self._lease is not None
        return self._lease


@pytest.fixture
def course(app: App) -> Course:
    return Course(app)


@contextmanager
def watching(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A process that watches, with its output as a pipe; what it writes to stderr is read at the end."""
    started = [*PLAYER, AT, *options]
    with subprocess.Popen(
        started, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.kill()


def untimed(line: str) -> list[str]:
    """The columns of a line but the first."""
    time, *columns = line.rstrip("\n").split("\t")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    return columns


@pytest.mark.promise("A-31", "A-45")
def test_in_a_pipe_each_event_is_a_line_as_it_happens(course: Course, folder: Path) -> None:
    def next_line() -> list[str]:
        return untimed(lines.readline())

    with watching(folder) as (process, lines):
        assert next_line() == ["mail/w", "enqueued", "waiting", "0", "-", "-", "-"]
        course.claim()
        assert next_line() == ["mail/w", "claimed", "active", "1", "-", "-", "-"]
        course.tell(1, 3, "a\tb\x1b[2J")
        assert next_line() == ["mail/w", "progress", "active", "1", "1/3", "33%", "a\\tb\\x1b[2J"]
        course.tell(2)
        assert next_line() == ["mail/w", "progress", "active", "1", "2", "-", "-"]
        course.complete()
        assert next_line() == ["mail/w", "completed", "completed", "1", "-", "-", "-"]
        assert lines.read() == ""
        assert process.wait(30) == 0


@pytest.mark.promise("A-31", "A-45")
def test_with_json_each_event_is_one_object_on_a_line(course: Course, leasemq: Command) -> None:
    course.claim()
    course.tell(1, 4, "é")
    course.give_up(ValueError("no such address"))
    answer = leasemq("watch", "w", "--queue", "mail", "--json", AT)
    assert answer.code == 3
    assert answer.out.isascii()
    told = [json.loads(line) for line in answer.out.splitlines()]
    assert [(one["event"], one["state"], one["attempt"]) for one in told] == [
        ("enqueued", "waiting", 0),
        ("claimed", "active", 1),
        ("progress", "active", 1),
        ("failed", "failed", 1),
    ]
    progress = told[2]["progress"]
    assert progress == {"current": 1, "total": 4, "percent": 25, "message": "é", "data": None}
    assert told[3]["note"] == "ValueError: no such address"


def completed(course: Course) -> None:
    course.claim()
    course.complete()


def failed(course: Course) -> None:
    course.claim()
    course.give_up(ValueError("no"))


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (completed, 0),
        (failed, 3),
        (lambda course: course._app.queue("mail").cancel_sync("w"), 4),
        (Course.expire, 5),
    ],
    ids=["completed", "failed", "cancelled", "expired"],
)
@pytest.mark.promise("A-45")
def test_each_end_has_an_exit_code(
    course: Course, leasemq: Command, end: Callable[[Course], object], code: int
) -> None:
    end(course)
    answer = leasemq("watch", "mail/w", AT)
    assert (answer.code, answer.err) == (code, "")


@pytest.mark.promise("A-45")
def test_the_exit_codes_of_the_page_are_those_of_the_help() -> None:
    page = (Path(__file__).parents[2] / "docs" / "watching.md").read_text(encoding="utf-8")
    of_page = re.findall(r"^\| (\d+) \| (.+) \|$", page, re.M)
    of_help = re.findall(r"^ +(\d+)  (.+)$", EXITS, re.M)
    assert of_page == of_help
    assert {str(code) for code in (*ENDS.values(), REMOVED)} < {code for code, _ in of_page}


@pytest.mark.promise("A-45")
def test_an_unknown_job_is_one_line_and_exit_code_one(course: Course, leasemq: Command) -> None:
    answer = leasemq("watch", "mail/no-such", AT)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: no job mail/no-such")


@pytest.mark.promise("A-45")
def test_a_job_that_is_removed_meanwhile_ends_the_watching(course: Course, app: App, folder: Path) -> None:
    with watching(folder) as (process, lines):
        lines.readline()
        app.queue("mail").remove_sync("w")
        assert untimed(lines.readline())[1:3] == ["removed", "removed"]
        assert process.wait(30) == 6


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """Let a process hear Ctrl-C although these tests run in the background, where a shell has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.promise("P-62")
async def test_an_outage_while_an_error_is_read_costs_the_error_and_not_the_watching() -> None:
    wire = Wire()
    app = App(faulty(MemoryBackend(), wire))

    @app.task(name="t")
    async def t(n: int) -> None: ...

    class Seen:
        def __init__(self) -> None:
            self.sights: list[Sight] = []

        def show(self, sight: Sight) -> None:
            self.sights.append(sight)
            if sight.event == "claimed":
                wire.lose_request("get")

        def close(self) -> None: ...

    view = Seen()
    async with app:
        job = await t.enqueue(1)
        holder = Holder(app)
        await holder.gives_up(*await holder.claim(), ValueError("no"), Reason.DEAD)
        assert await followed(job, view) == ENDS[State.FAILED]
    assert [(sight.event, sight.note) for sight in view.sights][-1] == ("failed", None)


@pytest.mark.promise("A-45")
@pytest.mark.usefixtures("ctrl_c_is_heard")
def test_ctrl_c_leaves_the_job_alone(course: Course, app: App, folder: Path) -> None:
    with watching(folder) as (process, lines):
        lines.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert process.stderr.read().strip() == ""
    assert app.job("mail", "w").state_sync() is State.WAITING


@pytest.mark.promise("A-45")
def test_a_reader_that_is_gone_is_no_traceback(course: Course, folder: Path) -> None:
    with watching(folder) as (process, lines):
        lines.readline()
        lines.close()
        course.claim()
        assert process.wait(30) == 1
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.fixture
def retried(course: Course) -> Course:
    """A job that told of itself, failed once, and completed at the next attempt."""
    course.claim()
    course.tell(1, 2, "first\r\x1b[31m half")
    course.give_up(ValueError("no such address"))
    course._app.queue("mail").replay_sync("w")
    course.claim()
    course.tell(2, 2, "third half")
    course.complete()
    return course


@pytest.mark.promise("A-31", "A-45")
def test_on_a_terminal_there_is_one_line_with_a_bar(retried: Course, folder: Path) -> None:
    printed = on_terminal(folder, "watch", "mail/w", AT, PYTHONIOENCODING="utf-8", TERM="xterm")
    heading, line, rest = printed.split("\n")
    assert heading == "\x1b[1mmail/w\x1b[0m"
    assert rest == ""
    drawn = line.split("\r")
    assert any(one.startswith("\x1b[31mfailed") and "ValueError: no such" in one for one in drawn)
    assert drawn[-1].startswith("\x1b[32mcompleted\x1b[0m  attempt ")
    assert re.search(r"  █{15}  100%  2/2  third half  \d+:\d\d *$", drawn[-1])


@pytest.mark.promise("A-31", "A-45")
def test_a_terminal_shows_what_happens_while_it_happens(course: Course, folder: Path) -> None:
    ours, theirs = pty.openpty()
    terminal = {"PYTHONIOENCODING": "ascii", "COLUMNS": "80", "TERM": "xterm"}
    with subprocess.Popen(
        [*PLAYER, AT],
        cwd=folder,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **terminal},
    ) as process:
        os.close(theirs)

        def await_text(text: bytes) -> None:
            seen = b""
            while text not in seen:
                seen += os.read(ours, 65_536)  # raises once the process has gone

        await_text(b"waiting")
        course.claim()
        await_text(b"active")
        course.tell(1, 2, "half")
        await_text(b"]   50%  1/2  half")
        course.complete()
        await_text(b"completed")
        assert process.wait(30) == 0
    os.close(ours)


@pytest.mark.promise("A-45")
def test_a_terminal_without_colours_width_and_unicode_gets_what_it_can_show(
    retried: Course, folder: Path
) -> None:
    asked = {"NO_COLOR": "1", "PYTHONIOENCODING": "ascii", "TERM": "xterm"}
    printed = on_terminal(folder, "watch", "mail/w", AT, columns=40, **asked)
    assert "\x1b" not in printed
    assert printed.isascii()
    assert {text_width(one) <= 39 for one in re.split(r"[\r\n]", printed)} == {True}
    wide = on_terminal(folder, "watch", "mail/w", AT, columns=70, **asked)
    assert "[#############]  100%  2/2" in wide


@pytest.mark.promise("A-45")
def test_a_dumb_terminal_gets_lines(retried: Course, folder: Path) -> None:
    printed = on_terminal(folder, "watch", "mail/w", AT, TERM="dumb")
    assert "\r" not in printed
    assert [line.split("\t")[2] for line in printed.splitlines()][-1] == "completed"


@pytest.fixture
def drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What a screen of 60 columns draws, one after the other, of these sights and for seconds after them."""
    monkeypatch.setenv("COLUMNS", "60")

    def draw(*sights: Sight, for_s: float = 0) -> list[str]:
        async def show() -> None:
            loop = asyncio.get_running_loop()
            screen = Screen(glyphs_for("utf-8"), clock=lambda: round(loop.time() * 1_000))
            for sight in sights:
                screen.show(sight)
            await asyncio.sleep(for_s)
            screen.close()
            await asyncio.sleep(for_s)

        run_virtual(show())
        heading, line, rest = capsys.readouterr().out.split("\n")
        assert (heading, rest) == ("q/x", "")
        nothing, *lines = line.split("\r")
        assert nothing == ""
        return lines

    return draw


CLAIMED = Sight(at_ms=0, queue="q", id="x", generation=1, event="claimed", state="active", attempt=1)
THREE = replace(CLAIMED, event="progress", progress=Progress(current=3))


@pytest.mark.promise("A-31")
def test_a_line_is_drawn_over_the_longer_one_before_it(drawn: Callable[..., list[str]]) -> None:
    first, second = drawn(replace(CLAIMED, note="long" * 9), THREE)
    assert second.rstrip() == "active  attempt 1  3  0:00"
    assert len(second) == len(first)


@pytest.mark.promise("A-31")
def test_a_line_is_drawn_anew_each_second_until_it_is_closed(drawn: Callable[..., list[str]]) -> None:
    lines = drawn(THREE, for_s=2.5)
    assert lines == [f"active  attempt 1  3  0:0{second}" for second in (0, 1, 2)]


@pytest.mark.promise("A-31")
def test_a_new_attempt_begins_without_the_progress_of_the_last(drawn: Callable[..., list[str]]) -> None:
    retried = replace(CLAIMED, at_ms=5_000, event="retried", state="scheduled", note="ValueError: no")
    again = replace(CLAIMED, at_ms=6_000, attempt=2)
    lines = drawn(THREE, retried, again)
    assert lines[1].startswith("scheduled  attempt 1  3  ValueError: no  0:00")
    assert lines[2].rstrip() == "active  attempt 2  0:00"


@pytest.mark.promise("A-31")
def test_of_a_job_that_is_over_the_time_of_its_last_attempt_stays(drawn: Callable[..., list[str]]) -> None:
    lines = drawn(replace(CLAIMED, at_ms=1_000), replace(CLAIMED, at_ms=62_000, state="completed"), for_s=9)
    assert lines[-1].rstrip() == "completed  attempt 1  1:01"
    assert len(lines) == 2
