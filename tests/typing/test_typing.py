"""Type checkers accept a correct program as it stands, and report each deliberate mistake."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import leasemq

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = Path(leasemq.__file__).parents[1]
MISUSES = (HERE / "misuses.txt").read_text(encoding="utf-8")
MARKED = {number for number, line in enumerate(MISUSES.splitlines(), 1) if "# wrong:" in line}


def mypy(file: Path) -> set[int]:
    """The lines that mypy reports errors on."""
    # The sources may be on the path by an installation, which mypy refuses to be told again.
    told = {} if SOURCES.name == "site-packages" else {"MYPYPATH": str(SOURCES)}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--show-traceback", file],
        cwd=file.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **told},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    ours = re.findall(rf"^{re.escape(file.name)}:(\d+): error", done.stdout, re.MULTILINE)
    assert len(ours) == done.stdout.count(": error: "), done.stdout
    return {int(line) for line in ours}


def pyright(file: Path) -> set[int]:
    """The lines that pyright reports errors on."""
    command = shutil.which("pyright", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if command is None:
        pytest.skip("pyright is not installed")
    settings = {"include": [file.name], "extraPaths": [str(SOURCES)], "typeCheckingMode": "strict"}
    (file.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [command, "--outputjson", "--pythonpath", sys.executable, "-p", file.parent],
        cwd=file.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in found if one["severity"] == "error"]
    assert all(Path(one["file"]).name == file.name for one in errors), errors
    # Strictness about a program's own untidiness (unused variables) is not what is asked here.
    return {one["range"]["start"]["line"] + 1 for one in errors if "Unused" not in one.get("rule", "")}


def copied(name: str, to: Path) -> Path:
    file = to / "program.py"
    file.write_text((HERE / name).read_text(encoding="utf-8"), encoding="utf-8")
    return file


@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
@pytest.mark.promise("P-100", "E-1")
def test_a_correct_program_needs_no_exception(checker: object, tmp_path: Path) -> None:
    assert callable(checker)
    assert "ignore" not in (HERE / "correct.py").read_text(encoding="utf-8")
    assert checker(copied("correct.py", tmp_path)) == set()


@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
@pytest.mark.promise("P-100", "E-1")
def test_each_deliberate_mistake_is_reported_and_nothing_else(checker: object, tmp_path: Path) -> None:
    assert callable(checker)
    assert len(MARKED) >= 5
    assert checker(copied("misuses.txt", tmp_path)) == MARKED
