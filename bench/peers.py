"""Whom LeaseMQ is measured beside: the package, its driver, and the set-up in which it does best here.

Versions are pinned, so that a figure can be had again. Each is set up as its own documentation says for work
that must not be lost, where it has that; the column `note` says where it has not.

Tried, and what did best is set. Jobs per second within one run each (`;` parts runs), on a busy machine, so
that they say which is best and not how fast it is:

* pgqueuer on PostgreSQL, `batch_size` 10, 50, 100, 200, 500: 3,600, 7,100, 16,800, 18,200, 26,700;
  500, 1,000, 2,000: 18,100, 16,100, 13,200.
* pgqueuer in memory, 2, 5, 10, 20: 6,500, 7,600, 7,900, 10,800; 10, 20, 100: 39,600, 43,100, 22,000;
  10, 50, 100, 200, 500: 12,900, 7,700, 5,900, 5,100, 4,900.
* dramatiq, threads 2, 8, 16: 480, 2,100, 3,800; 16, 32, 64: 4,300, 6,300, 5,400.
* taskiq, jobs at once 50, 100, 200: 1,000, 1,500, 1,500.
* huey on SQLite without fsync, threads 1, 2, 4: 4,400, 4,400, 4,800, at the same CPU per job.
* LeaseMQ, slots: in memory 100, 200, 400: 9,400, 9,000, 9,000; on SQLite `normal` 100, 200, 400, 800: 20,100,
  22,900, 18,300, 12,800; `full` 100, 400, 800: 6,600, 12,700, 9,200; 200, 400: 17,400, 26,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OURS = "leasemq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One contender on one backend."""

    name: str
    driver: str  # a file of bench/drivers
    requires: tuple[str, ...]
    concurrency: int = 100
    url_query: str = ""  # what is added to the server's URL
    options: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def _ours(url_query: str = "", concurrency: int = 100) -> Peer:
    return Peer(
        name=OURS,
        driver="on_leasemq.py",
        concurrency=concurrency,
        requires=("-e .[redis,postgres]", "uvloop==0.23.0"),
        url_query=url_query,
        note="fenced leases; records, results and events kept for a day and more, as by default",
    )


def _huey(concurrency: int, *, fsync: bool = False) -> Peer:
    return Peer(
        name="huey",
        driver="on_huey.py",
        requires=("huey==3.5.4", "redis==8.1.0"),
        concurrency=concurrency,
        options={"fsync": fsync},
        note="at most once: it has no acknowledgement",
    )


_SAQ = Peer(name="saq", driver="on_saq.py", requires=("saq[redis,postgres]==0.26.4", "uvloop==0.23.0"))


def _pgqueuer(batch: int) -> Peer:
    return Peer(
        name="pgqueuer",
        driver="on_pgqueuer.py",
        requires=("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
        options={"batch": batch},
        note="removes a job when it has run",
    )


PEERS: Mapping[str, tuple[Peer, ...]] = {
    "redis": (
        _ours(concurrency=200),
        Peer(
            name="dramatiq",
            driver="on_dramatiq.py",
            requires=("dramatiq[redis]==2.2.1",),
            concurrency=32,
            note="threads; acknowledges after the handler",
        ),
        Peer(
            name="taskiq",
            driver="on_taskiq.py",
            requires=("taskiq==0.13.0", "taskiq-redis==1.2.4", "uvloop==0.23.0"),
            note="streams with acknowledgements",
        ),
        Peer(
            name="bullmq",
            driver="on_bullmq.py",
            requires=("bullmq==3.4.4", "uvloop==0.23.0"),
            note="locks with tokens",
        ),
        _huey(4),
        _SAQ,
        Peer(name="arq", driver="on_arq.py", requires=("arq==0.28.0", "uvloop==0.23.0")),
    ),
    "postgres": (
        _ours(concurrency=1000),
        _pgqueuer(500),
        Peer(
            name="procrastinate",
            driver="on_procrastinate.py",
            requires=("procrastinate==3.10.0", "uvloop==0.23.0"),
        ),
        _SAQ,
    ),
    "sqlite-normal": (_ours("?sync=normal", concurrency=200), _huey(1)),
    "sqlite-full": (_ours(concurrency=400), _huey(1, fsync=True)),
    "memory": (_ours(), _pgqueuer(20)),
}
