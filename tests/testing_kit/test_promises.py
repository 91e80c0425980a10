"""The promise table: what may be called proven, and what the recorder writes down about a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from leasemq.testing.promises import (
    CORE,
    LEFT_OUT,
    UNKNOWN,
    Catalogue,
    Kill,
    Promise,
    Row,
    Standing,
    Trial,
    as_markdown,
    as_text,
    promise_table,
    proven_everywhere,
    read_catalogue,
    read_kills,
    read_trials,
    totals,
    untested,
)

ROOT = Path(__file__).parents[2]
BACKENDS = ("memory", "sqlite")


def trial(backend: str, outcome: str = "passed", *, promise: str = "P-11") -> Trial:
    return Trial(nodeid=f"test_x[{backend}-{outcome}]", ids=(promise,), backend=backend, outcome=outcome)


def killed(*backends: str, promise: str = "P-11") -> Kill:
    return Kill(mutant="no-fence", promise=promise, backends=backends)


def standings(
    tests: list[Trial],
    kills: list[Kill],
    *,
    is_core: bool = False,
    is_delivered: bool = True,
    excepted: dict[str, str] | None = None,
) -> tuple[Standing, ...]:
    """How one promise stands on memory and SQLite."""
    promise = Promise(id="P-11", says="", is_core=is_core, is_delivered=is_delivered, excepted=excepted or {})
    (row,) = promise_table(Catalogue(backends=BACKENDS, promises=(promise,)), tests, kills)
    return tuple(row.cells[backend].standing for backend in BACKENDS)


BOTH = [trial("memory"), trial("sqlite")]


@pytest.mark.promise("P-91")
def test_a_pass_and_a_kill_on_the_same_backend_prove_a_promise_there() -> None:
    assert standings(BOTH, [killed("memory", "sqlite")]) == (Standing.PROVEN, Standing.PROVEN)


@pytest.mark.promise("P-91")
def test_a_kill_on_one_backend_proves_nothing_on_another() -> None:
    assert standings(BOTH, [killed("memory")]) == (Standing.PROVEN, Standing.TESTED)


@pytest.mark.promise("P-91")
def test_a_kill_for_another_promise_proves_nothing() -> None:
    assert standings(BOTH, [killed("memory", "sqlite", promise="P-10")]) == (Standing.TESTED, Standing.TESTED)


@pytest.mark.promise("P-91")
@pytest.mark.parametrize("backend", ["memory", CORE, UNKNOWN])
def test_a_failure_that_may_concern_a_backend_outweighs_everything(backend: str) -> None:
    tests = [*BOTH, trial(backend, "failed")]
    assert standings(tests, [killed("memory", "sqlite")])[0] is Standing.FAILED


@pytest.mark.promise("P-91")
@pytest.mark.parametrize("outcome", ["skipped", "xfailed"])
def test_what_was_skipped_or_expected_to_fail_keeps_a_promise_unproven(outcome: str) -> None:
    tests = [*BOTH, trial("memory", outcome)]
    assert standings(tests, [killed("memory", "sqlite")]) == (Standing.TESTED, Standing.PROVEN)


@pytest.mark.promise("P-91")
def test_what_was_left_out_says_nothing() -> None:
    tests, kills = [*BOTH, trial("memory", LEFT_OUT)], [killed("memory", "sqlite")]
    assert standings(tests, kills) == (Standing.PROVEN, Standing.PROVEN)
    assert standings([trial("memory", LEFT_OUT)], kills)[0] is Standing.NO_TEST


@pytest.mark.promise("P-91")
def test_a_promise_of_which_parts_come_later_is_not_proven() -> None:
    assert standings(BOTH, [killed("memory", "sqlite")], is_delivered=False) == (
        Standing.TESTED,
        Standing.TESTED,
    )


@pytest.mark.promise("P-91")
def test_only_skipped_tests_are_no_test() -> None:
    assert standings([trial("memory", "skipped")], [killed("memory")])[0] is Standing.NO_TEST


@pytest.mark.promise("P-91")
def test_a_test_without_a_backend_proves_nothing_about_one() -> None:
    tests, kills = [trial(CORE)], [killed(CORE)]
    assert standings(tests, kills) == (Standing.TESTED_CORE, Standing.TESTED_CORE)


@pytest.mark.promise("P-91")
def test_a_test_without_a_backend_speaks_for_all_where_the_promise_is_about_none() -> None:
    tests, kills = [trial(CORE)], [killed(CORE)]
    assert standings(tests, kills, is_core=True) == (Standing.PROVEN, Standing.PROVEN)
    assert standings(tests, [], is_core=True) == (Standing.TESTED, Standing.TESTED)


def test_a_promise_without_a_test_is_missing_later_or_excepted() -> None:
    assert standings([], []) == (Standing.NO_TEST, Standing.NO_TEST)
    assert standings([], [], is_delivered=False) == (Standing.LATER, Standing.LATER)
    excepted = {"memory": "it has no file"}
    assert standings([], [], excepted=excepted) == (Standing.EXCEPTED, Standing.NO_TEST)


def rows_of_two() -> tuple[Row, ...]:
    promises = (
        Promise(id="P-11", says="stale writes | refused", excepted={}),
        Promise(id="P-93", says="SQLite", excepted={"memory": "it is about SQLite"}),
    )
    tests = [*BOTH, trial("sqlite", promise="P-93")]
    return promise_table(Catalogue(backends=BACKENDS, promises=promises), tests, [killed(*BACKENDS)])


@pytest.mark.promise("P-91")
def test_the_totals_end_with_what_is_proven_on_both() -> None:
    rows = rows_of_two()
    assert proven_everywhere(rows) == ["P-11"]
    assert totals(rows).splitlines() == [
        "promises on memory: 1 proven, 1 excepted",
        "promises on sqlite: 1 proven, 1 tested",
        "promises proven on both backends: 1",
    ]


def test_delivered_promises_without_a_test_are_listed_by_backend() -> None:
    promises = tuple(Promise(id=name, says="", excepted={}) for name in ("P-11", "P-12", "P-13"))
    tests = [*BOTH, trial("memory", promise="P-12"), trial(CORE, promise="P-13")]
    rows = promise_table(Catalogue(backends=BACKENDS, promises=promises), tests, [])
    assert untested(rows) == {"memory": ["P-13"], "sqlite": ["P-12", "P-13"]}


@pytest.mark.promise("P-91")
def test_the_table_is_told_for_a_terminal_and_for_the_documentation() -> None:
    rows = rows_of_two()
    assert as_text(rows).splitlines()[1].split()[:5] == ["P-11", "proven", "1/1", "proven", "1/1"]
    markdown = as_markdown(rows)
    assert "| P-11 | stale writes &#124; refused | proven | proven |" in markdown
    assert "- P-93 on memory: it is about SQLite." in markdown


def test_the_project_s_own_catalogue_can_be_read() -> None:
    catalogue = read_catalogue(ROOT / "tests" / "promises.toml")
    assert catalogue.backends == (*BACKENDS, "postgres", "redis", "redis-cluster")
    assert all(promise.says for promise in catalogue.promises)


def test_an_unknown_field_in_the_catalogue_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('backends = []\n[promises]\nP-01 = { says = "x", cor = true }\n')
    with pytest.raises(msgspec.ValidationError, match="cor"):
        read_catalogue(tmp_path / "p.toml")


def test_files_that_no_run_has_written_yet_are_empty(tmp_path: Path) -> None:
    assert read_trials(tmp_path / "none.json") == []
    assert read_kills(tmp_path / "none.json") == []


SUITE = """
import pytest

