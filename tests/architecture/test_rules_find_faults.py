"""Every house rule is shown a snippet that breaks it and one that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.architecture import rules, texts
from tests.architecture.rules import Breach, Source, parsed
from tests.architecture.texts import Text

Rule = Callable[[Source], Iterator[Breach]]
LONG_BODY = "".join(f"    x{n} = {n}\n" for n in range(rules.FUNCTION_LINES + 1))
DEEP = """
def f(a):
    for b in a:
        if b:
            try:
                while b:
                    pass
            finally:
                pass
"""
ELIF_CHAIN = """
def f(a):
    for b in a:
        if b == 1:
            pass
        elif b == 2:
            pass
        elif b == 3:
            with a:
                if b:
                    pass
"""
knows_lost = partial(rules.defines_an_error, known=frozenset({"LeaseLost"}))

FAULTS: list[tuple[Rule, str, str]] = [
    (rules.lacks_docstring, "worker/loop.py", "x = 1\n"),
    (rules.is_too_long, "worker/loop.py", "x = 1\n" * (rules.MODULE_LINES + 1)),
    (rules.has_long_function, "worker/loop.py", f"def f():\n{LONG_BODY}"),
    (rules.has_long_function, "worker/loop.py", f"async def f():\n{LONG_BODY}"),
    (rules.nests_too_deep, "worker/loop.py", DEEP),
    (rules.has_vague_name, "worker/utils.py", ""),
    (rules.has_vague_name, "worker/lease_manager.py", ""),
    (rules.has_vague_name, "helpers/loop.py", ""),
    (rules.has_vague_name, "worker/loop.py", "class LeaseManager: ..."),
    (rules.has_vague_name, "worker/loop.py", "class BaseBackend: ..."),
    (rules.has_vague_name, "worker/loop.py", "class JobHandlers: ..."),
    (rules.has_vague_name, "worker/loop.py", "class AckBatch: ..."),
    (rules.reads_a_clock, "worker/loop.py", "import time"),
    (rules.reads_a_clock, "worker/loop.py", "def f():\n    from time import monotonic"),
    (rules.reads_a_clock, "worker/loop.py", "x = datetime.now(UTC)"),
    (rules.reads_a_clock, "worker/loop.py", "x = datetime.datetime.utcnow()"),
    (rules.reads_a_clock, "worker/loop.py", "x = date.today()"),
    (rules.reads_a_clock, "worker/loop.py", "x = asyncio.get_running_loop().time()"),
    (rules.reads_a_clock, "worker/loop.py", "x = self._loop.time()"),
    (rules.sleeps, "test_x.py", "await asyncio.sleep(0.1)"),
    (rules.sleeps, "test_x.py", "time.sleep(1)"),
    (rules.sleeps, "test_x.py", "sleep(2)"),
    (rules.sleeps, "test_x.py", "await asyncio.sleep(0.005 * 1)"),
    (rules.sleeps, "test_x.py", "await asyncio.sleep(-(-1))"),
    (rules.shields, "worker/loop.py", "await asyncio.shield(task)"),
    (rules.catches_everything, "worker/loop.py", "try:\n    f()\nexcept:\n    pass"),
    (rules.catches_broadly, "worker/loop.py", "try:\n    f()\nexcept Exception:\n    pass"),
    (rules.catches_broadly, "worker/loop.py", "try:\n    f()\nexcept (ValueError, BaseException):\n    pass"),
    (rules.catches_broadly, "worker/loop.py", "with contextlib.suppress(Exception):\n    f()"),
    (rules.catches_cancellation, "worker/loop.py", "try:\n    f()\nexcept asyncio.CancelledError:\n    pass"),
    (rules.catches_cancellation, "worker/loop.py", "with suppress(ValueError, CancelledError):\n    f()"),
    (knows_lost, "worker/loop.py", "class Odd(Exception): ..."),
    (knows_lost, "worker/loop.py", "class Odd(errors.LeaseLost): ..."),
    (knows_lost, "worker/loop.py", "class Odd(asyncio.CancelledError): ..."),
    (rules.imports_a_foreign_driver, "worker/loop.py", "import sqlite3"),
    (
        rules.imports_a_foreign_driver,
        "backends/sqlite/store.py",
        "def f():\n    from redis.asyncio import Redis",
    ),
    (rules.loads_code_by_name, "app.py", "import pickle"),
    (rules.loads_code_by_name, "app.py", "def f(name):\n    return importlib.import_module(name)"),
    (rules.loads_code_by_name, "app.py", "def f(text):\n    return eval(text)"),
    (rules.loads_code_by_name, "app.py", "x = __import__(name)"),
    (rules.suppresses_without_reason, "app.py", "x = f()  # type: ignore[arg-type]"),
    (rules.suppresses_without_reason, "app.py", "x = f()  # noqa: S311"),
    (rules.suppresses_without_reason, "app.py", "x = f()  # noqa: S311, PLR0913"),
    (rules.suppresses_without_reason, "app.py", "x = f()  # pragma: no cover"),
]

FAULTLESS: list[tuple[Rule, str, str]] = [
    (rules.lacks_docstring, "worker/loop.py", '"""The loop."""\n'),
    (rules.is_too_long, "worker/loop.py", "x = 1\n" * rules.MODULE_LINES),
    (rules.has_long_function, "worker/loop.py", 'def f():\n    """' + "\n" * 80 + '    """\n    return 1\n'),
    (rules.nests_too_deep, "worker/loop.py", ELIF_CHAIN),
    (rules.has_vague_name, "backends/rabbitmq/ack.py", "class AckBatch: ..."),
    (rules.has_vague_name, "worker/execute.py", "class HandlerTimeout: ..."),
    (rules.has_vague_name, "worker/execute.py", "class Database: ..."),
    (rules.reads_a_clock, "clock.py", "import time"),
    (rules.reads_a_clock, "worker/loop.py", "x = clock.now_ms(); y = moment.time()"),
    (rules.sleeps, "test_x.py", "await asyncio.sleep(0)"),
    (rules.sleeps, "test_x.py", "await pass_time(60)"),
    (rules.sleeps, "worker/stage.py", "await asyncio.sleep(0.005)"),
    (rules.shields, "worker/loop.py", "x = 'shield'"),
    (rules.catches_everything, "worker/loop.py", "try:\n    f()\nexcept ValueError:\n    pass"),
    (rules.catches_broadly, "worker/loop.py", "try:\n    f()\nexcept ExceptionGroup:\n    pass"),
    (rules.catches_cancellation, "worker/execute.py", "try:\n    f()\nexcept CancelledError:\n    pass"),
    (knows_lost, "errors.py", "class Odd(Exception): ..."),
    (knows_lost, "worker/loop.py", "class Odd(Protocol): ..."),
    (rules.imports_a_foreign_driver, "backends/sqlite/store.py", "import sqlite3"),
    (rules.loads_code_by_name, "app.py", "re.compile(x); importlib.import_module('leasemq.backends.sqlite')"),
    (rules.suppresses_without_reason, "app.py", "x = f()  # type: ignore[arg-type]  # the stub lacks None"),
    (rules.suppresses_without_reason, "app.py", "x = f()  # noqa: S311 - jitter is no secret"),
    (rules.suppresses_without_reason, "app.py", "x = '# noqa'"),
]


def told(case: object) -> str:
    return case.__name__ if hasattr(case, "__name__") else "snippet"


@pytest.mark.parametrize(("rule", "path", "snippet"), FAULTS, ids=told)
def test_a_broken_rule_is_reported(rule: Rule, path: str, snippet: str) -> None:
    assert list(rule(parsed(path, snippet)))


@pytest.mark.parametrize(("rule", "path", "snippet"), FAULTLESS, ids=told)
def test_a_kept_rule_is_not_reported(rule: Rule, path: str, snippet: str) -> None:
    assert list(rule(parsed(path, snippet))) == []


def test_every_rule_has_a_snippet_that_breaks_it() -> None:
    shown = {getattr(rule, "__name__", "defines_an_error") for rule, _, _ in FAULTS}
    public = {
        name
        for name, value in vars(rules).items()
        if callable(value) and "Iterator[Breach]" in str(getattr(value, "__annotations__", {}).get("return"))
    }
    assert public - {name for name in public if name.startswith("_")} == shown


ONCE = "once"  # kept apart from the word before it, so that this file does not break the rule it tests


@pytest.mark.parametrize(
    "claim", [f"Runs exactly {ONCE}.", f"EXACTLY-{ONCE.upper()} delivery", f"each job runs exactly\n{ONCE}"]
)
def test_a_claim_of_a_single_run_is_reported(claim: str) -> None:
    assert list(texts.claims_one_run(Text(path="README.md", text=claim)))


@pytest.mark.parametrize(
    "denial",
    [f"never exactly {ONCE}", f"It is not exactly-{ONCE}.", f"LeaseMQ never claims exactly-{ONCE} execution"],
)
def test_a_denial_of_a_single_run_is_welcome(denial: str) -> None:
    assert list(texts.claims_one_run(Text(path="README.md", text=denial))) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "-- In: none\n-- Out: one row\nSELECT 1",
        "-- One.\n-- Out: one row\nSELECT 1",
        "-- One.\n-- In: none\nSELECT 1",
        "-- One.\n-- In: a\n-- Out: one row\nSELECT :a, :b",
        "-- One.\n-- In: a, b\n-- Out: one row\nSELECT :a",
        "-- One.\n-- In: a\n-- Out: one row\nSELECT ':a'",
        "-- One.\n-- In: a\n-- Out: a number\nCREATE FUNCTION {self}(a text, b integer[]) RETURNS integer",
    ],
)
def test_a_statement_file_that_misstates_its_parameters_is_reported(statement: str) -> None:
    assert list(texts.misstates_its_parameters(Text(path="claim.sql", text=statement)))


@pytest.mark.parametrize(
    "statement",
    [
        "-- One.\n-- In: none\n-- Out: one row\nSELECT 1",
        "-- One,\n-- or two.\n-- In: a (text), b (ms,\n--   UTC), c\n-- Out: x\nSELECT :a, %(b)s, :c::int",
        "-- One.\n-- In: a\n-- Out: rows\nSELECT :a -- and not :b\n, ':c', x::text",
        "-- One.\n-- In: a\n-- Out: a number\nCREATE FUNCTION {self}(a text) RETURNS integer AS $$ x[1:b] $$",
    ],
)
def test_a_statement_file_that_tells_the_truth_is_not_reported(statement: str) -> None:
    assert list(texts.misstates_its_parameters(Text(path="claim.sql", text=statement))) == []
