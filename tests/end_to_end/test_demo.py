"""The demo as a person runs it, and with a safeguard switched off, which it must notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.end_to_end.place import COMMAND, ROOT
from tests.end_to_end.waiting import until

LATEST_S = 90.0
FEW = "60"  # jobs: enough for the whole course


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with its temporary folder below the test's."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        [*COMMAND, "demo", *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LATEST_S,
        check=False,
    )


def processes_of(folder: Path) -> list[int]:
    """The processes that were told about a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.slow
@pytest.mark.promise("P-01", "P-02", "P-11")
def test_the_demo_loses_nothing_and_says_so_last(tmp_path: Path) -> None:
    done = demo(tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "lost 0"
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    print(done.stdout)


@pytest.mark.slow
@pytest.mark.promise("P-01", "P-02", "P-11")
def test_the_demo_works_on_the_files_of_a_folder_and_answers_in_json(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    for name in ("a.txt", "below/b.bin", "empty"):
        (source / name).write_bytes(name.encode() * 5_000 if name != "empty" else b"")
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    work = tmp_path / "work"
    work.mkdir()
    done = demo(work, str(source), "--jobs", FEW, "--json")
    verdict = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert (verdict["accepted"], verdict["completed"], verdict["lost"]) == (60, 60, 0)
    assert verdict["stalls"] >= 2
    assert verdict["stale_refused"] >= 1
    assert verdict["second_runs"]["a killed worker"] == 1
    assert verdict["second_runs"]["a frozen worker"] == 1
    assert verdict["faults"] == []
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


@pytest.mark.slow
@pytest.mark.promise("P-11")
def test_the_demo_notices_that_the_fence_is_off(tmp_path: Path) -> None:
    done = demo(tmp_path, "--sabotage", "fence", "--jobs", FEW)

    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "stale results accepted 1"


@pytest.mark.slow
@pytest.mark.promise("P-02")
def test_the_demo_notices_that_recovery_is_off(tmp_path: Path) -> None:
    began_at_s = time.monotonic()
    done = demo(tmp_path, "--sabotage", "recover", "--jobs", FEW)

    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "lost 1"
    assert time.monotonic() - began_at_s <= 60
    assert processes_of(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_a_demo_that_is_broken_off(tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    broken_off = subprocess.Popen(
        [*COMMAND, "demo"],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(lambda: list(tmp_path.glob("leasemq-demo-*/ledgers/worker-2.jsonl")), "two workers work")
    broken_off.send_signal(number)
    code = broken_off.wait(30)

    assert code != 0
    until(lambda: not processes_of(tmp_path), "every process has ended")
    if number is not signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(("no-such-folder",), "no-such-folder"), (("--sabotage", "luck"), "luck"), (("--jobs", "3"), "3")],
)
def test_wrong_use_of_the_demo_is_one_clear_line(
    tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    done = demo(tmp_path, *arguments)

    assert done.returncode not in (0, 1)
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_file_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    done = demo(work, str(tmp_path / "empty"))

    assert done.returncode == 2
    assert "empty" in done.stderr
    assert list(work.iterdir()) == []
