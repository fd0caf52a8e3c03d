"""HTML parts: escaped texts, marked quotes, anchors, tables."""

import re
from html import unescape

import pandas as pd
from hypothesis import example, given
from hypothesis import strategies as st
from markupsafe import Markup

from evalkit.views.markup import banner, case_anchor, case_link, page
from evalkit.views.quotes import highlight
from evalkit.views.tables import key_values, table
from tests.htmlparts import SCRIPT, soup, text_of


@given(st.text(max_size=80), st.lists(st.text(max_size=12), max_size=4))
@example("0\r", ["0"])
def test_highlighting_changes_no_text(text, quotes):
    named = [(quote, str(number)) for number, quote in enumerate(quotes)]
    unmarked = re.sub(r"&nbsp;<sup>[^<]*</sup>|</?mark>", "", highlight(text, named))
    assert unescape(unmarked) == text


def test_a_quote_is_marked_over_line_breaks_and_overlaps_share_a_mark():
    text = "Stop the\n  writer first, then drain."
    html = highlight(
        text, [("Stop the writer", "fact 1"), ("the writer first", "fact 2"), ("not there", "fact 3")]
    )
    assert str(html) == "<mark>Stop the\n  writer first</mark>&nbsp;<sup>fact 1, fact 2</sup>, then drain."


def test_marked_text_is_escaped():
    html = str(highlight(f"before {SCRIPT} after", [(SCRIPT, SCRIPT)]))
    assert "<script" not in html
    assert "<img" not in html
    assert soup(html).mark.get_text() == SCRIPT


def test_case_sensitive_as_labels_are():
    assert "<mark>" not in highlight("Stop the writer", [("stop the writer", "fact 1")])


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_anchors_are_valid_and_tell_cases_apart(one, other):
    assert not set(case_anchor(one)) & set(" \t\n\"'<>#&")
    assert (case_anchor(one) == case_anchor(other)) == (one == other)


def test_only_cases_whose_evidence_is_there_are_linked():
    assert case_link("drain", ["drain"]) == Markup('<a href="#case-drain">drain</a>')
    assert case_link("a<b", ["drain"]) == "a&lt;b"
    assert case_link("drain", ()) == "drain"


def test_a_banner_says_its_kind_in_words_and_escapes():
    html = banner("warning", SCRIPT, SCRIPT, Markup("<em>fine</em>"))
    assert "Warning: " in html
    assert "<script" not in html
    assert "<em>fine</em>" in html


def test_a_page_carries_its_style():
    html = page(Markup("<p>text</p>")).data
    assert html.startswith("<style>")
    assert "url(" not in html
    assert "@import" not in html


def test_a_table_has_caption_scopes_formats_and_escapes():
    frame = pd.DataFrame(
        {
            "case_id": ["drain", SCRIPT],
            "recall": [0.5, None],
            "n": [1234, 2],
            "good": [True, False],
            "text": [SCRIPT, None],
            "grade": pd.array([1, None], dtype="Int64"),
        }
    )
    html = table(frame, f"What {SCRIPT}", linked=["drain"])
    found = soup(html)
    assert "<script" not in html
    assert "<img" not in html
    assert found.caption.get_text() == f"What {SCRIPT}"
    assert [head["scope"] for head in found.thead("th")] == ["col"] * 6
    assert [head["scope"] for head in found.tbody("th")] == ["row"] * 2
    assert [cell.get_text() for cell in found.tbody("td")] == [
        "0.500",
        "1,234",
        "yes",
        SCRIPT,
        "1",
        "–",
        "2",
        "no",
        "–",
        "–",
    ]
    assert [link["href"] for link in found("a")] == ["#case-drain"]
    assert found.div["tabindex"] == "0"  # scrolled by keyboard


def test_a_bar_is_as_long_as_the_score():
    html = table(pd.DataFrame({"k": [1], "recall": [0.25], "n": [4]}), "Scores")
    assert "25.0%" in html
    assert html.count("linear-gradient") == 1  # n has no bar
    assert "linear-gradient" not in table(pd.DataFrame({"k": [1], "recall": [0.25]}), "Scores", bars=())


def test_a_table_with_groups_of_columns():
    columns = pd.MultiIndex.from_tuples([("", "case_id"), ("K = 1", "recall"), ("K = 1", "ndcg")])
    frame = pd.DataFrame([["a", 1.0, 0.5]], columns=columns)
    found = soup(table(frame, "Groups"))
    first, second = found.thead("tr")
    assert [(head.get_text(), head["scope"], head.get("colspan")) for head in first("th")] == [
        ("case", "col", None),
        ("K = 1", "colgroup", "2"),
    ]
    assert [head.get_text() for head in second("th")] == ["recall", "nDCG"]
    assert first.th["rowspan"] == "2"


def test_equal_tables_give_equal_html_and_no_rows_are_said():
    frame = pd.DataFrame({"k": [1], "recall": [0.25]})
    assert table(frame, "Scores") == table(frame.copy(), "Scores")
    assert text_of(table(frame.iloc[:0], "Scores")) == "Scores : none."


def test_a_table_says_when_it_does_not_show_all_rows():
    frame = pd.DataFrame({"k": range(5), "recall": 0.5})
    found = soup(table(frame, "Scores", limit=2))
    assert found.caption.get_text() == "Scores; the first 2 of 5 rows"
    assert len(found.tbody("tr")) == 2
    assert soup(table(frame, "Scores", limit=5)).caption.get_text() == "Scores"


def test_key_values_escape_and_show_what_is_absent():
    html = key_values({"name": SCRIPT, "profile": None, "n": 0}, "Settings")
    assert "<script" not in html
    assert [cell.get_text() for cell in soup(html)("td")] == [SCRIPT, "–", "0"]
