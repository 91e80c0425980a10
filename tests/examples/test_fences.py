"""The recipes for downstream fences refuse a stale attempt, and notice when their guard is taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.trying import ROOT, tried

GUARDS = {  # example: what guards, and the same without it
    "fence_sql_row.py": (
        'WHERE id = ? AND fence <= ?",\n        (status, fence, invoice, fence)',
        'WHERE id = ?",\n        (status, fence, invoice)',
    ),
    "fence_http_header.py": ("fence < newest_fence.get(job, 0)", "False"),
    "fence_object_store.py": ("if fence < newest:", "if False:"),
}
FOLDER = ROOT / "examples"


@pytest.mark.parametrize("example", GUARDS)
@pytest.mark.promise("P-13", "E-17", "A-11")
def test_a_stale_attempt_is_refused_downstream_and_so_is_a_good_one_of_another_job(
    example: str, tmp_path: Path
) -> None:
    ended = tried(FOLDER / example, tmp_path)
    assert ended.returncode == 0, ended.stderr
    first, second, third = ended.stdout.splitlines()
    assert first.startswith("refused: a newer attempt")
    assert second.endswith("by attempt 2")
    assert third.startswith("A was refused though nobody else ever had its lease")


@pytest.mark.parametrize("example", GUARDS)
@pytest.mark.promise("P-13")
def test_without_its_guard_a_recipe_lets_the_stale_attempt_through_and_its_example_fails(
    example: str, tmp_path: Path
) -> None:
    guard, nothing = GUARDS[example]
    text = (FOLDER / example).read_text(encoding="utf-8")
    assert text.count(guard) == 1
    unguarded = tmp_path / example
    unguarded.write_text(text.replace(guard, nothing), encoding="utf-8")
    ended = tried(unguarded, tmp_path)
    assert ended.returncode == 1
    assert "AssertionError: a stale write was accepted" in ended.stderr
