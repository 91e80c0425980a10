"""Type checkers accept correct programs as they stand, and report each deliberate mistake.

Each checker runs once over all of them: the program here, the mistakes, and every example.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import leasemq

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = Path(leasemq.__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MISUSES = (HERE / "misuses.txt").read_text(encoding="utf-8")
MARKED = {number for number, line in enumerate(MISUSES.splitlines(), 1) if "# wrong:" in line}
SUPPRESSION = re.compile(r"#\s*(type|pyright):|\bcast\(|\bno_type_check\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One error of a checker."""

    line: int
    says: str


Found = dict[str, list[Reported]]  # by the name of the file
Checker = Callable[[Path], Found]


def mypy(folder: Path) -> Found:
    """What mypy reports on each file of a folder."""
    # The sources may be on the path by an installation, which mypy refuses to be told again.
    told = {} if SOURCES.name == "site-packages" else {"MYPYPATH": str(SOURCES)}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--show-traceback", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **told},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: Found = defaultdict(list)
    for name, line, says in re.findall(r"^(\w+\.py):(\d+): error: (.*)$", done.stdout, re.MULTILINE):
        found[name].append(Reported(line=int(line), says=says))
    assert sum(map(len, found.values())) == done.stdout.count(": error: "), done.stdout
    return found


def pyright(folder: Path) -> Found:
    """What pyright reports on each file of a folder."""
    settings = {"include": ["."], "extraPaths": [str(SOURCES)], "typeCheckingMode": "strict"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", folder],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: Found = defaultdict(list)
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            line = one["range"]["start"]["line"] + 1
            found[Path(one["file"]).name].append(Reported(line=line, says=one["message"]))
    return found


@pytest.fixture(scope="module", params=[mypy, pyright], ids=["mypy", "pyright"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What one of the checkers reports, strictly, on all programs."""
    folder = tmp_path_factory.mktemp("programs")
    for file in (HERE / "correct.py", *EXAMPLES):
        shutil.copy(file, folder)
    (folder / "misuses.py").write_text(MISUSES, encoding="utf-8")
    checker: Checker = request.param
    return checker(folder)


@pytest.mark.promise("P-100", "E-1")
def test_a_correct_program_needs_no_exception(found: Found) -> None:
    correct = [HERE / "correct.py", *EXAMPLES]
    assert len({file.name for file in correct}) == len(correct) > 1
    assert {file.name: found[file.name] for file in correct if found[file.name]} == {}


@pytest.mark.promise("P-100", "E-1")
def test_each_deliberate_mistake_is_reported_and_nothing_else(found: Found) -> None:
    assert len(MARKED) >= 5
    lines = {one.line for one in found["misuses.py"]}
    told = "\n".join(f"line {one.line}: {one.says}" for one in found["misuses.py"])
    assert lines == MARKED, told


@pytest.mark.promise("P-100", "E-1")
def test_no_program_silences_a_checker() -> None:
    for file in (HERE / "correct.py", *EXAMPLES):
        assert SUPPRESSION.search(file.read_text(encoding="utf-8")) is None, file.name
    assert SUPPRESSION.search(MISUSES) is None
