"""Every example runs to its end by itself, and a page of the docs leads to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.trying import EXAMPLES, ROOT, tried

OTHERS = [example for example in EXAMPLES if not example.stem.startswith("fence_")]  # see test_fences.py


@pytest.mark.parametrize("example", OTHERS, ids=lambda example: example.stem)
def test_an_example_runs_to_its_end(example: Path, tmp_path: Path) -> None:
    ended = tried(example, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    assert ended.stdout


def test_each_example_is_named_by_the_list_of_examples_and_by_a_page() -> None:
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    for example in EXAMPLES:
        assert f"]({example.name})" in listed
        assert f"](../examples/{example.name})" in pages, example.name


def test_an_example_says_how_to_run_it() -> None:
    for example in EXAMPLES:
        assert f"\n    python {example.name}\n" in example.read_text(encoding="utf-8"), example.name
