"""Commands that run jobs: a worker, and the demo."""

from __future__ import annotations

import logging
import os
import socket
import sys
from pathlib import Path
from secrets import SystemRandom
from typing import Any, cast

import click

from leasemq.cli.target import load_app
from leasemq.errors import InvalidSetting
from leasemq.logs import print_to_stderr
from leasemq.protocol.names import shown
from leasemq.serving.probes import LOCALHOST, ProbeAddress
from leasemq.serving.reports import Post, obey_supervisor
from leasemq.serving.supervisor import Supervisor
from leasemq.settings import find_settings, read_project
from leasemq.worker.loop import CRASHED
from leasemq.worker_setup import ServingOptions

EXITS = """
\b
Signals: the first SIGTERM or Ctrl-C lets what runs finish within the drain time and gives the rest
back; a second one gives everything back at once. With --processes, SIGHUP restarts them in turn.

\b
Exit codes:
   0  told to stop, and everything was finished or given back
   1  a second signal, leases that were left to expire, a hook that failed, or no backend at the start
   2  wrong use, or an app that cannot be loaded: nothing was claimed
  70  a bug, told in the log; what ran was given back
  75  more than half of the slots are taken by functions that do not end: to be started again
"""


@click.command(epilog=EXITS)
@click.argument("app_name", metavar="MODULE:APP", required=False)
@click.option("--concurrency", type=int, help="Jobs at once, 1 to 1,000.")
@click.option("--queues", help="Names separated by commas, asked in this order; default: those of the tasks.")
@click.option("--name", help="How the worker is called in lists and histories.")
@click.option("--lease", type=float, metavar="SECONDS", help="How long a job is held without a heartbeat.")
@click.option("--drain", type=float, metavar="SECONDS", help="How long running jobs may go on after a stop.")
@click.option(
    "--probe-port", type=click.IntRange(0, 65_535), help="Answer GET /live, /ready, /startup there."
)
@click.option("--probe-host", metavar="ADDRESS", help="On this address; default: 127.0.0.1.")
@click.option(
    "--processes", type=click.IntRange(1, 256), help="So many worker processes, started again when they end."
)
@click.option(
    "--log-level",
    default="INFO",
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]),
    help="What the log leaves out below.",
)
@click.option("--json", "as_json", is_flag=True, help="Write the log as JSON, one object a line.")
@click.option("--supervised", hidden=True)
def worker(
    app_name: str | None,
    processes: int | None,
    log_level: str,
    as_json: bool,
    supervised: str | None,
    **given: Any,
) -> int:
    """Run the jobs of MODULE:APP until a signal."""
    if supervised is not None:
        obey_supervisor(Post.from_text(supervised))
    settings, _ = find_settings({"queues": given["queues"]}, read_project())
    named = app_name or settings.app
    if named is None:
        raise InvalidSetting("name the app to work for: leasemq worker myapp:app, or set LEASEMQ_APP")
    if processes is not None:
        print_to_stderr(log_level, as_json=as_json)
        return _supervise(named, processes, given, log_level, as_json=as_json)
    options = {name: value for name, value in given.items() if value is not None}
    if given["queues"] is not None:
        options["queues"] = settings.queues
    app = load_app(named)
    print_to_stderr(log_level, as_json=as_json)
    try:
        return app.run_worker(**cast("ServingOptions", options))
    except ExceptionGroup:  # what its loops met and none of them expected
        logging.getLogger("leasemq").exception("the worker met a bug, and has given back what it could")
        return CRASHED


def _supervise(named: str, processes: int, given: dict[str, Any], log_level: str, *, as_json: bool) -> int:
    """Run several worker processes; the app is theirs to load."""
    host, port = given.pop("probe_host"), given.pop("probe_port")
    if host is not None and port is None:
        raise InvalidSetting(
            f"--probe-host {shown(host)} says where probes are answered; give --probe-port too"
        )
    name = given.pop("name") or f"{socket.gethostname()}-{os.getpid()}"
    chosen = [
        part for option, value in given.items() if value is not None for part in (f"--{option}", str(value))
    ]

    def command(name: str, post: Post) -> list[str]:
        own = ["--name", name, "--log-level", log_level, "--supervised", post.to_text()]
        shape = ["--json"] if as_json else []
        return [sys.executable, "-m", "leasemq", "worker", *chosen, *own, *shape, "--", named]

    return Supervisor(
        [f"{name}-{number}" for number in range(1, processes + 1)],
        command,
        roll=SystemRandom().random,
        probes=None if port is None else ProbeAddress(port=port, host=host or LOCALHOST),
    ).run()


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
