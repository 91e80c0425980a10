"""The log: whose line a line is, in text and in JSON, and the root logger as the user left it."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
from collections.abc import Iterator

import pytest

from leasemq.events import BackendLost, JobEnded, ProcessEnded
from leasemq.logs import FIELDS, JobFields, JsonFormatter, LineFormatter, level_of, log_event, this_worker
from leasemq.protocol.failure import describe_exception
from leasemq.protocol.model import Outcome, Ref
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage

ENDED = JobEnded(
    ref=Ref(queue="q", id="j\n1", generation=2), task="t", attempt=3, fence=7, outcome=Outcome.FAILED
)
URL = "redis://ada:hunter2@db.example:6379/0"


class Lines(logging.Handler):
    """Keeps what is logged, as text, JSON and record. Owned by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(JobFields())
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def texts(self) -> list[str]:
        return [LineFormatter().format(record) for record in self.records]

    def objects(self) -> list[dict[str, object]]:
        return [json.loads(JsonFormatter().format(record)) for record in self.records]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Hears the library's logger and one of the user's."""
    lines = Lines()
    loggers = [logging.getLogger("leasemq"), logging.getLogger("mine")]
    for logger in loggers:
        logger.addHandler(lines)
        logger.setLevel(logging.DEBUG)
    yield lines
    for logger in loggers:
        logger.removeHandler(lines)
        logger.setLevel(logging.NOTSET)


@pytest.mark.promise("A-43")
def test_an_event_is_fields_of_their_own_in_json_and_one_line_in_text(lines: Lines) -> None:
    log_event(ENDED)
    (line,), (text,) = lines.objects(), lines.texts()
    assert {name: line[name] for name in ("level", "logger", "event", "outcome")} == {
        "level": "ERROR",
        "logger": "leasemq",
        "event": "JobEnded",
        "outcome": "failed",
    }
    assert [line[name] for name in FIELDS if name in line] == ["q", "t", "j\n1", 2, 3, 7]
    assert text.isprintable()
    assert all(part in text for part in ("ERROR JobEnded", "ref=q/j", "#2", "task=t", "attempt=3", "fence=7"))


@pytest.mark.promise("A-43")
@pytest.mark.parametrize("formatter", [JsonFormatter(), LineFormatter()])
def test_no_line_can_be_forged_and_no_terminal_be_steered(lines: Lines, formatter: logging.Formatter) -> None:
    try:
        raise ValueError("boom\nERROR forged\x1b[31m")
    except ValueError:
        logging.getLogger("mine").exception("first\nERROR forged \x1b[2J \x85")
    written = formatter.format(lines.records[0])
    assert not any(line.startswith("ERROR forged") for line in written.splitlines())
    assert written.replace("\n", "").isprintable()
    assert "boom" in written
    if isinstance(formatter, JsonFormatter):
        assert len(written.splitlines()) == 1


@pytest.mark.promise("A-43")
def test_the_users_own_lines_say_in_which_attempt_they_were_written(theatre: Theatre, lines: Lines) -> None:
    async def play(stage: Stage) -> None:
        def in_thread() -> None:
            logging.getLogger("mine").info("in a thread")

        async def in_loop() -> None:
            logging.getLogger("mine").info("in the loop")
            await asyncio.gather(deeper())

        async def deeper() -> None:
            logging.getLogger("mine").info("deeper")

        if not stage.is_virtual:
            stage.task("in_thread", in_thread)
        stage.task("in_loop", in_loop)
        logging.getLogger("mine").info("outside")
        worker = stage.start(name="w")
        job = await stage.enqueue("in_loop")
        await stage.until_ended(job)
        record = await stage.job(job)
        await worker.stop()
        told = {line["message"]: line for line in lines.objects() if line["logger"] == "mine"}
        expected = ["w", record.history[0].incarnation, "q", "in_loop", job, 1, 1, record.fence]

        assert [told["in the loop"].get(name) for name in FIELDS] == expected
        assert [told["deeper"].get(name) for name in FIELDS] == expected
        assert not told["outside"].keys() & set(FIELDS)
        (text,) = [text for text in lines.texts() if "deeper" in text]
        assert f"INFO [w] mine: deeper (ref=q/{job}#1 task=in_loop attempt=1 fence={record.fence})" in text
        assert this_worker.get() is None

    theatre(play)


@pytest.mark.promise("P-102")
@pytest.mark.parametrize("formatter", [JsonFormatter(), LineFormatter()])
def test_no_password_of_a_url_is_written(lines: Lines, formatter: logging.Formatter) -> None:
    log_event(BackendLost(error=f"ConnectionError: no route to {URL}: refused"))
    try:
        raise ValueError(f"cannot reach {URL}")
    except ValueError:
        logging.getLogger("leasemq").exception("a bug at %s", URL)
    for record in lines.records:
        written = formatter.format(record)
        assert "hunter2" not in written
        assert "redis://ada:***@db.example:6379/0" in written


def test_records_survive_a_queue_between_processes(lines: Lines) -> None:
    log_event(ENDED)
    copy = pickle.loads(pickle.dumps(lines.records[0]))  # noqa: S301  the test's own bytes
    assert JsonFormatter().format(copy) == JsonFormatter().format(lines.records[0])


def test_a_process_that_ended_well_is_no_warning() -> None:
    ended = ProcessEnded(worker="w", pid=1, exit_code=0)
    assert level_of(ended) == logging.INFO
    assert level_of(ProcessEnded(worker="w", pid=1, exit_code=-9, restart_in_ms=5)) == logging.WARNING


@pytest.mark.promise("P-102")
def test_a_recorded_error_holds_no_password_of_a_url() -> None:
    try:
        raise ConnectionError(f"no route to {URL}")
    except ConnectionError as error:
        record = describe_exception(error)
    assert "hunter2" not in record.message + record.traceback
    assert record.message == "no route to redis://ada:***@db.example:6379/0"
