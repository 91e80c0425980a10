"""The whole source is asked about every house rule; the rules themselves are in `rules.py` and `texts.py`."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import leasemq
from tests.architecture import rules, texts
from tests.architecture.rules import Breach, Source

ROOT = Path(__file__).parents[2]
PACKAGE = Path(leasemq.__file__).parent  # where it is imported from, so that a planted fault is seen too
ALLOWED = tomllib.loads((Path(__file__).parent / "allowed.toml").read_text(encoding="utf-8"))
IN_PACKAGE = rules.sources(PACKAGE)
IN_TESTS = rules.sources(ROOT / "tests")

NEWCOMER_LINES = 1_300
NEWCOMER_PATHS = (
    "protocol/model.py",
    "backend.py",
    "worker/loop.py",
    "protocol/decide.py",
    "backends/memory/work.py",
)
PUBLIC_NAMES = 25

Rule = Callable[[Source], Iterator[Breach]]
PACKAGE_RULES: tuple[Rule, ...] = (
    rules.lacks_docstring,
    rules.is_too_long,
    rules.has_long_function,
    rules.nests_too_deep,
    rules.has_vague_name,
    rules.reads_a_clock,
    rules.sleeps,
    rules.shields,
    rules.catches_everything,
    rules.catches_cancellation,
    rules.imports_a_foreign_driver,
    rules.suppresses_without_reason,
)
TEST_RULES: tuple[Rule, ...] = (
    rules.sleeps,
    rules.shields,
    rules.catches_everything,
    rules.suppresses_without_reason,
)


def listed(breaches: Iterable[Breach]) -> str:
    """One breach a line, as a failed assertion shows it."""
    return "".join(f"\n  {breach}" for breach in breaches)


@pytest.mark.parametrize("rule", PACKAGE_RULES, ids=lambda rule: rule.__name__)
def test_no_module_of_the_package(rule: Rule) -> None:
    broken = [breach for source in IN_PACKAGE for breach in rule(source)]
    assert not broken, listed(broken)


@pytest.mark.parametrize("rule", TEST_RULES, ids=lambda rule: rule.__name__)
def test_no_test_module(rule: Rule) -> None:
    broken = [breach for source in IN_TESTS for breach in rule(source)]
    assert not broken, listed(broken)


def test_the_package_and_the_tests_were_really_read() -> None:
    assert "errors.py" in {source.path for source in IN_PACKAGE}
    assert Path(__file__).relative_to(ROOT / "tests").as_posix() in {source.path for source in IN_TESTS}


def test_every_exception_is_defined_in_one_module() -> None:
    errors = next(source for source in IN_PACKAGE if source.path == rules.ERRORS_MODULE)
    known = rules.error_names(errors)
    broken = [breach for source in IN_PACKAGE for breach in rules.defines_an_error(source, known)]
    assert known
    assert not broken, listed(broken)


@pytest.mark.parametrize(
    "rule",
    [rules.catches_broadly, pytest.param(rules.loads_code_by_name, marks=pytest.mark.promise("P-103"))],
    ids=lambda rule: rule.__name__,
)
def test_only_reviewed_places(rule: Rule) -> None:
    allowed = ALLOWED[rule.__name__]
    found = [breach for source in IN_PACKAGE for breach in rule(source)]
    unreviewed = [breach for breach in found if breach.key not in allowed]
    unused = sorted(set(allowed) - {breach.key for breach in found})
    assert not unreviewed, listed(unreviewed)
    assert not unused, f"allowed.toml lists places that are gone: {unused}"
    assert all(len(reason.split()) >= 3 for reason in allowed.values()), "each entry gives its reason"


@pytest.mark.promise("P-06")
def test_no_text_says_that_a_handler_runs_a_single_time() -> None:
    read = texts.project_texts(ROOT, PACKAGE)
    broken = [breach for text in read for breach in texts.claims_one_run(text)]
    assert {"pyproject.toml", "src/leasemq/errors.py"} <= {text.path for text in read}
    assert not broken, listed(broken)


def test_every_statement_file_opens_with_its_parameters() -> None:
    read = [text for text in texts.project_texts(ROOT, PACKAGE) if text.path.endswith(".sql")]
    broken = [breach for text in read for breach in texts.misstates_its_parameters(text)]
    assert not broken, listed(broken)


def test_the_five_files_a_newcomer_reads_first_stay_short() -> None:
    first = [source for source in IN_PACKAGE if source.path.startswith(NEWCOMER_PATHS)]
    lines = {source.path: len(source.text.splitlines()) for source in first}
    assert sum(lines.values()) < NEWCOMER_LINES, lines


def test_the_public_names_are_few_and_all_exist() -> None:
    root = next(source for source in IN_PACKAGE if source.path == "__init__.py")
    declared = [
        ast.literal_eval(node.value)
        for node in ast.walk(root.tree)
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]
    ]
    names = list(declared[0]) if declared else []
    assert len(names) <= PUBLIC_NAMES, names
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(leasemq, name)] == []
