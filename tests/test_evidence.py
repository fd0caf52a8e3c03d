"""Facts found, missing and lost, by hand."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.chunking import chunk_documents
from evalkit.dataset import Case, Dataset, Document, Fact, Quote
from evalkit.errors import InputError
from evalkit.evidence import cover, fact_table
from evalkit.labels import Labels, resolve_labels
from evalkit.wording import fold
from tests.datasets import OTHER, OWN


def table(columns, rows):
    kinds = {**dict.fromkeys(["k", "rank", "fact", "quote", "grade"], "int64"), "lost": "bool"}
    wanted = {name: kinds.get(name, "str") for name in columns.split()}
    return pd.DataFrame(rows, columns=list(wanted)).astype(wanted)


def rankings(*rows):
    return table("case_id k rank document_id chunk_id", rows)


def deep(*rows):
    return table("case_id rank document_id chunk_id", rows)


def facts_of(ranked, labels, ks):
    return fact_table(ranked, deep(), labels, ks)


@pytest.fixture
def labels():
    """`two` needs two facts, the second on two places; `plain` has grades alone; `cut` lost its only fact."""
    return Labels(
        judgments=table(
            "case_id document_id chunk_id grade",
            [("two", "a", "p0", 2), ("two", "b", "p0", 2), ("two", "c", "p0", 2), ("plain", "a", "p0", 2)],
        ),
        facts=table(
            "case_id fact text first_quote lost",
            [
                ("two", 0, "First.", "one", False),
                ("two", 1, "Second.", "two", False),
                ("cut", 0, "Cut.", "cut apart", True),
            ],
        ),
        places=table(
            "case_id fact quote document_id chunk_id text",
            [
                ("two", 0, 0, "a", "p0", "one"),
                ("two", 1, 0, "b", "p0", "two"),
                ("two", 1, 1, "c", "p0", "also two"),
            ],
        ),
        notices=(),
    )


def test_coverage_counts_facts_and_complete_needs_all(labels):
    ranked = rankings(
        ("two", 1, 1, "c", "p0"),
        ("two", 3, 1, "c", "p0"),
        ("two", 3, 2, "b", "p0"),
        ("two", 3, 3, "a", "p0"),
        ("plain", 1, 1, "a", "p0"),
    )
    scores = cover(ranked, labels, [1, 3]).set_index(["case_id", "k"])
    assert scores.loc[("two", 1)].tolist() == [0.5, 0.0]
    assert scores.loc[("two", 3)].tolist() == [1.0, 1.0]


def test_without_facts_the_figures_are_null_and_a_lost_fact_counts_as_missing(labels):
    scores = cover(rankings(("plain", 1, 1, "a", "p0"), ("cut", 1, 1, "a", "p0")), labels, [1])
    assert scores["case_id"].tolist() == ["cut", "plain", "two"]
    by_case = scores.set_index("case_id")
    assert by_case.loc["plain", ["coverage", "complete"]].isna().all()
    assert by_case.loc["cut", ["coverage", "complete"]].tolist() == [0.0, 0.0]


def test_an_empty_ranking_scores_zero_at_every_k(labels):
    scores = cover(rankings(), labels, [1, 5])
    assert scores["k"].tolist() == [1, 5] * 3
    assert (
        scores.loc[scores["case_id"] == "two", ["coverage", "complete"]].to_numpy().tolist() == [[0, 0]] * 2
    )
    assert str(scores["coverage"].dtype) == str(scores["complete"].dtype) == "float64"


def test_the_same_chunk_id_of_another_document_is_no_evidence(labels):
    scores = cover(rankings(("two", 1, 1, "z", "p0")), labels, [1]).set_index("case_id")
    assert scores.loc["two", "coverage"] == 0


def test_questions_without_labels_are_left_out(labels):
    ranked = rankings(("unsupported", 1, 1, "a", "p0"))
    assert "unsupported" not in set(cover(ranked, labels, [1])["case_id"])
    assert "unsupported" not in set(fact_table(ranked, deep(), labels, [1])["case_id"])


def test_a_missing_fact_is_named_with_its_quote_and_the_rank_at_which_it_would_have_come(labels):
    ranked = rankings(("two", 2, 1, "a", "p0"), ("two", 2, 2, "z", "p0"))
    below = deep(("two", 1, "a", "p0"), ("two", 2, "z", "p0"), ("two", 7, "c", "p0"), ("two", 9, "b", "p0"))
    facts = fact_table(ranked, below, labels, [2]).set_index(["case_id", "fact"])
    found, missing = facts.loc[("two", 0)], facts.loc[("two", 1)]
    assert (found["found"], found["rank"], found["quote"]) == (True, 1, "one")
    assert (missing["found"], missing["lost"], missing["rank"]) == (False, False, 7)
    assert (missing["quote"], missing["document_id"], missing["chunk_id"]) == ("also two", "c", "p0")


def test_a_found_fact_has_its_rank_in_the_scored_ranking(labels):
    ranked = rankings(("two", 1, 1, "b", "p0"))
    facts = fact_table(ranked, deep(("two", 1, "c", "p0"), ("two", 4, "b", "p0")), labels, [1])
    second = facts[(facts["case_id"] == "two") & (facts["fact"] == 1)].iloc[0]
    assert (second["found"], second["rank"], second["document_id"]) == (True, 1, "b")


def test_a_fact_that_no_ranking_holds_keeps_its_first_place_and_a_lost_one_has_none(labels):
    facts = fact_table(rankings(), deep(), labels, [1]).set_index(["case_id", "fact"])
    assert facts.loc[("two", 1), ["quote", "document_id", "chunk_id"]].tolist() == ["two", "b", "p0"]
    assert facts["rank"].isna().all()
    assert facts.loc[("cut", 0), "lost"]
    assert facts.loc[("cut", 0), "quote"] == "cut apart"
    assert facts.loc[("cut", 0), ["document_id", "chunk_id"]].isna().all()


def test_one_row_a_case_k_and_fact_in_order_with_stable_types(labels):
    ranked = rankings(("two", 1, 1, "a", "p0"), ("two", 3, 1, "a", "p0"), ("two", 3, 2, "b", "p0"))
    facts = fact_table(ranked, deep(("two", 1, "a", "p0")), labels, [3, 1])
    rows = list(zip(facts["case_id"], facts["k"], facts["fact"], strict=True))
    assert rows == sorted(rows)
    assert len(rows) == 3 * 2
    empty = fact_table(rankings(), deep(), labels, [1])
    assert facts.dtypes.equals(empty.dtypes)
    assert facts.dtypes.astype(str).to_dict() == {
        "case_id": "str", "k": "int64", "fact": "int64", "text": "str", "quote": "str", "document_id": "str",
        "chunk_id": "str", "rank": "Int64", "found": "bool", "lost": "bool",
    }  # fmt: skip


def test_no_labelled_cases_give_empty_tables_with_the_same_columns(labels):
    none = Labels(labels.judgments[:0], labels.facts[:0], labels.places[:0], ())
    for function in (cover, facts_of):
        assert function(rankings(), none, [1]).empty
        assert function(rankings(), none, [1]).dtypes.equals(function(rankings(), labels, [1]).dtypes)


@pytest.mark.parametrize("function", [cover, facts_of])
def test_a_cutoff_below_one_and_missing_columns_are_refused(labels, function):
    with pytest.raises(InputError, match=r"at least 1, found \[0\]"):
        function(rankings(), labels, [0, 1])
    with pytest.raises(InputError, match=r"columns \['k'\] are missing"):
        function(rankings().drop(columns="k"), labels, [1])


@st.composite
def labelled(draw):
    """A document of sections and paragraphs, all words different, and quotes that each lie within a paragraph."""
    body, quotes, start = [], [], 0
    for section in range(draw(st.integers(1, 3))):
        body.append(f"## Section {section}")
        for length in draw(st.lists(st.integers(2, 130), min_size=1, max_size=4)):
            ends = draw(st.sets(st.integers(0, length - 1), max_size=6))
            text = [f"w{start + place:04d}" for place in range(length)]
            text = [word + "." if place in ends else word for place, word in enumerate(text)]
            body.append(" ".join(text))
            first = draw(st.integers(0, length - 1))
            last = draw(st.integers(first, min(length - 1, first + 20)))
            quotes.append(" ".join(text[first : last + 1]))
            start += length
    return "\n\n".join(body), quotes


def evidence_under(dataset, version, order):
    """The table of facts when every chunk comes back, in some order."""
    chunks = list(chunk_documents(dataset.documents, version))
    ranked = order.sample(chunks, len(chunks))
    rows = [
        ("case", 1, rank, chunk.document_id, chunk.chunk_id) for rank, chunk in enumerate(ranked, start=1)
    ]
    everything = rankings(*rows)
    facts = fact_table(everything, everything.drop(columns="k"), resolve_labels(dataset, chunks), [1])
    return facts, {chunk.chunk_id: fold(chunk.text) for chunk in chunks}


@pytest.mark.thorough  # tests/test_labels.py has one of the labels alone
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=labelled(), order=st.randoms(use_true_random=False))
def test_rechunking_never_changes_which_sentence_is_evidence(made, order):
    body, quotes = made
    document = Document(document_id="d", title="t", document_type="r", publication_state="p", body=body)
    facts = tuple(Fact(fact=f"F{n}", quotes=(Quote(document="d", quote=q),)) for n, q in enumerate(quotes))
    dataset = Dataset(
        name="made", version="1", description="", chunking=OTHER, eligibility={}, judgments="complete",
        documents=(document,), cases=(Case(id="case", category="c", question="?", evidence=facts),),
        unsupported=(), folder=Path(), cases_file="cases.yaml",
    )  # fmt: skip
    for version in (OTHER, OWN):
        table, texts = evidence_under(dataset, version, order)
        assert table["text"].tolist() == [fact.fact for fact in facts]
        assert table["found"].equals(~table["lost"])
        assert version != OTHER or not table["lost"].any()
        for row, quote in zip(table.itertuples(), quotes, strict=True):
            # Whole in some chunk: the same sentence is the evidence. Whole in none: the fact is lost, not moved.
            assert row.lost == (not any(quote in text for text in texts.values()))
            if not row.lost:
                assert (row.document_id, row.quote) == ("d", quote)
                assert quote in texts[row.chunk_id]
