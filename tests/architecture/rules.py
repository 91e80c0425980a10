"""The house rules about Python source, each a function from one source file to what breaks it there.

A rule only reads the syntax tree and the text; which files it is asked about is decided by
`test_house_rules.py`, and that it can find anything at all is shown by `test_rules_find_faults.py`.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 60  # the aim is 40; a table of cases may need more
NESTING = 3

VAGUE_WORDS = frozenset({"util", "utils", "helper", "helpers", "common", "misc", "shared", "base"})
VAGUE_ROLES = frozenset({"manager", "handler", "service"})
BROKER_WORDS = frozenset({"broker", "message", "ack"})
BROKER_PLACE = "backends/rabbitmq"

CLOCK_MODULE = "clock.py"
CLOCK_CALLS = frozenset({"now", "utcnow", "today"})
LOOP_TIME_PLACES = frozenset({"clock.py", "testing/virtual_loop.py"})
POLL_PLACES = frozenset({"worker/stage.py"})  # of real time: the one place that asks for a condition again
CANCELLATION_PLACE = "worker/execute.py"
ERRORS_MODULE = "errors.py"

DRIVER_PLACES = {
    "sqlite3": "backends/sqlite",
    "redis": "backends/redis",
    "psycopg": "backends/postgres",
    "asyncpg": "backends/postgres",
    "pymongo": "backends/mongodb",
    "bson": "backends/mongodb",
    "aio_pika": "backends/rabbitmq",
    "aiormq": "backends/rabbitmq",
}
CODE_LOADERS = frozenset({"eval", "exec", "compile", "__import__"})
CODE_FORMATS = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle"})

_BROAD = frozenset({"Exception", "BaseException"})
_BRANCHING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SUPPRESSION = re.compile(
    r"#\s*(?:type:\s*ignore|pyright:\s*ignore|noqa|pragma|ruff:\s*noqa|mypy:)"
    r"(?:\[[^\]]*\]|:\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*|:?\s*no (?:cover|branch))?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One place where a rule is broken; `key` names the place for an allow-list."""

    where: str
    line: int
    what: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.where}:{self.line}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One Python file: its path below the folder it was read from, its text, its syntax tree."""

    path: str
    text: str
    tree: ast.Module = field(repr=False)

    def breach(self, node: ast.AST | int, what: str, key: str = "") -> Breach:
        """A breach at a node or line of this file."""
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return Breach(where=self.path, line=line, what=what, key=key)


def parsed(path: str, text: str) -> Source:
    """The source of one file."""
    return Source(path=path, text=text, tree=ast.parse(text, filename=path))


def sources(folder: Path) -> list[Source]:
    """Every Python file below a folder, in path order."""
    return [
        parsed(file.relative_to(folder).as_posix(), file.read_text(encoding="utf-8"))
        for file in sorted(folder.rglob("*.py"))
        if "__pycache__" not in file.parts
    ]


# ---- shape


def lacks_docstring(source: Source) -> Iterator[Breach]:
    """A module says what lives in it."""
    if not ast.get_docstring(source.tree):
        yield source.breach(1, "the module has no docstring that says what lives here")


def is_too_long(source: Source) -> Iterator[Breach]:
    """A module has a bounded number of lines."""
    lines = len(source.text.splitlines())
    if lines > MODULE_LINES:
        yield source.breach(1, f"the module has {lines} lines, at most {MODULE_LINES}: split by noun")


def has_long_function(source: Source) -> Iterator[Breach]:
    """A function has a bounded number of lines, its docstring not counted."""
    for node in ast.walk(source.tree):
        if isinstance(node, _FUNCTIONS):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
            if lines > FUNCTION_LINES:
                yield source.breach(node, f"{node.name} has {lines} lines, at most {FUNCTION_LINES}")


def nests_too_deep(source: Source) -> Iterator[Breach]:
    """Blocks that branch or repeat are at most three deep; `with` does neither, so it is not counted."""
    for node in ast.walk(source.tree):
        if isinstance(node, _FUNCTIONS):
            deepest, line = _depth(node.body, 0, node.lineno)
            if deepest > NESTING:
                yield source.breach(line, f"{node.name} nests {deepest} blocks, at most {NESTING}")


def has_vague_name(source: Source) -> Iterator[Breach]:
    """Modules and classes are not called by words that name no thing."""
    in_broker = source.path.startswith(BROKER_PLACE)
    for part in source.path.removesuffix(".py").split("/"):
        if found := _vague(part.split("_"), in_broker=in_broker):
            yield source.breach(1, f"the module's name {part!r} says {found!r}: name the thing it holds")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", node.name)]
            if found := _vague(words, in_broker=in_broker):
                yield source.breach(node, f"class {node.name} says {found!r}: name the thing or the chore")


def _vague(words: list[str], *, in_broker: bool) -> str | None:
    for word in words:
        if word in VAGUE_WORDS or (word in BROKER_WORDS and not in_broker):
            return word
    return words[-1] if words and words[-1].removesuffix("s") in VAGUE_ROLES else None


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    return (node.body[0].end_lineno or 0) - node.body[0].lineno + 1


def _depth(body: list[ast.stmt], depth: int, line: int) -> tuple[int, int]:
    """The deepest count of branching blocks in a body, and the line where it is reached."""
    deepest = (depth, line)
    for statement in body:
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            continue  # walked on its own
        inner = depth + isinstance(statement, _BRANCHING)
        for block in _blocks(statement):
            is_elif = block is getattr(statement, "orelse", None) and _is_elif(statement)
            found = _depth(block, depth if is_elif else inner, statement.lineno)
            deepest = max(deepest, found, key=lambda pair: pair[0])
    return deepest


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        if block := getattr(statement, name, None):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _is_elif(statement: ast.stmt) -> bool:
    following = getattr(statement, "orelse", [])
    return isinstance(statement, ast.If) and len(following) == 1 and isinstance(following[0], ast.If)


# ---- clocks and sleeps


def reads_a_clock(source: Source) -> Iterator[Breach]:
    """Only clock.py reads a clock."""
    if source.path == CLOCK_MODULE:
        return
    for node, module in _imports(source):
        if module == "time":
            yield source.breach(node, "imports time: only clock.py reads a clock")
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = ast.unparse(node.func.value)
        if node.func.attr in CLOCK_CALLS and re.search(r"\bdate(time)?$", owner):
            yield source.breach(node, f"calls {owner}.{node.func.attr}(): only clock.py reads a clock")
        is_loop_time = node.func.attr == "time" and re.search(r"loop(\(\))?$", owner)
        if is_loop_time and source.path not in LOOP_TIME_PLACES:
            yield source.breach(node, f"calls {owner}.time(): only clock.py reads a clock")


def sleeps(source: Source) -> Iterator[Breach]:
    """A test never sleeps for a constant time."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or _called(node) != "sleep" or not node.args:
            continue
        first = node.args[0]
        if _is_constant(first) and ast.unparse(first) not in ("0", "0.0") and source.path not in POLL_PLACES:
            told = "wait for a condition, move the clock, or use the virtual loop"
            yield source.breach(node, f"sleeps {ast.unparse(first)}: {told}")


