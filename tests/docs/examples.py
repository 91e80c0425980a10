"""Runs the Python blocks of one page, in order and in one module, as a reader would try them.

A block with a title, ```python title="tasks.py", is also written to that file in the folder it runs in.
Blocks with `await` at their top level share one event loop; the others run outside of any.

    python -m tests.docs.examples PAGE
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r'^```python(?: title="(?P<title>[\w./-]+)")?\n(?P<text>.*?)^```$', re.M | re.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One block of a page."""

    line: int
    title: str | None
    text: str


def examples(page: str) -> Iterator[Example]:
    """Answer the Python blocks of a page."""
    for found in _BLOCK.finditer(page):
        line = page.count("\n", 0, found.start()) + 2
        yield Example(line=line, title=found["title"], text=found["text"])


def pages_with_examples(root: Path) -> list[Path]:
    """Answer the pages that have Python blocks. Raises: ValueError for a block in a form nobody runs."""
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if text.count("```py") != len(list(examples(text))):
            raise ValueError(f'{page.name} has a Python block that is not ```python or ```python title="…"')
    return [page for page in pages if list(examples(page.read_text(encoding="utf-8")))]


def run(page: Path) -> None:
    """Run the blocks of a page here."""
    module = types.ModuleType("the_page")
    sys.modules[module.__name__] = module
    sys.path.insert(0, "")
    with asyncio.Runner() as runner:
        for example in examples(page.read_text(encoding="utf-8")):
            text = "\n" * (example.line - 1) + example.text  # a traceback names the page's own line
            if example.title is not None:
                Path(example.title).parent.mkdir(parents=True, exist_ok=True)
                Path(example.title).write_text(example.text, encoding="utf-8")
            code = compile(text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(_awaited(code, module))
            else:
                exec(code, module.__dict__)  # noqa: S102  the project's own pages


async def _awaited(code: types.CodeType, module: types.ModuleType) -> None:
    await types.FunctionType(code, module.__dict__)()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
