"""Commands that run jobs: a worker, and the demo."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import click

from leasemq.cli.target import load_app
from leasemq.errors import InvalidSetting
from leasemq.protocol.times import iso_utc
from leasemq.settings import find_settings, read_project
from leasemq.worker.loop import CRASHED
from leasemq.worker_setup import WorkerOptions


@click.command()
@click.argument("app_name", metavar="MODULE:APP", required=False)
@click.option("--concurrency", type=int, help="Jobs at once, 1 to 1,000.")
@click.option("--queues", help="Names separated by commas, asked in this order; default: those of the tasks.")
@click.option("--name", help="How the worker is called in lists and histories.")
@click.option("--lease", type=float, metavar="SECONDS", help="How long a job is held without a heartbeat.")
@click.option("--drain", type=float, metavar="SECONDS", help="How long running jobs may go on after a stop.")
@click.option("--log-level", default="INFO", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]))
@click.option("--json", "as_json", is_flag=True, help="Write the log as JSON, one object a line.")
def worker(
    app_name: str | None,
    concurrency: int | None,
    queues: str | None,
    name: str | None,
    lease: float | None,
    drain: float | None,
    log_level: str,
    as_json: bool,
) -> int:
    """Run the jobs of MODULE:APP until a signal.

    The first SIGTERM or Ctrl-C lets what runs finish within the drain time and gives the rest back;
    a second one gives everything back at once.
    """
    settings, _ = find_settings({"queues": queues}, read_project())
    named = app_name or settings.app
    if named is None:
        raise InvalidSetting("name the app to work for: leasemq worker myapp:app, or set LEASEMQ_APP")
    options: WorkerOptions = {}
    if concurrency is not None:
        options["concurrency"] = concurrency
    if queues is not None and settings.queues is not None:
        options["queues"] = settings.queues
    if name is not None:
        options["name"] = name
    if lease is not None:
        options["lease"] = lease
    if drain is not None:
        options["drain"] = drain
    app = load_app(named)
    _log_to_stderr(log_level, as_json=as_json)
    try:
        return app.run_worker(**options)
    except ExceptionGroup:  # what its loops met and none of them expected
        logging.getLogger("leasemq").exception("the worker met a bug, and has given back what it could")
        return CRASHED


@click.command()
@click.argument(
    "folder",
    required=False,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option("--sabotage", type=click.Choice(["fence", "recover"]), help="Switch a safeguard off.")
@click.option("--jobs", type=click.IntRange(1), help="How many jobs.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def demo(folder: Path | None, sabotage: str | None, jobs: int | None, as_json: bool) -> int:
    """Run real jobs while workers are killed and frozen, and count what was lost.

    Works on the files of FOLDER, or on files of its own making; nothing in FOLDER is changed. Ends
    with the line `lost 0` and code 0, or with code 1.
    """
    from leasemq.demo import run_demo

    return run_demo(folder, sabotage, jobs, as_json)


def _log_to_stderr(level: str, *, as_json: bool) -> None:
    """Write the library's own log to stderr; the root logger is left alone."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(
        _JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logger = logging.getLogger("leasemq")
    logger.addHandler(writer)
    logger.setLevel(level)
    logger.propagate = False


class _JsonLines(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Answer the line."""
        line = {
            "at": iso_utc(int(record.created * 1_000)),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)
