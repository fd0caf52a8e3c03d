"""Contexts assembled by hand-checked rules."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.context import Passage, assemble, count_words, load_function
from evalkit.errors import InputError


def ranking(*chunks):
    """Rows of one question from (document/section/p<n>, text) in ranked order."""
    rows = [(*name.split("/", 1), text, 1 - rank / 10) for rank, (name, text) in enumerate(chunks)]
    return pd.DataFrame(rows, columns=["document_id", "chunk_id", "text", "score"]).astype(
        {"document_id": "str", "chunk_id": "str", "text": "str"}
    )


def texts(context):
    return [passage.text for passage in context.passages]


def test_without_options_the_order_is_kept_and_nothing_is_dropped():
    context = assemble(ranking(("b/s/p1", "two words"), ("a/s/p0", "two words"), ("b/s/p0", "last")))
    assert context.text == "two words\n\ntwo words\n\nlast"
    assert context.words == 5
    assert context.passages[0] == Passage("b", ("s/p1",), "two words")


def test_exact_copies_are_dropped_whatever_their_white_space_and_case():
    ranked = ranking(("a/s/p0", "One  two\nthree"), ("b/s/p0", "one two three"), ("c/s/p0", "one two four"))
    assert texts(assemble(ranked, deduplicate=1.0)) == ["One  two\nthree", "one two four"]


def test_near_copies_are_dropped_from_the_stated_similarity_on():
    # 10 letters each, one replaced: 1 - (1 deletion + 1 insertion) / 20 = 0.9
    ranked = ranking(("a/s/p0", "abcdefghij"), ("b/s/p0", "abcdefghiX"))
    assert len(assemble(ranked, deduplicate=0.9).passages) == 1
    assert len(assemble(ranked, deduplicate=0.901).passages) == 2


def test_a_copy_of_a_dropped_chunk_alone_is_kept():
    # The third is 0.8 like the kept first and 0.9 like the dropped second.
    ranked = ranking(("a/s/p0", "abcdefghij"), ("b/s/p0", "abcdefghiX"), ("c/s/p0", "abcdefghYX"))
    assert texts(assemble(ranked, deduplicate=0.9)) == ["abcdefghij", "abcdefghYX"]


def test_a_shared_paragraph_of_neighbours_appears_once_at_the_place_of_the_higher_ranked():
    ranked = ranking(("a/s/p1", "two\n\nthree"), ("b/s/p0", "other"), ("a/s/p0", "one\n\ntwo"))
    context = assemble(ranked, merge_overlap=True)
    assert texts(context) == ["one\n\ntwo\n\nthree", "other"]
    assert context.passages[0].chunk_ids == ("s/p0", "s/p1")


def test_a_chunk_between_two_joins_all_three():
    ranked = ranking(("a/s/p2", "three\n\nfour"), ("a/s/p0", "one\n\ntwo"), ("a/s/p1", "two\n\nthree"))
    assert texts(assemble(ranked, merge_overlap=True)) == ["one\n\ntwo\n\nthree\n\nfour"]


@pytest.mark.parametrize(
    "other",
    [
        ("a/s/p1", "three\n\nfour"),  # neighbours without a shared paragraph
        ("a/t/p1", "two\n\nthree"),  # another section
        ("b/s/p1", "two\n\nthree"),  # another document
        ("a/s/p2", "two\n\nthree"),  # not neighbours
        ("a/s", "two\n\nthree"),  # a chunking that does not number its chunks
    ],
)
def test_only_overlapping_neighbours_of_a_section_are_joined(other):
    assert len(assemble(ranking(("a/s/p0", "one\n\ntwo"), other), merge_overlap=True).passages) == 2


def test_the_budget_cuts_after_its_last_word():
    ranked = ranking(("a/s/p0", "one two"), ("b/s/p0", "three  four\n\nfive"), ("c/s/p0", "six"))
    assert texts(assemble(ranked, 4)) == ["one two", "three  four"]
    assert texts(assemble(ranked, 2)) == ["one two"]
    assert assemble(ranked, 100).words == 6


def test_the_budget_counts_what_is_left_after_copies_are_dropped_and_overlaps_joined():
    ranked = ranking(("a/s/p0", "one\n\ntwo"), ("b/s/p0", "one\n\ntwo"), ("a/s/p1", "two\n\nthree"))
    assert assemble(ranked, 3, 1.0, merge_overlap=True).text == "one\n\ntwo\n\nthree"


def test_a_token_counter_of_the_user_rules_the_budget():
    ranked = ranking(("a/s/p0", "aa bb"), ("b/s/p0", "cc"))
    assert assemble(ranked, 5, count=len).text == "aa bb"
    assert assemble(ranked, 8, count=len).text == "aa bb"  # the blank line and "cc" need 9
    assert assemble(ranked, 9, count=len).text == "aa bb\n\ncc"
    assert assemble(ranked, 1, count=len).passages == ()


def test_the_users_own_function_gets_the_remaining_chunks_and_its_text_is_cut():
    ranked = ranking(("a/s/p0", "one"), ("b/s/p0", "one"), ("c/s/p0", "two three"))
    seen = []

    def build(rows):
        seen.append(list(rows["document_id"]))
        return " | ".join(reversed(list(rows["text"])))

    assert assemble(ranked, 3, 1.0, build=build).text == "two three |"
    assert seen == [["a", "c"]]
    assert assemble(ranked.iloc[:0], build=build).text == ""
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget_words": 0}, "budget_words: wanted at least 1"),
        ({"deduplicate": 0.0}, "deduplicate: wanted a similarity above 0 and up to 1"),
        ({"deduplicate": 90}, "found 90"),
        ({"build": lambda rows: list(rows["text"])}, "wanted a text from the chunks, found list"),
    ],
)
def test_options_outside_their_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        assemble(ranking(("a/s/p0", "one")), **options)


def test_a_ranking_without_texts_is_refused():
    hashed = ranking(("a/s/p0", None))
    with pytest.raises(InputError, match="retention 'full'"):
        assemble(hashed)
    with pytest.raises(InputError, match=r"columns \['text'\] are missing"):
        assemble(hashed.drop(columns="text"))


def test_functions_are_found_by_place():
    assert load_function("evalkit.context:count_words") is count_words
    for place in (
        "evalkit.context",
        "evalkit.context:nothing",
        "no_such_module:f",
        "evalkit.context:SEPARATOR",
    ):
        with pytest.raises(InputError, match="module:function"):
            load_function(place)


words = st.lists(st.sampled_from(["a", "bb", "ccc"]), min_size=1, max_size=6)


@given(chunks=st.lists(words, max_size=6), budget=st.integers(1, 30))
def test_a_context_never_exceeds_its_budget_and_is_the_longest_start_that_fits(chunks, budget):
    ranked = ranking(*((f"d{number}/s/p0", " ".join(chunk)) for number, chunk in enumerate(chunks)))
    whole = [word for chunk in chunks for word in chunk]
    assert assemble(ranked, budget).text.split() == whole[:budget]


@given(paragraphs=st.lists(st.text("xyz", min_size=1, max_size=3), min_size=1, max_size=6, unique=True))
@pytest.mark.thorough
def test_joining_all_overlapping_chunks_of_a_section_gives_back_its_text(paragraphs):
    pairs = [paragraphs[n : n + 2] for n in range(max(1, len(paragraphs) - 1))]
    ranked = ranking(*((f"d/s/p{number}", "\n\n".join(pair)) for number, pair in enumerate(pairs)))
    for order in (ranked, ranked[::-1]):
        assert texts(assemble(order, merge_overlap=True)) == ["\n\n".join(paragraphs)]
