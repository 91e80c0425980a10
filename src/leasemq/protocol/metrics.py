"""What a monitor wants to know of a store: as many series as its queues and workers need, not its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from leasemq.protocol.insight import Counts, WorkerInfo
from leasemq.protocol.model import State

Labels = Sequence[tuple[str, str]]
Sample = tuple[Labels, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMetrics:
    """One life of a worker. `running` and `slots` as it told them `heartbeat_age_ms` ago."""

    worker: str
    incarnation: str
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    running: int
    heartbeat_age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Counts per queue, by name, and the live workers, by name and incarnation."""

    at_ms: int
    queues: tuple[Counts, ...]
    workers: tuple[WorkerMetrics, ...]

    def workers_on(self, queue: str) -> int:
        """Answer how many live workers work on a queue."""
        return sum(queue in one.queues for one in self.workers)

    @property
    def left_alone(self) -> Sequence[str]:
        """The queues with jobs that have not ended, and no live worker."""
        open_ = {one.queue: one.scheduled + one.waiting + one.active + one.blocked for one in self.queues}
        return [name for name, number in open_.items() if number and not self.workers_on(name)]


def measured(at_ms: int, queues: Sequence[Counts], workers: Sequence[WorkerInfo]) -> Metrics:
    """Answer the metrics of what was read by `at_ms`, the backend's clock."""
    return Metrics(
        at_ms=at_ms,
        queues=tuple(queues),
        workers=tuple(
            WorkerMetrics(
                worker=one.worker,
                incarnation=one.incarnation,
                host=one.host,
                pid=one.pid,
                queues=one.queues,
                slots=one.slots,
                running=one.running,
                heartbeat_age_ms=max(0, at_ms - one.seen_ms),
            )
            for one in workers
        ),
    )


def exposition(metrics: Metrics) -> str:
    """Answer the metrics in Prometheus' text format, version 0.0.4.

    Counters end in `_total` and only grow; every queue has every series, also where it is 0. Lives of a
    worker under one name are added up.
    https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
    """
    lines: list[str] = []
    for name, kind, text, samples in _families(metrics):
        lines += [f"# HELP leasemq_{name} {text}", f"# TYPE leasemq_{name} {kind}"]
        lines += [f"leasemq_{name}{_labelled(labels)} {_number(value)}" for labels, value in samples]
    return "".join(f"{line}\n" for line in lines)


_OF_QUEUES: Sequence[tuple[str, str, str, Callable[[Counts], float]]] = (
    ("dead_letters", "gauge", "Jobs that failed or expired.", lambda one: one.dead_letters),
    (
        "oldest_waiting_seconds",
        "gauge",
        "Age of the job that waits longest; 0 if none waits.",
        lambda one: (one.oldest_waiting_ms or 0) / 1_000,
    ),
    ("queue_paused", "gauge", "Whether the queue is paused.", lambda one: one.paused),
    ("jobs_accepted_total", "counter", "Jobs accepted.", lambda one: one.accepted),
    ("jobs_removed_total", "counter", "Job records removed.", lambda one: one.removed),
    ("refused_writes_total", "counter", "Stale writes refused.", lambda one: one.refused),
    ("stalls_total", "counter", "Attempts whose holder fell silent.", lambda one: one.stalls),
    ("releases_total", "counter", "Attempts given back unfinished.", lambda one: one.releases),
)
_OF_WORKERS: Sequence[tuple[str, str, Callable[[Sequence[WorkerMetrics]], float]]] = (
    ("slots", "Jobs that the worker can run at once.", lambda lives: sum(one.slots for one in lives)),
    ("running", "Jobs that the worker runs.", lambda lives: sum(one.running for one in lives)),
    (
        "heartbeat_age_seconds",
        "Time since the worker was last heard of.",
        lambda lives: max(one.heartbeat_age_ms for one in lives) / 1_000,
    ),
)


def _families(metrics: Metrics) -> Iterator[tuple[str, str, str, list[Sample]]]:
    queues = metrics.queues
    by_state: list[Sample] = [
        ((("queue", one.queue), ("state", state.value)), getattr(one, state.value))
        for one in queues
        for state in State
    ]
    yield "jobs", "gauge", "Jobs stored, by state.", by_state
    for name, kind, text, value in _OF_QUEUES:
        yield name, kind, text, [((("queue", one.queue),), value(one)) for one in queues]
    on_queues: list[Sample] = [((("queue", one.queue),), metrics.workers_on(one.queue)) for one in queues]
    yield "queue_workers", "gauge", "Live workers that work on the queue.", on_queues
    lives: dict[str, list[WorkerMetrics]] = {}
    for worker in metrics.workers:
        lives.setdefault(worker.worker, []).append(worker)
    for name, text, told in _OF_WORKERS:
        samples: list[Sample] = [((("worker", worker),), told(each)) for worker, each in lives.items()]
        yield f"worker_{name}", "gauge", text, samples


def _labelled(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)
