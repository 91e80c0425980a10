"""What `import leasemq` may cost, seen from a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.architecture.rules import DRIVER_PLACES

DRIVERS = {*DRIVER_PLACES, "_sqlite3", "uvloop"}
TEST_TOOLS = {"pytest", "_pytest", "hypothesis"}


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after a statement."""
    program = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    started = [sys.executable, "-c", program]
    answer = subprocess.run(started, capture_output=True, text=True, check=True, timeout=60)
    return {name.partition(".")[0] for name in json.loads(answer.stdout)}


def test_importing_the_package_imports_no_driver_and_no_test_tool() -> None:
    loaded = modules_after("import leasemq")
    assert "leasemq" in loaded
    assert loaded & (DRIVERS | TEST_TOOLS) == set()


def test_the_question_can_be_answered_with_yes() -> None:
    assert "sqlite3" in modules_after("import sqlite3") & DRIVERS
