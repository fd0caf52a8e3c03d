"""The same facts under two chunkings: by hand, on a small data set through the engine, and on the example data."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from evalkit.chunkings import (
    at_equal_words,
    changed_cases,
    evaluate_chunkings,
    lost_facts,
    pair_at_equal_words,
    scores_with_words,
    summarise,
)
from evalkit.dataset import load_dataset
from evalkit.embedders import dataset_prompts
from evalkit.embedding import ModelIdentity
from evalkit.errors import InputError
from evalkit.plots.chunkings import evidence_over_words
from evalkit.recorded import write_recorded
from evalkit.settings import EvaluateSettings
from tests.conftest import environment
from tests.datasets import OTHER, OWN, case, fact, words, write_dataset

KS = (1, 3)


def evaluation(scores, rankings, facts):
    """What the comparison reads of an evaluation."""
    scores = pd.DataFrame(scores, columns=["case_id", "category", "k", "coverage", "complete"])
    rankings = pd.DataFrame(rankings, columns=["case_id", "k", "rank", "text"])
    facts = pd.DataFrame(facts, columns=["case_id", "fact", "text", "lost"]).assign(quote="cut apart")
    return SimpleNamespace(scores=scores, rankings=rankings, facts=facts.astype({"lost": "bool"}))


SAME = ("plain", "c", 1, None, None), ("empty", "c", 1, 0.0, 0.0)
TWO = {
    "long": evaluation(
        [("a", "c", 1, 0.5, 0.0), ("b", "c", 1, 1.0, 1.0), *SAME],
        [("a", 1, 1, "one two three"), ("b", 1, 1, "one\n\ntwo"), ("plain", 1, 1, "many many words")],
        [("a", 0, "A0", False), ("a", 1, "A1", False), ("b", 0, "B0", False), ("empty", 0, "E", False)] * 2,
    ),
    "short": evaluation(
        [("a", "c", 1, 0.5, 0.0), ("b", "c", 1, 0.0, 0.0), *SAME],
        [("a", 1, 1, "one"), ("b", 1, 1, "two"), ("plain", 1, 1, "x")],
        [("a", 0, "A0", False), ("a", 1, "A1", False), ("b", 0, "B0", True), ("empty", 0, "E", False)],
    ),
}


def test_words_are_those_of_the_returned_chunks_and_cases_without_facts_stand_outside():
    table = scores_with_words(TWO)
    assert list(
        table.loc[table["chunking"] == "long", ["case_id", "words"]].itertuples(index=False, name=None)
    ) == [
        ("a", 3),
        ("b", 2),
        ("empty", 0),
    ]


def test_means_stand_with_n_facts_and_the_facts_lost_to_the_chunking():
    table = summarise(TWO).set_index("chunking")
    assert table.loc["long"].tolist() == [1, pytest.approx(5 / 3), 0.5, pytest.approx(1 / 3), 3, 4, 0]
    assert table.loc["short"].tolist() == [1, pytest.approx(2 / 3), pytest.approx(0.5 / 3), 0.0, 3, 4, 1]
    assert list(table.columns) == ["k", "words", "coverage", "complete", "n", "facts", "lost"]


def test_lost_facts_are_named():
    assert lost_facts(TWO).to_dict("records") == [
        {"chunking": "short", "case_id": "b", "fact": 0, "text": "B0", "quote": "cut apart"}
    ]


def budget_rows(*rows):
    columns = ["chunking", "case_id", "category", "budget", "words", "coverage", "complete", "short"]
    return pd.DataFrame([(*row[:2], "c", *row[2:]) for row in rows], columns=columns)


def test_chunkings_are_paired_case_by_case():
    cases = budget_rows(
        ("long", "a", 80, 80, 1.0, 1.0, False),
        ("long", "b", 80, 80, 0.5, 0.0, False),
        ("long", "c", 80, 80, 0.0, 0.0, False),
        ("short", "c", 80, 60, 1.0, 1.0, True),
        ("short", "a", 80, 80, 0.5, 0.0, False),
        ("short", "b", 80, 80, 1.0, 1.0, False),
    )
    paired = pair_at_equal_words(cases).set_index("measure")
    coverage = paired.loc["coverage"]
    assert (coverage["baseline"], coverage["mean"]) == (0.5, pytest.approx(2.5 / 3))
    assert coverage["difference"] == pytest.approx(1 / 3)
    assert coverage["low"] <= coverage["difference"] <= coverage["high"]
    assert (coverage["better"], coverage["worse"], coverage["short"], coverage["n"]) == (2, 1, 1, 3)
    # Differences -0.5, 0.5, 1: the sums of the 8 sign patterns are ±2, ±1 twice each, 0 twice; 6 are at least 1.
    assert coverage["p"] == pytest.approx(6 / 8)
    changed = changed_cases(cases, 80)
    assert changed["case_id"].tolist() == ["c", "a", "b"]
    assert changed.loc[0, ["long", "short", "difference"]].tolist() == [0.0, 1.0, 1.0]
    # From 1 in the first chunking to 0.5 in the second: the sign is that of the paired table.
    assert changed["difference"].tolist() == [1.0, -0.5, 0.5]


def test_of_several_chunkings_the_one_farthest_from_the_first_counts():
    cases = budget_rows(
        *[(name, "a", 80, 80, value, 0.0, False) for name, value in (("x", 0.5), ("y", 0.75), ("z", 0.0))],
        *[(name, "b", 80, 80, value, 0.0, False) for name, value in (("x", 0.5), ("y", 0.5), ("z", 0.75))],
    )
    assert changed_cases(cases, 80)["difference"].tolist() == [-0.5, 0.25]


def test_equal_cases_are_no_change():
    cases = budget_rows(("long", "a", 80, 80, 1.0, 1.0, False), ("short", "a", 80, 80, 1.0, 1.0, False))
    assert changed_cases(cases, 80).empty
    assert pair_at_equal_words(cases)["p"].tolist() == [1.0, 1.0]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One document whose quote spans two paragraphs: whole in one chunk of 80 words, cut between paragraphs."""
    folder = tmp_path_factory.mktemp("small")
    body = f"## First\n\n{words(30)}\n\nThe lease ends.\n\nThen it is free.\n\n## Second\n\n{words(70, 100)}"
    answerable = [
        case("lease", evidence=[fact("doc", "The lease ends. Then it is free."), fact("doc", "w5 w6 w7")]),
        case("second", evidence=[fact("doc", "w101 w102")]),
    ]
    dataset = write_dataset(folder / "data", {"doc": body}, answerable)
    identity = ModelIdentity(
        embedder="recorded",
        model="made",
        digest="0" * 64,
        profile="embeddinggemma",
        dimension=8,
        server_version=None,
    )
    prompts = {
        prompt.sha256: prompt
        for prompt in dataset_prompts(load_dataset(dataset), [OWN, OTHER], "embeddinggemma")
    }
    vectors = np.random.default_rng(5).normal(size=(len(prompts), 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    write_recorded(folder / "vectors", identity, list(prompts.values()), vectors)
    return EvaluateSettings.checked(
        dataset=str(dataset), embeddings=str(folder / "vectors"), model="made", ks=(1, 3, 5)
    )


@pytest.fixture(scope="module")
def evaluated(small, tmp_path_factory):
    with environment(EVALKIT_OUTPUTS=str(tmp_path_factory.mktemp("outputs"))):
        return evaluate_chunkings(small, [OWN, OTHER])


def test_a_fact_cut_at_a_border_is_lost_to_that_chunking_alone(evaluated):
    assert list(evaluated) == [OWN, OTHER]
    assert lost_facts(evaluated)[["chunking", "case_id", "fact"]].to_numpy().tolist() == [[OTHER, "lease", 0]]
    scores = scores_with_words(evaluated).set_index(["chunking", "case_id", "k"])
    # Everything comes back at K = 5, so that only what the chunking lost can be missing.
    assert scores.loc[(OWN, "lease", 5), ["coverage", "complete", "words"]].tolist() == [1.0, 1.0, 107]
    assert scores.loc[(OTHER, "lease", 5), ["coverage", "complete", "words"]].tolist() == [0.5, 0.0, 107]
    assert scores.loc[(OTHER, "second", 5), "coverage"] == 1.0


def test_at_equal_words_every_chunking_is_cut_after_the_same_words(small, evaluated):
    cases = at_equal_words(evaluated, small.dataset, [50, 107, 500])
    assert set(cases.loc[cases["budget"] == 50, "words"]) == {50}
    assert set(cases.loc[cases["budget"] == 500, "words"]) == {107}
    assert not cases["short"].any()  # the corpus ended, not K
    whole = cases[cases["budget"] == 500].set_index(["chunking", "case_id"])["coverage"]
    assert whole.to_dict() == {
        (OWN, "lease"): 1.0, (OWN, "second"): 1.0, (OTHER, "lease"): 0.5, (OTHER, "second"): 1.0,
    }  # fmt: skip


@pytest.mark.thorough
def test_a_ranking_that_k_ended_before_the_budget_is_marked(small):
    evaluations = evaluate_chunkings(small.model_copy(update={"ks": (1,)}), [OWN, OTHER])
    cases = at_equal_words(evaluations, small.dataset, [3, 500])
    assert not cases.loc[cases["budget"] == 3, "short"].any()
    assert cases.loc[cases["budget"] == 500, "short"].all()


@pytest.mark.parametrize(
    ("changes", "chunkings", "message"),
    [
        ({}, [OWN], "at least two different versions"),
        ({}, [OWN, OWN], "at least two different versions"),
        ({"chunking": OWN}, [OWN, OTHER], "chunking: wanted None"),
        ({"collection": "mine"}, [OWN, OTHER], "each chunking has its own, found 'mine'"),
        ({"retention": "hash"}, [OWN, OTHER], "wanted 'full' to count words"),
        ({}, [OWN, "none-v1"], "none-v1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(small, changes, chunkings, message):
    with pytest.raises(InputError, match=message):
        evaluate_chunkings(small.model_copy(update=changes), chunkings)


@pytest.mark.slow
def test_both_chunkings_of_the_example_data_as_computed_outside():
    settings = EvaluateSettings.checked(dataset="platform-runbooks", ks=(1, 3, 5, 10))
    evaluations = evaluate_chunkings(settings, [OWN, OTHER])
    table = summarise(evaluations).set_index(["chunking", "k"])
    assert table.loc[OWN, "coverage"].tolist() == pytest.approx([0.762963, 0.859259, 0.9, 0.953704], abs=1e-6)
    assert table.loc[OWN, "complete"].tolist() == pytest.approx([0.655556, 0.8, 0.866667, 0.933333], abs=1e-6)
    assert set(table["n"]) == {90}
    assert set(table["facts"]) == {140}
    assert (table.groupby("chunking")["words"].diff().dropna() > 0).all()
    figure, alt = evidence_over_words(table.reset_index())
    assert f"{OWN}, K = 5: 244 words, coverage 0.900, complete 0.867" in alt
    assert [axes.get_title("left") for axes in figure.axes] == [
        "coverage (n = 90 cases)",
        "complete (n = 90 cases)",
    ]
