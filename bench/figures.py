"""The arithmetic of the measures: nothing here runs or waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.drivers.board import Seen

Sample = Mapping[str, float]
Mark = tuple[int, float]  # how many jobs had run, and when, in seconds


def drained(seen: Sequence[Seen]) -> dict[str, float]:
    """Answer jobs per second from the first handler to the last, over all processes.

    CPU of worker and servers in milliseconds per 1,000 jobs only where one process ran them: a server's time
    would be counted by each.
    """
    jobs = sum(row.count for row in seen)
    first = min(row.first_ns for row in seen)
    last = max(row.last_ns for row in seen)
    sample = {"jobs_per_s": (jobs - 1) / ((last - first) / 1e9)}
    if len(seen) == 1:
        sample["cpu_ms"] = seen[0].cpu_ns / 1e6 / jobs * 1_000
        sample["server_cpu_ms"] = seen[0].server_cpu_ns / 1e6 / jobs * 1_000
    return sample


def lateness(late_ns: Sequence[int]) -> Sample:
    """Answer the median and the 99th percentile in milliseconds."""
    ordered = sorted(late_ns)
    return {"p50_ms": percentile(ordered, 50) / 1e6, "p99_ms": percentile(ordered, 99) / 1e6}


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Answer the smallest value that so many percent of all values do not exceed."""
    place = -(-len(ordered) * percent // 100)
    return ordered[max(place, 1) - 1]


def quarters(marks: Sequence[Mark], jobs: int) -> Sample:
    """Answer the rate of each quarter of the jobs, and the last over the second."""
    rates = [_rate(marks, jobs * part // 4, jobs * (part + 1) // 4) for part in range(4)]
    named = {f"quarter_{number}": rate for number, rate in enumerate(rates, start=1)}
    return {**named, "last_to_second": rates[3] / rates[1]}


def _rate(marks: Sequence[Mark], begin: int, end: int) -> float:
    """Answer jobs per second between two counts, from the marks nearest to them."""
    first = min(marks, key=lambda mark: abs(mark[0] - begin))
    last = min(marks, key=lambda mark: abs(mark[0] - end))
    return (last[0] - first[0]) / (last[1] - first[1])


def slot_share(seen: Sequence[Seen], slots: int, sleep_s: float) -> Sample:
    """Answer how much of the rate of slots that are never empty was reached by jobs that only sleep.

    The board is told when a sleep is over, so the first of them began one sleep before.
    """
    jobs = sum(row.count for row in seen)
    took_s = (max(row.last_ns for row in seen) - min(row.first_ns for row in seen)) / 1e9 + sleep_s
    return {"share": -(-jobs // slots) * sleep_s / took_s, "jobs_per_s": jobs / took_s}
