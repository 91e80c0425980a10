"""`leasemq metrics`: what a monitor wants to know, for people, programs and Prometheus."""

from __future__ import annotations

from typing import Any

import click

from leasemq.app import App
from leasemq.cli.printing import print_heading, print_json, print_table
from leasemq.cli.shaping import counts_plain
from leasemq.cli.target import looked_at, target_options
from leasemq.protocol.insight import Counts
from leasemq.protocol.metrics import Metrics, WorkerMetrics, exposition
from leasemq.protocol.times import iso_utc

_QUEUE = {  # field: heading
    "queue": "queue",
    "scheduled": "sched",
    "waiting": "wait",
    "active": "active",
    "blocked": "block",
    "dead_letters": "dead",
    "oldest_waiting_s": "oldest_s",
    "accepted": "accepted",
    "removed": "removed",
    "refused": "refused",
    "stalls": "stalls",
    "releases": "releases",
    "workers": "workers",
    "paused": "paused",
}
_WORKER = ("worker", "host", "pid", "queues", "slots", "running", "heartbeat_age_s")


@click.command()
@click.option("--prometheus", is_flag=True, help="Answer in Prometheus' text format.")
@target_options
def metrics(prometheus: bool, url: str | None, app_name: str | None, as_json: bool) -> None:
    """Show counts, dead letters, ages and counters of each queue, and the workers' heartbeats."""
    if prometheus and as_json:
        raise click.UsageError("--prometheus and --json are two formats; ask for one")

    async def look(app: App) -> Metrics:
        return await app.metrics()

    found = looked_at(url, app_name, look)
    if prometheus:
        click.echo(exposition(found), nl=False)
        return
    queues = [_queue_plain(counts, found) for counts in found.queues]
    workers = [_worker_plain(worker) for worker in found.workers]
    if as_json:
        print_json({"at": iso_utc(found.at_ms), "queues": queues, "workers": workers})
        return
    print_table(_QUEUE.values(), [[row[column] for column in _QUEUE] for row in queues])
    if workers:
        print_heading("workers")
        print_table(_WORKER, [[row[column] for column in _WORKER] for row in workers])


def _queue_plain(counts: Counts, found: Metrics) -> dict[str, Any]:
    return {
        **counts_plain(counts),
        "dead_letters": counts.dead_letters,
        "workers": found.workers_on(counts.queue),
    }


def _worker_plain(worker: WorkerMetrics) -> dict[str, Any]:
    return {
        "worker": worker.worker,
        "incarnation": worker.incarnation,
        "host": worker.host,
        "pid": worker.pid,
        "queues": list(worker.queues),
        "slots": worker.slots,
        "running": worker.running,
        "heartbeat_age_s": worker.heartbeat_age_ms / 1_000,
    }
