"""How one moment of a job looks: as a line, as JSON, and as a bar of any width."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.cli.printing import text_width
from leasemq.cli.sight import Glyphs, Progress, Sight, bar_of, glyphs_for, json_of, line_of, progress_of

UTF8 = glyphs_for("utf-8")
ASCII = glyphs_for("ascii")


def sight(
    progress: Progress | None = None,
    *,
    state: str = "active",
    attempt: int = 1,
    id_: str = "inv-7",
    note: str | None = None,
) -> Sight:
    return Sight(
        at_ms=0,
        queue="mail",
        id=id_,
        generation=1,
        event="progress",
        state=state,
        attempt=attempt,
        progress=progress,
        note=note,
    )


def half(message: str | None = None) -> Progress:
    return Progress(current=5, total=10, message=message)


@pytest.mark.promise("A-31", "A-45")
def test_a_line_has_eight_columns_whatever_is_told() -> None:
    start = "1970-01-01T00:00:00.000Z\tmail/inv-7\tprogress\tactive\t1"
    assert line_of(sight(half("rows")), UTF8) == f"{start}\t5/10\t50%\trows"
    assert line_of(sight(Progress(current=7)), UTF8) == f"{start}\t7\t-\t-"
    assert line_of(sight(), UTF8) == f"{start}\t-\t-\t-"
    odd = line_of(sight(half("a\tb\nc\x1b[2J"), id_="x\u202ey"), ASCII)
    assert odd.split("\t")[1::6] == ["mail/x\\u202ey", "a\\tb\\nc\\x1b[2J"]


@pytest.mark.promise("A-31", "A-45")
def test_json_is_one_line_in_ascii_that_holds_the_values_themselves() -> None:
    line = json_of(sight(Progress(current=0.5, total=2, message="é\n\x1b", data={"rows": 7})))
    assert "\n" not in line
    assert line.isascii()
    told = json.loads(line)
    expected = {"current": 0.5, "total": 2, "percent": 25, "message": "é\n\x1b", "data": {"rows": 7}}
    assert told["progress"] == expected
    assert (told["queue"], told["id"], told["attempt"]) == ("mail", "inv-7", 1)


@pytest.mark.promise("A-31")
def test_a_bar_shows_what_there_is_room_for() -> None:
    widths = (80, 60, 52, 44, 24, 12, 3)
    assert [bar_of(sight(half("importing rows")), 72, width, UTF8) for width in widths] == [
        "active  attempt 1  ████████░░░░░░░░   50%  5/10  importing rows  1:12",
        "active  attempt 1  ██████░░░░░░   50%  5/10  importin…  1:12",
        "active  attempt 1  █████░░░░░   50%  5/10  1:12",
        "active  attempt 1   50%  5/10  1:12",
        "active   50%  5/10",
        "active",
        "ac…",
    ]


@pytest.mark.promise("A-31")
def test_a_bar_for_an_output_without_such_characters_is_plain() -> None:
    assert (
        bar_of(sight(half("zwölf")), 5, 66, ASCII)
        == "active  attempt 1  [######-------]   50%  5/10  zw\\xf6lf  0:05"
    )
    assert glyphs_for(None) == glyphs_for("no such encoding") == ASCII
    assert glyphs_for("latin-1").full == "#"


@pytest.mark.promise("A-31")
def test_without_a_total_there_is_a_count_and_no_bar() -> None:
    for progress in (Progress(current=21), Progress(current=21, total=0), Progress(current=21, total=-3)):
        line = bar_of(sight(progress), 3_661, 80, UTF8)
        assert line.startswith("active  attempt 1  21")
        assert "█" not in line
        assert "░" not in line
        assert line.endswith("  1:01:01")


@pytest.mark.promise("A-31")
def test_a_job_that_said_nothing_has_its_state_and_the_time() -> None:
    assert bar_of(sight(state="waiting", attempt=0), 3, 80, UTF8) == "waiting  0:03"


@pytest.mark.promise("A-31")
def test_only_all_of_it_is_a_full_bar() -> None:
    assert Progress(current=999, total=1_000).percent == 99
    assert "░" in bar_of(sight(Progress(current=999, total=1_000)), 0, 80, UTF8)
    assert "░" not in bar_of(sight(Progress(current=3_000, total=1_000)), 0, 80, UTF8)
    assert Progress(current=-1, total=10).percent == 0


@pytest.mark.promise("A-31")
def test_progress_in_a_form_of_others_is_none() -> None:
    assert progress_of({"current": 1, "total": None, "message": None}) == Progress(current=1)
    assert [progress_of(odd) for odd in (None, 3, [], {"current": "1"}, {"total": 2})] == [None] * 5


texts = st.text(max_size=200) | st.just("三日本" * 40) | st.just("e\u0301" * 90) | st.just("\x1b[2J\r\x00")


@pytest.mark.promise("A-31")
@given(
    message=texts,
    note=st.none() | texts,
    current=st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    total=st.none() | st.integers(-2, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    width=st.integers(1, 200),
    elapsed_s=st.integers(0, 10**7),
    glyphs=st.sampled_from([UTF8, ASCII, glyphs_for("cp1252")]),
)
def test_a_bar_never_leaves_its_line_nor_its_encoding(
    message: str,
    note: str | None,
    current: float,
    total: float | None,
    width: int,
    elapsed_s: int,
    glyphs: Glyphs,
) -> None:
    seen = sight(Progress(current=current, total=total, message=message), note=note)
    line = bar_of(seen, elapsed_s, width, glyphs)
    assert text_width(line) <= width
    line.encode(glyphs.encoding)
    assert line.isprintable()
    assert len(line_of(seen, glyphs).split("\t")) == 8
    line_of(seen, glyphs).encode(glyphs.encoding)
