"""Child processes of real workers: none outlives its worker, and a program's own tasks run in them too."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasemq import App
from tests.end_to_end.apps.children import hold
from tests.end_to_end.place import COMMAND, Place
from tests.end_to_end.waiting import until

CHILDREN = "tests.end_to_end.apps.children:app"
GONE_WITHIN_S = 1.0
LEASE_S = "60"


def _is_alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def _enqueue_hold(place: Place) -> None:
    app = App(place.url)
    app.task(name=hold.name)(hold.function).enqueue_sync(str(place.folder))
    app.call_sync(app.close)


@pytest.mark.slow
@pytest.mark.promise("P-16", "P-80", "A-30")
def test_a_child_that_holds_its_interpreter_dies_with_its_killed_worker(place: Place) -> None:
    worker = place.run("worker", *COMMAND, "worker", CHILDREN, "--lease", LEASE_S)
    _enqueue_hold(place)
    until((place.folder / "child").exists, "the function runs in a child")
    child = int((place.folder / "child").read_text())
    assert _is_alive(child)
    killed_at_s = place.kill(worker)
    until(lambda: not _is_alive(child), "the child is gone")
    assert place.now_s() - killed_at_s <= GONE_WITHIN_S


@pytest.mark.slow
@pytest.mark.promise("P-80")
def test_a_task_of_the_program_that_runs_can_run_in_a_child(place: Place) -> None:
    program = place.program("children")
    assert program.exit_code() == 0, program.output
    assert program.output.split() == ["__mp_main__", "True"]
