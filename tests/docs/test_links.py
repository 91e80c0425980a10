"""Every relative link of the documents leads somewhere, and the index leads to every page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.links import dead_links, links

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / link.partition("#")[0]).resolve() for link in links(index.read_text("utf-8"))}
    assert {page for page in PAGES if page.parent == index.parent} - {index} <= named


def test_a_link_to_no_file_and_one_to_no_heading_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`, three\n[a](page.md#one-two-three) [b](#one-two-three) [c](https://example.org/x)\n"
        "[d](gone.md) [e](page.md#four) `[f](code.md)`\n```\n[g](code.md)\n# Five\n```\n[h](#five)\n",
        encoding="utf-8",
    )
    assert dead_links(page) == ["gone.md", "page.md#four", "#five"]
