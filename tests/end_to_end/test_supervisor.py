"""`leasemq worker --processes N`: who dies is replaced, who is told to stop drains, nobody is left behind."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from leasemq import State
from tests.end_to_end.place import APP, COMMAND, Place, Process
from tests.serving.ask import ask

IN_A_GROUP_OF_ITS_OWN = (
    "import os, sys; os.setsid(); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def supervise(place: Place, *options: str, processes: int = 2) -> Process:
    """Start a supervisor in a session of its own, and return when all its processes claim."""
    supervisor = place.run(
        "supervisor",
        *(sys.executable, "-c", IN_A_GROUP_OF_ITS_OWN, *COMMAND[1:], "worker", APP),
        *("--processes", str(processes), "--name", "s", "--concurrency", "2", "--lease", "60", *options),
    )
    place.wait_for(lambda: len(pids(supervisor, "WorkerStarted")) >= processes, "all processes claim")
    return supervisor


def pids(supervisor: Process, event: str = "ProcessStarted") -> list[int]:
    """The numbers of an event's lines, in order: of processes, or of lines."""
    if event == "ProcessStarted":
        return [int(found) for found in re.findall(r"ProcessStarted worker=\S+ pid=(\d+)", supervisor.output)]
    return list(range(supervisor.output.count(f"{event} worker=s-")))


def is_gone(pid: int) -> bool:
    """Whether it has ended, be it that nobody has asked for its code yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
@pytest.mark.promise("P-82", "P-84", "B12")
def test_a_killed_process_is_replaced_while_the_others_go_on_and_every_job_is_done(place: Place) -> None:
    supervisor = supervise(place, "--probe-port", "0")
    port = int(re.findall(r"probes are answered on 127\.0\.0\.1 port (\d+)", supervisor.output)[0])
    place.wait_for(lambda: ask(port, "/ready").status == 200, "all are ready")
    first, second = pids(supervisor)
    os.kill(first, signal.SIGKILL)
    for number in range(50):
        place.enqueue("counted", id=f"J{number}")
    place.wait_for(lambda: len(pids(supervisor)) == 3, "it is replaced")
    place.wait_for_completed(50)
    place.wait_for(lambda: ask(port, "/ready").body["ready_processes"] == "2 of 2", "all are ready again")
    supervisor.signal(signal.SIGTERM)

    assert supervisor.exit_code() == 0
    ended = re.search(
        rf"ProcessEnded worker=s-1 pid={first} exit_code=-9 restart_in_ms=(\d+)", supervisor.output
    )
    assert ended is not None
    assert int(ended[1]) <= 3_000
    assert is_gone(second)
    assert supervisor.output.count("Traceback") == 0


@pytest.mark.slow
@pytest.mark.promise("P-81", "A-16")
def test_one_ctrl_c_to_the_whole_group_is_one_drain(place: Place) -> None:
    supervisor = supervise(place)
    place.enqueue("gated", "gate", id="J")
    place.ledger.wait("start", "J")
    os.killpg(supervisor.pid, signal.SIGINT)
    place.wait_for(lambda: supervisor.output.count("Draining worker=s-") == 2, "both drain")
    os.killpg(supervisor.pid, signal.SIGHUP)
    place.open_gate("gate")

    assert supervisor.exit_code() == 0
    record = place.record("J")
    assert (record.state, record.attempts, record.failures) == (State.COMPLETED, 1, 0)


@pytest.mark.slow
@pytest.mark.promise("P-81", "B12")
def test_a_second_signal_gives_back_what_runs_in_every_process_and_is_told_by_the_code(place: Place) -> None:
    supervisor = supervise(place, "--drain", "60")
    place.enqueue("gated", "gate", id="J")
    place.ledger.wait("start", "J")
    supervisor.signal(signal.SIGTERM)
    place.wait_for(lambda: supervisor.output.count("Draining worker=s-") == 2, "both drain")
    supervisor.signal(signal.SIGTERM)

    assert supervisor.exit_code() == 1
    record = place.record("J")
    assert (record.state, record.stalls, record.failures) == (State.WAITING, 0, 0)


@pytest.mark.slow
@pytest.mark.promise("P-81")
def test_a_rolling_restart_replaces_each_process_when_the_one_before_is_ready(place: Place) -> None:
    supervisor = supervise(place)
    supervisor.signal(signal.SIGHUP)
    place.wait_for(lambda: len(pids(supervisor)) == 4, "both were restarted")
    place.wait_for(lambda: len(pids(supervisor, "WorkerStarted")) == 4, "all claim")
    supervisor.signal(signal.SIGTERM)

    assert supervisor.exit_code() == 0
    told = re.findall(r"(ProcessStarted|ProcessEnded|WorkerStarted) worker=(s-\d)", supervisor.output)
    assert [line for line in told if line[0] != "ProcessStarted"][2:6] == [
        ("ProcessEnded", "s-1"),
        ("WorkerStarted", "s-1"),
        ("ProcessEnded", "s-2"),
        ("WorkerStarted", "s-2"),
    ]


@pytest.mark.slow
@pytest.mark.promise("P-82")
def test_processes_end_with_their_supervisor_and_give_back_what_they_held(place: Place) -> None:
    supervisor = supervise(place, "--drain", "0.2")
    place.enqueue("gated", "gate", id="J")
    place.ledger.wait("start", "J")
    supervisor.kill()
    for pid in pids(supervisor):
        place.wait_for(lambda pid=pid: is_gone(pid), "a process without a supervisor ends")

    record = place.record("J")
    assert (record.state, record.stalls) == (State.WAITING, 0)


@pytest.mark.promise("P-82")
def test_an_app_that_cannot_be_loaded_ends_the_supervisor_instead_of_being_tried_for_ever(
    place: Place,
) -> None:
    supervisor = place.run("supervisor", *COMMAND, "worker", "nowhere.to.be.found:app", "--processes", "2")

    assert supervisor.exit_code() == 2
    assert "there is no module 'nowhere'" in supervisor.output
    assert supervisor.output.count("ProcessStarted") <= 2
    assert "Traceback" not in supervisor.output