def _is_constant(node: ast.expr) -> bool:
    """Whether nothing is named in this expression: it comes to the same value at every call."""
    return not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node))


# ---- exceptions


def shields(source: Source) -> Iterator[Breach]:
    """Nothing is shielded from cancellation: what must survive is done by another task."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and _called(node) == "shield":
            yield source.breach(node, "shields from cancellation: give the work to another task")


def catches_everything(source: Source) -> Iterator[Breach]:
    """There is no bare `except:`."""
    for handler in _handlers(source):
        if handler.type is None:
            yield source.breach(handler, "a bare except: name what is caught")


def catches_broadly(source: Source) -> Iterator[Breach]:
    """Every place that catches or suppresses Exception or BaseException, keyed `path::function`."""
    for place, node, caught in _caught(source):
        if found := caught & _BROAD:
            yield source.breach(node, f"{place} catches {min(found)}", key=f"{source.path}::{place}")


def catches_cancellation(source: Source) -> Iterator[Breach]:
    """CancelledError is caught in exactly one module."""
    if source.path == CANCELLATION_PLACE:
        return
    for place, node, caught in _caught(source):
        if "CancelledError" in caught:
            yield source.breach(node, f"{place} catches CancelledError: only {CANCELLATION_PLACE} does")


def defines_an_error(source: Source, known: frozenset[str]) -> Iterator[Breach]:
    """Every exception class is defined in errors.py; `known` are the names defined there."""
    if source.path == ERRORS_MODULE:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            if bases & (known | _builtin_errors()):
                yield source.breach(node, f"defines the exception {node.name}: it belongs in errors.py")


def error_names(source: Source) -> frozenset[str]:
    """The classes of errors.py."""
    return frozenset(node.name for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))


def _builtin_errors() -> frozenset[str]:
    types = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
    errors = {name for name, value in types.items() if issubclass(value, BaseException)}
    return frozenset(errors | {"CancelledError"})


def _handlers(source: Source) -> Iterator[ast.ExceptHandler]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            yield node


def _caught(source: Source) -> Iterator[tuple[str, ast.AST, frozenset[str]]]:
    """Each handler and each `suppress(...)`: the function it stands in, the node, the names it catches."""
    yield from _caught_below(source.tree, "<module>")


def _caught_below(parent: ast.AST, place: str) -> Iterator[tuple[str, ast.AST, frozenset[str]]]:
    for node in ast.iter_child_nodes(parent):
        inner = place
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            inner = node.name if place == "<module>" else f"{place}.{node.name}"
        elif isinstance(node, ast.ExceptHandler):
            yield place, node, _names([node.type] if node.type else [])
        elif isinstance(node, ast.Call) and _called(node) == "suppress":
            yield place, node, _names(node.args)
        yield from _caught_below(node, inner)


def _names(expressions: list[ast.expr]) -> frozenset[str]:
    found: set[str] = set()
    for expression in expressions:
        parts = expression.elts if isinstance(expression, ast.Tuple) else [expression]
        found |= {ast.unparse(part).rpartition(".")[2] for part in parts}
    return frozenset(found)


# ---- imports and code from data


def imports_a_foreign_driver(source: Source) -> Iterator[Breach]:
    """A driver is imported only by its own backend."""
    for node, module in _imports(source):
        home = DRIVER_PLACES.get(module)
        if home is not None and not source.path.startswith(home):
            yield source.breach(node, f"imports {module}: only {home} may")


def loads_code_by_name(source: Source) -> Iterator[Breach]:
    """Every place that could turn data into code, keyed `path::function`.

    An import of a module whose name is written in the source is not one.
    """
    for node, module in _imports(source):
        if module in CODE_FORMATS:
            key = f"{source.path}::{module}"
            yield source.breach(node, f"imports {module}: stored bytes never name code", key)
    for place, call in _calls(source.tree, "<module>"):
        name = _called(call)
        is_written_out = bool(call.args) and isinstance(call.args[0], ast.Constant)
        is_loader = isinstance(call.func, ast.Name) and name in CODE_LOADERS
        if is_loader or (name == "import_module" and not is_written_out):
            yield source.breach(call, f"{place} calls {name}", key=f"{source.path}::{place}")


def _calls(parent: ast.AST, place: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.iter_child_nodes(parent):
        inner = place
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            inner = node.name if place == "<module>" else f"{place}.{node.name}"
        elif isinstance(node, ast.Call):
            yield place, node
        yield from _calls(node, inner)


def _imports(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Each import, with the top-level package it names."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node, node.module.partition(".")[0]


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


# ---- suppressions


def suppresses_without_reason(source: Source) -> Iterator[Breach]:
    """Every lint or type exception carries its reason on the same line."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type != tokenize.COMMENT or not _SUPPRESSION.search(token.string):
            continue
        rest = _SUPPRESSION.sub("", token.string)
        if len(re.findall(r"[^\W\d_]{2,}", rest)) < 2:
            yield source.breach(token.start[0], f"{token.string!r} gives no reason on its line")
