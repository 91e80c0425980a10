"""Every Python block of the README and the docs runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import examples, pages_with_examples

ROOT = Path(__file__).parents[2]
LIMIT_S = 60


def tried(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the blocks of a page in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "tests.docs.examples", str(page)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("page", pages_with_examples(ROOT), ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    ended = tried(page, tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_block_that_raises_fails_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", encoding="utf-8")
    found = [(one.line, one.title) for one in examples(page.read_text(encoding="utf-8"))]
    assert found == [(2, None), (6, None)]
    ended = tried(page, tmp_path)
    assert ended.returncode == 1
    assert "line 6" in ended.stderr
