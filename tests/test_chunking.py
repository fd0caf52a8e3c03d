import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.chunking import MAX_WORDS, VERSIONS, chunk_documents, paragraphs, section_paragraphs, sentences
from evalkit.dataset import Document, load_dataset
from evalkit.errors import InputError
from evalkit.wording import fold
from tests.datasets import OTHER, OWN, RUNBOOK, words

EXPECTED = Path(__file__).parent / "expected" / "chunks.jsonl"


def document(body: str, name: str = "doc") -> Document:
    return Document(document_id=name, title="T", body=body, source=f"documents/{name}.md", **RUNBOOK)


def test_every_chunk_of_both_data_sets_is_as_expected():
    expected = [json.loads(line) for line in EXPECTED.read_text(encoding="utf-8").splitlines()]
    found = [
        (name, chunk.chunking_version, chunk.document_id, chunk.chunk_id, chunk.words, chunk.text)
        for name in ("platform-runbooks", "worker-runbooks")
        for version in (OWN, OTHER)
        for chunk in chunk_documents(load_dataset(name).documents, version)
    ]
    columns = ("dataset", "chunking_version", "document_id", "chunk_id", "words", "text")
    assert found == [tuple(row[column] for column in columns) for row in expected]
    assert len(found) == 735


def test_a_chunk_knows_what_its_document_says():
    (chunk,) = chunk_documents([document("One.")], OWN)
    assert chunk.key == ("doc", OWN, "body/p0")
    assert (chunk.title, chunk.document_type, chunk.publication_state) == ("T", "runbook", "published")


def test_text_without_headings_is_section_body():
    assert section_paragraphs("One.\n\nTwo.") == [("body/p0", "One.\n\nTwo.")]
    assert paragraphs("One.\n\nTwo.") == [("body/p0", "One."), ("body/p1", "Two.")]


def test_text_before_the_first_heading_is_section_body():
    assert section_paragraphs("Lead.\n## First\nOne.") == [("body/p0", "Lead."), ("first/p0", "One.")]


def test_slug():
    body = "##   Größe & Kosten: 2 Pods?! ##\nOne."
    assert section_paragraphs(body) == [("gr-e-kosten-2-pods/p0", "One.")]


@pytest.mark.parametrize("line", ["# One", "### One", "#### One", "##One", " ## One", "##\tOne", "```"])
def test_other_headings_and_fences_are_plain_text(line):
    assert paragraphs(f"## A\n{line}\ntext") == [("a/p0", fold(f"{line} text"))]


def test_a_fence_hides_no_heading():
    assert paragraphs("```\n## A\n```") == [("body/p0", "```"), ("a/p0", "```")]


def test_white_space_is_folded_and_white_lines_are_blank():
    body = "## A\r\n  One \t two\r\nthree.\r\n \t\r\n\u00a0\r\nFour.\r\n"
    assert paragraphs(body) == [("a/p0", "One two three."), ("a/p1", "Four.")]


def test_eighty_words_stay_one_paragraph_and_one_chunk():
    text = words(40, end=".") + " " + words(40, 40)
    assert section_paragraphs(text) == [("body/p0", text)]


def test_paragraphs_are_packed_up_to_eighty_words_and_overlap_by_one():
    one, two, three = words(30), words(40, 100), words(40, 200)
    assert section_paragraphs("\n\n".join([one, two, three])) == [
        ("body/p0", f"{one}\n\n{two}"),
        ("body/p1", f"{two}\n\n{three}"),
    ]


def test_an_overlap_that_does_not_fit_is_left_out():
    one, two, three = words(30), words(50, 100), words(31, 200)
    assert section_paragraphs("\n\n".join([one, two, three])) == [
        ("body/p0", f"{one}\n\n{two}"),
        ("body/p1", three),
    ]


def test_a_last_paragraph_that_was_packed_makes_no_chunk_of_its_own():
    assert len(section_paragraphs(f"{words(80)}\n\n{words(10)}\n\n{words(10)}")) == 2


def test_sections_never_share_a_chunk():
    assert section_paragraphs("## A\nOne.\n## B\nTwo.") == [("a/p0", "One."), ("b/p0", "Two.")]


def test_a_long_paragraph_is_split_after_sentences():
    first, second, third = words(50, end="."), words(30, 100, end="!"), words(20, 200, end="?")
    pieces = [f"{first} {second}", third]
    assert section_paragraphs(f"{first} {second} {third}") == [("body/p0", pieces[0]), ("body/p1", pieces[1])]


def test_pieces_overlap_and_join_like_paragraphs():
    # Pieces of 60, 60 and 15 words: the second and the third fit together, the first two do not.
    sentences_ = [words(60, end="."), words(60, 100, end="."), words(15, 200, end=".")]
    after = words(5, 300)
    got = section_paragraphs(" ".join(sentences_) + f"\n\n{after}")
    assert got == [
        ("body/p0", sentences_[0]),
        ("body/p1", f"{sentences_[1]} {sentences_[2]}\n\n{after}"),
    ]


def test_a_piece_is_repeated_where_it_fits_before_the_next():
    short, long = words(41, end="."), words(79, 100, end=".")
    tail = words(1, 300, end=".")
    # Gathered: [41], [79 + 1]; then a paragraph of 30 does not fit behind 80.
    got = section_paragraphs(f"{short} {long} {tail}\n\n{words(30, 400)}")
    assert [chunk for _, chunk in got] == [short, f"{long} {tail}", words(30, 400)]


