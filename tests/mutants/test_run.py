"""The mutants' runner on a tiny package of its own: it must see a kill, a survivor and a fault gone stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mutants.run import BadMutant, Fate, Finding, Mutant, Project, attempt_all, chosen, load, main

SUM = '''"""Adds."""


def total(numbers: list[int]) -> int:
    """The sum."""
    answer = 0
    for number in numbers:
        answer += number
    return answer
'''
TESTS = """
import pytest
from tiny.sums import total


@pytest.fixture(params=["memory", "sqlite"])
def backend_name(request):
    return request.param


@pytest.mark.promise("P-01", "P-02")
def test_a_sum_adds_up(backend_name):
    assert total([1, 2]) == 3 or backend_name == "sqlite"


@pytest.mark.promise("P-03")
def test_nothing_adds_up_to_zero():
    assert total([]) == 0


def test_that_names_no_promise():
    assert total([5]) == 5
"""
ADD = {"find": "answer += number", "tests": ("test_tiny.py",)}

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with one package, one test file and no configuration."""
    package = tmp_path / "src" / "tiny"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "sums.py").write_text(SUM)
    (tmp_path / "test_tiny.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return Project(root=tmp_path, source=tmp_path / "src", package="tiny")


def fault(name: str = "fault", *, promises: tuple[str, ...] = ("P-01",), **fields: object) -> Mutant:
    return Mutant(name=name, promises=promises, file="sums.py", **fields)  # type: ignore[arg-type]  # a test's short form


def attempt(mutant: Mutant, project: Project) -> Finding:
    (found,) = attempt_all([mutant], project)
    return found


def test_a_fault_that_a_test_naming_its_promise_sees_is_killed(project: Project) -> None:
    found = attempt(fault(promises=("P-01", "P-03"), replace="answer -= number", **ADD), project)
    assert (found.fate, found.kills) == (Fate.KILLED, {"P-01": ["memory"]})


def test_a_fault_that_no_test_sees_survives(project: Project) -> None:
    found = attempt(fault(replace="answer += int(number)", **ADD), project)
    assert (found.fate, found.kills) == (Fate.SURVIVED, {})


def test_a_fault_seen_only_by_tests_of_other_promises_survives(project: Project) -> None:
    found = attempt(fault(promises=("P-03",), replace="answer -= number", **ADD), project)
    assert found.fate is Fate.SURVIVED
    assert "no test naming P-03 failed" in found.detail


def test_a_text_that_is_gone_is_reported_with_the_name(project: Project) -> None:
    found = attempt(fault("gone", find="no such text", replace="x", tests=("test_tiny.py",)), project)
    assert found.fate is Fate.BROKEN
    assert found.detail.startswith("gone: the text to find is 0 times in sums.py, not 1")


def test_a_text_found_more_often_than_told_is_reported(project: Project) -> None:
    found = attempt(fault(find="answer", replace="reply", tests=("test_tiny.py",)), project)
    assert "is 3 times" in found.detail


def test_a_file_that_is_gone_is_reported(project: Project) -> None:
    mutant = Mutant(
        name="lost", promises=("P-01",), file="gone.py", find="x", replace="y", tests=("test_tiny.py",)
    )
    assert "no file 'gone.py'" in attempt(mutant, project).detail


@pytest.mark.parametrize("replace", ["answer +=", "raise SystemExit(0)"], ids=["a syntax error", "an exit"])
def test_a_fault_that_stops_the_tests_from_running_is_no_kill(project: Project, replace: str) -> None:
    broken = fault(find="def total", replace=f"{replace}\ndef total", tests=("test_tiny.py",))
    assert attempt(broken, project).fate is Fate.BROKEN


def test_a_selection_without_tests_is_no_kill(project: Project) -> None:
    nothing = fault(
        replace="answer -= number", find="answer += number", tests=("test_tiny.py", "-k nothing_like_it")
    )
    assert attempt(nothing, project).fate is Fate.BROKEN


def test_the_planted_tree_goes_before_a_package_on_the_path(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(project.source), prepend=":")
    assert attempt(fault(replace="answer -= number", **ADD), project).fate is Fate.KILLED


def test_a_run_that_imports_another_tree_is_no_kill(project: Project) -> None:
    (project.root / "conftest.py").write_text("import sys\nsys.path.insert(0, 'src')\n")
    found = attempt(fault(replace="answer -= number", **ADD), project)
    assert found.fate is Fate.BROKEN
    assert "not from the planted tree" in found.detail


HANGING = {"find": "answer += number", "replace": "\n        while True: pass", "tests": ("test_tiny.py",)}


def test_a_hang_is_no_kill_unless_it_is_told(project: Project) -> None:
    found = attempt(fault(limit_s=3, **HANGING), project)
    assert found.fate is Fate.BROKEN
    assert "did not end within 3 s" in found.detail


def test_a_told_hang_is_a_kill_by_the_test_that_hung(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.mutants.run.HANG_S", 1)
    found = attempt(fault(hang=True, **HANGING), project)
    assert (found.fate, found.kills) == (Fate.KILLED, {"P-01": ["memory", "sqlite"]})


ENTRY = """
[[mutant]]
name = "minus"
promise = ["P-01"]
file = "sums.py"
find = "answer += number"
replace = "answer -= number"
tests = ["test_tiny.py", "-k adds_up or promise"]
"""


def test_the_whole_run_writes_the_kills_and_says_how_it_ended(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "faults.toml").write_text(ENTRY)
    assert main([], project=project, folder=tmp_path) == 0
    assert "killed    minus  P-01 on memory" in capsys.readouterr().out
    records = json.loads((tmp_path / "build" / "mutants.json").read_text())
    assert records == [{"mutant": "minus", "promise": "P-01", "backends": ["memory"]}]


def test_a_survivor_fails_the_whole_run(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "faults.toml").write_text(ENTRY.replace("answer -= number", "answer += number + 0"))
    assert main(["--only", "min*"], project=project, folder=tmp_path) == 1
    assert "0 killed, 1 survived, 0 broken" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('name = "minus"\n', ""), "missing ['name']"),
        (("find =", "fnid ="), "unknown ['fnid']"),
        (('["P-01"]', "[]"), "must not be empty"),
    ],
)
def test_a_badly_described_fault_is_refused(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    (tmp_path / "faults.toml").write_text(ENTRY.replace(*change))
    with pytest.raises(BadMutant) as refused:
        load(tmp_path)
    assert complaint in str(refused.value)


def test_a_name_used_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text(ENTRY + ENTRY)
    with pytest.raises(BadMutant, match="twice: minus"):
        load(tmp_path)


def test_a_name_that_matches_nothing_is_refused() -> None:
    with pytest.raises(BadMutant, match="'plus'"):
        chosen([fault(find="a", replace="b", tests=("t",))], "plus")


def test_a_finding_without_kills_has_no_record() -> None:
    assert Finding(mutant=fault(find="a", replace="b", tests=("t",)), fate=Fate.SURVIVED).kills == {}
