"""The demo's judge, on runs made up line by line: what it must notice, and that it knows no queue."""

from __future__ import annotations

import ast
import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest

from leasemq.demo import judge
from leasemq.demo.judge import FROZEN, KILLED, RELEASED, STALLED, UNEXPLAINED, Judgement, judged

Line = dict[str, Any]


class Story:
    """A run told line by line, of one file; `a` is an ordinary job, done at once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "file"
        self.path.write_bytes(b"content")
        self.sha256 = hashlib.sha256(b"content").hexdigest()
        self.lines: list[Line] = []
        self.answers: dict[str, Line] = {}

    def accept(self, job: str) -> None:
        self.lines.append({"event": "accepted", "pid": 1, "job": job, "path": str(self.path)})

    def start(self, job: str, fence: int, pid: int = 7) -> None:
        self.lines.append({"event": "start", "pid": pid, "job": job, "attempt": 1, "fence": fence})

    def end(self, job: str, fence: int, pid: int = 7, sha256: str | None = None) -> None:
        line = {"event": "end", "pid": pid, "job": job, "attempt": 1, "fence": fence}
        self.lines.append({**line, "sha256": sha256 or self.sha256})

    def answer(self, job: str, fence: int, *, stalls: int = 0, refused: int = 0) -> None:
        result = {"sha256": self.sha256, "fence": fence}
        self.answers[job] = {
            "id": job,
            "state": "completed",
            "result": result,
            "stalls": stalls,
            "refused": refused,
        }

    def judgement(self) -> Judgement:
        return judged(self.lines, self.answers.values())


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A good run: one killed worker, one frozen one whose late report was refused."""
    story = Story(tmp_path)
    for job in ("a", "killed", "frozen"):
        story.accept(job)
    story.start("a", 10)
    story.end("a", 10)
    story.answer("a", 10)
    story.start("killed", 10)
    story.lines.append({"event": "killed", "pid": 1, "victim": 7, "job": "killed"})
    story.start("killed", 11, pid=8)
    story.end("killed", 11, pid=8)
    story.answer("killed", 11, stalls=1)
    story.start("frozen", 10, pid=8)
    story.end("frozen", 10, pid=8)
    story.lines.append({"event": "frozen", "pid": 1, "victim": 8, "job": "frozen"})
    story.start("frozen", 11, pid=9)
    story.end("frozen", 11, pid=9)
    story.answer("frozen", 11, stalls=1, refused=2)
    return story


def test_a_good_run_has_no_fault(story: Story) -> None:
    judgement = story.judgement()
    assert judgement.faults == ()
    assert (judgement.accepted, judgement.completed, judgement.runs, judgement.lost) == (3, 3, 5, 0)
    assert (judgement.stalls, judgement.stale_refused) == (2, 2)
    assert judgement.second_runs == {KILLED: 1, FROZEN: 1}


def test_a_job_that_no_run_finished_is_lost_whatever_the_queue_says(story: Story) -> None:
    story.accept("b")
    story.start("b", 10)
    story.answer("b", 10)
    assert story.judgement().faults == ("lost 1",)


def test_a_job_that_was_finished_but_not_recorded_is_lost(story: Story) -> None:
    story.answers["a"]["state"] = "active"
    assert story.judgement().faults == ("lost 1",)


def test_a_job_that_the_queue_does_not_know_is_lost(story: Story) -> None:
    del story.answers["a"]
    assert story.judgement().lost == 1


def test_the_result_of_a_run_that_a_newer_one_had_replaced_is_stale(story: Story) -> None:
    story.answer("frozen", 10, stalls=1, refused=1)
    assert story.judgement().faults == ("stale results accepted 1",)


def test_a_wrong_checksum_is_noticed_in_the_ledger_and_in_the_result(story: Story) -> None:
    story.accept("b")
    story.start("b", 10)
    story.end("b", 10, sha256="0" * 64)
    story.answer("b", 10)
    story.answers["b"]["result"]["sha256"] = "0" * 64
    assert story.judgement().faults == ("wrong results 2",)


def test_a_second_run_that_nothing_explains_is_a_fault(story: Story) -> None:
    story.start("a", 12)
    story.end("a", 12)
    story.answer("a", 12)
    judgement = story.judgement()
    assert judgement.second_runs == {KILLED: 1, FROZEN: 1, UNEXPLAINED: 1}
    assert judgement.faults == ("second runs without a cause 1",)


def test_a_second_run_after_a_stall_of_a_slow_machine_is_explained(story: Story) -> None:
    story.start("a", 12)
    story.end("a", 12)
    story.answer("a", 12, stalls=1)
    judgement = story.judgement()
    assert judgement.second_runs == {KILLED: 1, FROZEN: 1, STALLED: 1}
    assert judgement.faults == ()


def test_a_second_run_after_a_release_is_explained(story: Story) -> None:
    story.start("a", 12)
    story.end("a", 12)
    story.answer("a", 12)
    story.answers["a"]["releases"] = 1
    judgement = story.judgement()
    assert judgement.second_runs == {KILLED: 1, FROZEN: 1, RELEASED: 1}
    assert judgement.faults == ()


def test_a_kill_explains_only_what_the_killed_process_had_not_finished(story: Story) -> None:
    story.start("a", 12, pid=9)  # its first run, in the process that was killed later, had ended
    story.answer("a", 12)
    assert story.judgement().second_runs[UNEXPLAINED] == 1


def test_a_run_in_which_no_safeguard_was_needed_shows_nothing(story: Story) -> None:
    story.lines = [line for line in story.lines if line.get("job") == "a"]
    assert len(story.judgement().faults) == 2
    assert judged([], []).faults[0] == "no job was accepted"


def test_a_run_of_a_job_whose_enqueue_was_never_answered_is_left_out(story: Story) -> None:
    story.start("in doubt", 10)
    story.end("in doubt", 10)
    story.answer("in doubt", 10)
    assert story.judgement().faults == ()
    assert story.judgement().accepted == 3


def test_the_judge_imports_nothing_of_the_queue() -> None:
    tree = ast.parse(Path(judge.__file__).read_text(encoding="utf-8"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names