def test_a_sentence_over_eighty_words_is_cut_every_eighty():
    lead, long, tail = "Lead.", words(170, end="."), "Tail."
    parts = long.split()
    got = section_paragraphs(f"{lead} {long} {tail}")
    assert [text for _, text in got] == [
        lead,
        " ".join(parts[:80]),
        " ".join(parts[80:160]),
        " ".join(parts[160:]) + f"\n\n{tail}",
    ]


def test_abbreviations_do_not_matter_below_eighty_words():
    assert section_paragraphs("See e.g. this.") == [("body/p0", "See e.g. this.")]


def test_a_mark_without_white_space_ends_no_sentence():
    text = words(50) + " v1.2.3 " + words(40, 100)
    assert [len(chunk.split()) for _, chunk in section_paragraphs(text)] == [80, 11]


def test_no_text_gives_no_chunk():
    assert section_paragraphs("") == [] == paragraphs(" \n\n## A\n")


@pytest.mark.parametrize("version", ["section-paragraphs-80w-overlap1-v1", "paragraphs-v1"])
def test_headings_without_or_with_equal_slugs_are_refused_all_at_once(version):
    documents = [
        document("## ?!\nOne.\n## Über\nTwo.\n## ber\nThree.", "one"),
        document("## Fine\nOne.", "two"),
        document("Lead.\n## Body\nOne.", "three"),
    ]
    with pytest.raises(InputError) as raised:
        list(chunk_documents(documents, version))
    text = str(raised.value)
    assert "documents/one.md: document 'one': heading '?!'" in text
    assert "heading 'ber': a second section 'ber'" in text
    assert "documents/three.md: document 'three': heading 'Body': a second section 'body'" in text
    assert "two" not in text.replace("two headings", "")


def test_a_document_that_gives_no_chunk_is_refused():
    with pytest.raises(InputError, match="document 'doc' holds no paragraph"):
        list(chunk_documents([document("## Only a heading")], OWN))


def test_an_unknown_version_is_refused_before_anything_is_cut():
    with pytest.raises(InputError, match="'v0' is unknown; known: paragraphs-v1, section-"):
        chunk_documents([], "v0")


def test_documents_are_taken_one_at_a_time():
    taken = []

    def stream():
        for number in range(3):
            taken.append(number)
            yield document("One.", f"d{number}")

    chunks = chunk_documents(stream(), OWN)
    assert next(chunks).document_id == "d0"
    assert taken == [0]


def test_sentences_join_to_the_folded_body():
    body = "Lead text\n## A heading\nOne. Two!\n\nThree? four"
    assert sentences(body) == ["Lead text", "## A heading", "One.", "Two!", "Three?", "four"]
    assert " ".join(sentences(body)) == fold(body)


line = st.lists(
    st.sampled_from(["alpha", "beta.", "γ!", "漢字。", "e.g.", "42", "-", "#", "x?"]), max_size=60
).map(" ".join)
blank = st.sampled_from(["", "  ", "\t", "\u2003"])
bodies = st.lists(st.one_of(line, blank), max_size=25).map("\n".join)


@st.composite
def sectioned(draw):
    parts = [draw(bodies)]
    for number in range(draw(st.integers(0, 3))):
        parts += [f"## Section {number}", draw(bodies)]
    return "\n".join(parts)


def plain_words(body: str) -> list[str]:
    return [word for row in body.split("\n") if not row.startswith("## ") for word in row.split()]


@settings(max_examples=50)
@given(sectioned())
def test_paragraphs_hold_all_words_in_order(body):
    assert plain_words("\n".join(text for _, text in paragraphs(body))) == plain_words(body)


@settings(max_examples=50)
@given(sectioned())
def test_chunks_hold_at_most_eighty_words_and_ids_are_unique(body):
    got = section_paragraphs(body)
    assert all(0 < len(text.split()) <= MAX_WORDS for _, text in got)
    assert len({name for name, _ in got}) == len(got)
    assert len({name for name, _ in paragraphs(body)}) == len(paragraphs(body))


@settings(max_examples=50)
@given(sectioned())
def test_every_chunk_is_a_stretch_of_the_folded_body(body):
    texts = [text for cut in VERSIONS.values() for _, text in cut(body)]
    assert all(fold(text) in fold(body) for text in texts)


@settings(max_examples=50)
@given(sectioned())
def test_no_word_is_lost_and_order_is_kept(body):
    numbered, count = [], 0
    for row in body.split("\n"):
        if row.startswith("## "):
            numbered.append(row)
            continue
        kept = []
        for word in row.split():
            kept.append(f"{word[:-1]}{count}{word[-1]}")
            count += 1
        numbered.append(" ".join(kept))
    text = "\n".join(numbered)
    seen = dict.fromkeys(word for _, chunk in section_paragraphs(text) for word in chunk.split())
    assert list(seen) == plain_words(text)


@settings(max_examples=50)
@given(sectioned())
def test_sentences_are_those_of_the_folded_body(body):
    assert " ".join(sentences(body)) == fold(body)


def test_a_whole_document_is_one_chunk_with_its_headings():
    body = "Intro  text.\n\n## Part\nOne\ttwo.\n \n" + "word " * 500
    assert VERSIONS["whole-document-v1"](body) == [
        ("document", "Intro text.\n\n## Part One two.\n\n" + " ".join(["word"] * 500))
    ]
    assert VERSIONS["whole-document-v1"](" \n\n") == []
