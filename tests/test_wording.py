import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.wording import closest_span, closest_text, fold, likeness, word_diff
from tests.datasets import words


def test_word_diff_marks_what_left_and_what_came():
    assert word_diff("stop at the deadline now", "stop  at a deadline") == (
        "stop at [-the-] deadline [-now-]",
        "stop at {+a+} deadline",
    )


def test_word_diff_of_equal_and_of_empty_texts():
    assert word_diff("one two", "one\ntwo") == ("one two", "one two")
    assert word_diff("", "one") == ("", "{+one+}")
    assert word_diff("one two", "") == ("[-one two-]", "")


def test_word_diff_cuts_long_equal_stretches():
    old = f"{words(50)} old {words(50, 100)} two {words(3, 200)}"
    left, right = word_diff(old, old.replace("old", "new"))
    assert left == f"… {words(8, 42)} [-old-] {words(8, 100)} …"
    assert right == left.replace("[-old-]", "{+new+}")


def test_word_diff_of_very_long_texts_shows_where_they_part():
    old = words(20_000)
    left, right = word_diff(old, old.replace("w10000 ", "changed "))
    assert left.startswith("… w9992 ")
    assert "w10000" in left
    assert "changed" in right
    assert right.endswith("(20000 words)")
    assert len(left) < 1000


@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.lists(st.sampled_from("abcdef"), max_size=30))
def test_word_diff_holds_every_changed_word(old, new):
    left, right = word_diff(" ".join(old), " ".join(new))
    unmarked = left.replace("[-", "").replace("-]", ""), right.replace("{+", "").replace("+}", "")
    if "…" not in left + right:
        assert unmarked == (" ".join(old), " ".join(new))
    assert (left == right) == (old == new)


@pytest.mark.parametrize(
    ("sought", "text", "found"),
    [
        (
            "until the shutdown deadline",
            "Drain only until the stop deadline, which",
            "until the stop deadline",
        ),
        ("Beta stands quite alone", "Beta stands alone. It is short.", "Beta stands alone"),
        ("wait for the readers", "Then wait for all the readers now", "wait for all the readers"),
        ("same words", "the same words here", "same words"),
        ("nothing like it", "zzz yyy xxx www qqq", None),
        ("a much longer quote than the text", "a quote", None),
        ("", "text", None),
        ("quote", "", None),
    ],
)
def test_the_closest_stretch_of_words(sought, text, found):
    match = closest_span(sought, text)
    assert (match and match.text) == found
    if match:
        assert match.text in text
        assert match.likeness == likeness(sought, match.text)


def test_the_closest_text_is_equal_then_holding_then_alike():
    texts = ["one two three fore!", "zero one two three four", "one two three four"]
    assert closest_text("one two three four", texts).index == 2
    assert closest_text("one two three four", texts[:2]).index == 1
    match = closest_text("one two three four", texts[:1])
    assert (match.index, match.text, match.likeness) == (
        0,
        texts[0],
        likeness("one two three four", texts[0]),
    )
    assert closest_text("quite another thing", texts) is None
    assert closest_text("anything", []) is None


@given(st.text())
def test_folded_text_stays_folded(text):
    assert fold(fold(text)) == fold(text) == " ".join(text.split())
