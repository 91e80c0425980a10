"""The links of a page, and which of them lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.M)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


def links(page: str) -> Iterator[str]:
    """The targets of a page's links, those in code left out."""
    yield from _LINK.findall(_CODE.sub("", _FENCED.sub("", page)))


def anchors(page: str) -> set[str]:
    """What `#` may name on a page, as GitHub makes it of the headings."""
    headings = _HEADING.findall(_FENCED.sub("", page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """The relative links of a page that lead to no file, or to no heading in it."""
    dead = []
    for link in links(page.read_text(encoding="utf-8")):
        if _ELSEWHERE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            dead.append(link)
    return dead
