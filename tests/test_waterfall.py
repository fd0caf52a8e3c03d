"""Where facts are lost, on a handful of sentences."""

import pandas as pd
import pytest

from evalkit.dataset import Case, Fact, Quote
from evalkit.errors import InputError
from evalkit.waterfall import evidence_loss


def case(name, **facts):
    evidence = tuple(
        Fact(fact=fact, quotes=tuple(Quote(document="d", quote=quote) for quote in quotes))
        for fact, quotes in facts.items()
    )
    return Case(id=name, category="c", question=f"{name}?", evidence=evidence)


def fact_rows(*rows):
    table = pd.DataFrame(rows, columns=["case_id", "fact", "text", "lost"])
    return table.astype({"case_id": "str", "fact": "int64", "text": "str", "lost": "bool"})


def deep(case_id, *chunks):
    rows = [(case_id, rank, *chunk) for rank, chunk in enumerate(chunks, start=1)]
    table = pd.DataFrame(rows, columns=["case_id", "rank", "document_id", "chunk_id", "score", "text"])
    return table.astype({"case_id": "str", "document_id": "str", "chunk_id": "str", "text": "str"})


CASES = [
    case("all", one=["first sentence"], two=["absent", "second\n sentence"]),
    case("gone", cut=["never whole"], deep=["far below"]),
    case("plain"),
]
FACTS = fact_rows(
    ("all", 0, "one", False),
    ("all", 1, "two", False),
    ("gone", 0, "cut", True),
    ("gone", 1, "deep", False),
)
RANKING = pd.concat(
    [
        deep(
            "all",
            ("a", "s/p0", 0.9, "The first sentence."),
            ("b", "s/p0", 0.8, "Words of no use, words of no use."),
            ("c", "s/p0", 0.7, "The second sentence."),
        ),
        deep(
            "gone",
            ("a", "s/p0", 0.9, "Nothing."),
            ("a", "s/p1", 0.8, "Nothing!"),
            ("a", "s/p2", 0.7, "No."),
            ("z", "s/p0", 0.6, "It stands far below."),
        ),
    ],
    ignore_index=True,
)


def steps(loss):
    return loss.steps.set_index("step")["facts"].to_dict()


def lost_at(loss):
    return {(row.case_id, row.fact): row.step for row in loss.lost.itertuples()}


def test_every_step_counts_the_facts_that_are_left_and_names_those_lost():
    loss = evidence_loss(RANKING, FACTS, CASES, 3, threshold=0.65, budget_words=8, deduplicate=1.0)
    assert steps(loss) == {
        "eligible": 3,
        "in the first 3": 2,
        "above threshold": 2,
        "after deduplication": 2,
        "within budget": 1,
    }
    assert lost_at(loss) == {
        ("gone", 0): "eligible",
        ("gone", 1): "in the first 3",
        ("all", 1): "within budget",
    }
    assert loss.lost.set_index("case_id").loc["all", "quote"] == "absent"
    assert loss.steps["lost"].tolist() == [1, 1, 0, 0, 1]
    assert loss.steps["complete"].tolist() == [1, 1, 1, 1, 0]
    assert loss.steps["share"].tolist() == [0.75, 0.5, 0.5, 0.5, 0.25]
    assert set(loss.steps["n_cases"]) == {2}
    assert set(loss.steps["n_facts"]) == {4}


def test_the_threshold_is_strict_and_compared_as_the_engine_does():
    assert steps(evidence_loss(RANKING, FACTS, CASES, 3, threshold=0.7))["above threshold"] == 1
    assert steps(evidence_loss(RANKING, FACTS, CASES, 3, threshold=0.699))["above threshold"] == 2


def test_steps_that_are_off_are_left_out():
    assert list(steps(evidence_loss(RANKING, FACTS, CASES, 4))) == ["eligible", "in the first 4"]


def test_a_near_copy_that_differs_in_the_fact_is_a_loss_of_deduplication():
    cases = [case("limit", new=["hold for 30 minutes"])]
    ranked = deep(
        "limit",
        ("old", "s/p0", 0.9, "Hold each step for a while: hold for 10 minutes."),
        ("new", "s/p0", 0.8, "Hold each step for a while: hold for 30 minutes."),
    )
    facts = fact_rows(("limit", 0, "new", False))
    assert lost_at(evidence_loss(ranked, facts, cases, 2, deduplicate=0.95)) == {
        ("limit", 0): "after deduplication"
    }
    assert lost_at(evidence_loss(ranked, facts, cases, 2, deduplicate=1.0)) == {}


def test_a_fact_that_joining_restores_is_not_lost():
    cases = [case("span", whole=["two three four"])]
    ranked = deep("span", ("d", "s/p0", 0.9, "one\n\ntwo\n\nthree"), ("d", "s/p1", 0.8, "three\n\nfour"))
    facts = fact_rows(("span", 0, "whole", True))
    assert steps(evidence_loss(ranked, facts, cases, 2))["in the first 2"] == 0
    joined = evidence_loss(ranked, facts, cases, 2, merge_overlap=True)
    assert steps(joined) == {"eligible": 1, "in the first 2": 1, "assembled": 1}
    assert joined.lost.empty


def test_the_users_function_is_a_step_of_its_own():
    def first_chunk(rows):
        return rows["text"].iloc[0]

    loss = evidence_loss(RANKING, FACTS, CASES, 4, build=first_chunk)
    assert steps(loss) == {"eligible": 3, "in the first 4": 3, "assembled": 1}
    assert lost_at(loss)[("all", 1)] == "assembled"


def test_contexts_tell_per_case_what_reaches_the_model():
    contexts = evidence_loss(RANKING, FACTS, CASES, 4, budget_words=12).contexts.set_index("case_id")
    assert contexts.loc["all"].tolist() == ["c", 12, 3, 2, 1, 0.5, 0.0]
    assert contexts.loc["gone", ["words", "present"]].tolist() == [7, 1]


def test_a_case_without_a_ranking_loses_its_facts_at_retrieval():
    loss = evidence_loss(RANKING[RANKING["case_id"] == "gone"], FACTS, CASES, 3)
    assert lost_at(loss)[("all", 0)] == "in the first 3"
    assert loss.contexts.set_index("case_id").loc["all", "words"] == 0


def test_rows_repeated_for_each_k_count_once():
    assert steps(evidence_loss(RANKING, pd.concat([FACTS, FACTS]), CASES, 4))["eligible"] == 3


def test_without_facts_the_tables_are_empty():
    loss = evidence_loss(RANKING, FACTS[:0], CASES, 3, budget_words=5)
    assert steps(loss) == {"eligible": 0, "in the first 3": 0, "within budget": 0}
    assert loss.steps["share"].isna().all()
    assert loss.lost.empty
    assert loss.contexts.empty


def test_bad_input_is_refused_with_the_case():
    with pytest.raises(InputError, match="at least 1, found 0"):
        evidence_loss(RANKING, FACTS, CASES, 0)
    with pytest.raises(InputError, match=r"cases \['all'\]: their facts are not those that were evaluated"):
        evidence_loss(RANKING, FACTS, [case("all", one=["x"]), CASES[1]], 3)
    with pytest.raises(InputError, match="case all: build: wanted a text"):
        evidence_loss(RANKING, FACTS, CASES, 3, build=lambda _: None)
