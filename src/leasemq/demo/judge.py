"""Judges a demo run from what the processes wrote down. Knows nothing of the queue and imports none of it.

Accepted, completed, runs and lost come from the ledgers, the checksums from reading the files anew. Only
stalls, releases, refused writes and accepted results are the queue's to say; they arrive as plain JSON.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]  # of a ledger
Answer = Mapping[str, Any]  # the queue's word on one job: id, state, result, stalls, releases, refused

KILLED = "a killed worker"
FROZEN = "a frozen worker"
STALLED = "a lease that ran out"
RELEASED = "a run given back"
UNEXPLAINED = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the run came to; `second_runs` counts the runs after a job's first, by their cause."""

    accepted: int
    completed: int
    runs: int
    second_runs: Mapping[str, int]
    stalls: int
    stale_refused: int
    wrong_results: int
    stale_accepted: int
    lost: int

    @property
    def faults(self) -> tuple[str, ...]:
        """What must not have happened and did, gravest first; empty for a good run."""
        counted = (
            ("lost", self.lost),
            ("stale results accepted", self.stale_accepted),
            ("wrong results", self.wrong_results),
            ("second runs without a cause", self.second_runs.get(UNEXPLAINED, 0)),
        )
        missing = (
            ("no job was accepted", self.accepted),
            ("no stall was seen: the safeguards were not put to the test", self.stalls),
            ("no stale write was refused: the fence was not put to the test", self.stale_refused),
        )
        found = [f"{what} {count}" for what, count in counted if count]
        return (*found, *(what for what, count in missing if not count))


@dataclass(slots=True)
class _Job:
    """What is known of one accepted job. Owner: `judged`."""

    path: Path
    starts: list[Line] = field(default_factory=list)
    ends: list[Line] = field(default_factory=list)
    answer: Answer = field(default_factory=dict)

    @property
    def is_completed(self) -> bool:
        return bool(self.ends) and self.answer.get("state") == "completed"

    @property
    def result(self) -> Mapping[str, Any]:
        result = self.answer.get("result")
        return result if isinstance(result, Mapping) else {}

    @property
    def is_stale(self) -> bool:
        """Whether the queue took the result of a run that a newer one had already replaced."""
        newest = max((start["fence"] for start in self.starts), default=0)
        return self.is_completed and self.result.get("fence") != newest


def judged(lines: Iterable[Line], answers: Iterable[Answer]) -> Judgement:
    """Answer what the run came to.

    Args:
        lines: of all ledgers: accepted, start, end, killed, frozen; others are skipped.
        answers: what the queue says about each job.
    """
    lines = list(lines)
    jobs = {line["job"]: _Job(Path(line["path"])) for line in lines if line["event"] == "accepted"}
    for line in lines:
        job = jobs.get(line.get("job", ""))  # None: not about a job, or about one whose enqueue is in doubt
        if job is not None and line["event"] == "start":
            job.starts.append(line)
        elif job is not None and line["event"] == "end":
            job.ends.append(line)
    for answer in answers:
        if answer["id"] in jobs:
            jobs[answer["id"]].answer = answer
    everything = list(jobs.values())
    completed = sum(job.is_completed for job in everything)
    return Judgement(
        accepted=len(everything),
        completed=completed,
        runs=sum(len(job.starts) for job in everything),
        second_runs=_second_runs(everything, lines),
        stalls=sum(job.answer.get("stalls", 0) for job in everything),
        stale_refused=sum(job.answer.get("refused", 0) for job in everything),
        wrong_results=_wrong_results(everything),
        stale_accepted=sum(job.is_stale for job in everything),
        lost=len(everything) - completed,
    )


def _second_runs(jobs: Sequence[_Job], lines: Sequence[Line]) -> Mapping[str, int]:
    """A run that was followed by another is explained by what befell its process, or by what it had to do."""
    killed = {line["victim"] for line in lines if line["event"] == "killed"}
    frozen = {(line["victim"], line["job"]) for line in lines if line["event"] == "frozen"}
    causes: Counter[str] = Counter()
    for job in jobs:
        ended = {(end["pid"], end["fence"]) for end in job.ends}
        told = [STALLED] * job.answer.get("stalls", 0) + [RELEASED] * job.answer.get("releases", 0)
        for start in sorted(job.starts, key=lambda line: line["fence"])[:-1]:
            cause = told.pop(0) if told else UNEXPLAINED
            if (start["pid"], start["job"]) in frozen:
                cause = FROZEN
            elif start["pid"] in killed and (start["pid"], start["fence"]) not in ended:
                cause = KILLED
            causes[cause] += 1
    return dict(causes)


def _wrong_results(jobs: Sequence[_Job]) -> int:
    """Runs and accepted results whose checksum is not the file's."""
    right = {path: _sha256(path) for path in {job.path for job in jobs}}
    made = [(end["sha256"], job.path) for job in jobs for end in job.ends]
    accepted = [(job.result.get("sha256"), job.path) for job in jobs if job.is_completed]
    return sum(1 for sha256, path in made + accepted if sha256 != right[path])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