@pytest.fixture(params=["memory", "sqlite"])
def backend_name(request):
    return request.param

@pytest.fixture
def broken(backend_name):
    raise ValueError("on purpose")

@pytest.mark.promise("P-11", "P-10")
def test_on_a_backend(backend_name):
    assert backend_name == "memory"

@pytest.mark.promise("P-12")
class TestGrouped:
    def test_alone(self):
        pass

    @pytest.mark.promise("P-13")
    @pytest.mark.skip
    def test_skipped(self, backend_name):
        pass

    def test_that_does_not_apply(self, backend_name):
        pytest.skip("left out: the backend does not declare it")

    @pytest.mark.xfail
    def test_expected_to_fail(self):
        assert False

@pytest.mark.promise("P-14")
def test_with_a_broken_fixture(broken):
    pass

@pytest.fixture
def broken_later():
    yield
    raise ValueError("on purpose")

@pytest.mark.promise("P-15")
def test_that_leaves_a_mess(broken_later):
    pass

def test_that_names_none():
    pass
"""


def recorded(folder: Path, *options: str) -> dict[str, tuple[tuple[str, ...], str, str]]:
    """What the recorder wrote about a run of the suite above: test -> ids, backend, outcome."""
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    out = folder / "out.json"
    plugin = ("-p", "leasemq.testing.promise_recorder", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "--promises-out", str(out), *options]
    subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=60)
    return {
        test.nodeid.partition("::")[2]: (test.ids, test.backend, test.outcome) for test in read_trials(out)
    }


@pytest.mark.slow
@pytest.mark.promise("P-91")
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_the_recorder_writes_ids_backend_and_outcome_of_each_test(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    assert recorded(tmp_path, *options) == {
        "test_on_a_backend[memory]": (("P-10", "P-11"), "memory", "passed"),
        "test_on_a_backend[sqlite]": (("P-10", "P-11"), "sqlite", "failed"),
        "TestGrouped::test_alone": (("P-12",), CORE, "passed"),
        "TestGrouped::test_skipped[memory]": (("P-12", "P-13"), "memory", "skipped"),
        "TestGrouped::test_skipped[sqlite]": (("P-12", "P-13"), "sqlite", "skipped"),
        "TestGrouped::test_that_does_not_apply[memory]": (("P-12",), "memory", LEFT_OUT),
        "TestGrouped::test_that_does_not_apply[sqlite]": (("P-12",), "sqlite", LEFT_OUT),
        "TestGrouped::test_expected_to_fail": (("P-12",), CORE, "xfailed"),
        "test_with_a_broken_fixture[memory]": (("P-14",), "memory", "failed"),
        "test_with_a_broken_fixture[sqlite]": (("P-14",), "sqlite", "failed"),
        "test_that_leaves_a_mess": (("P-15",), CORE, "failed"),
    }


@pytest.mark.slow
def test_a_second_run_can_add_to_the_first(tmp_path: Path) -> None:
    recorded(tmp_path, "-k", "alone")
    both = recorded(tmp_path, "-k", "mess", "--promises-append")
    assert set(both) == {"TestGrouped::test_alone", "test_that_leaves_a_mess"}
    assert json.loads((tmp_path / "out.json").read_text())[0].keys() == {
        "nodeid",
        "ids",
        "backend",
        "outcome",
    }
