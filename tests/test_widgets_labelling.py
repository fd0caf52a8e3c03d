"""Blind labelling without a browser: what is shown, what is hidden, what YAML comes out."""

import ipywidgets
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalkit.chunking import chunk_documents
from evalkit.dataset import load_dataset
from evalkit.errors import InputError
from evalkit.labels import resolve_labels
from evalkit.pooling import pool
from evalkit.widgets.labelling import Labeller, Mark, blind, label_yaml
from tests.datasets import OTHER, case, write_dataset

BODIES = {"a": "It waits. It waits for <b>five</b> minutes.\n\nThen it goes.", "b": "Same here. Same here."}


@pytest.fixture
def dataset(tmp_path):
    answerable = [case("one", "First?", relevant=[{"document": "a", "chunk": "body/p0"}])]
    unsupported = [{"id": "new", "question": "Who waits?"}]
    folder = write_dataset(
        tmp_path / "small", BODIES, answerable, unsupported, chunking=OTHER, judgments="partial"
    )
    return load_dataset(folder)


PASSAGES = pd.DataFrame(
    [
        ("new", "a", "body/p0", "It waits. It waits for <b>five</b> minutes.", 3, 1),
        ("new", "a", "body/p1", "Then it goes.", 2, 2),
        ("new", "b", "body/p0", "Same here. Same here.", 1, 3),
    ],
    columns=["case_id", "document_id", "chunk_id", "text", "seen", "best_rank"],
)


def rows(labeller):
    """Sentence -> its choice, in the order shown."""
    boxes = [child for child in labeller.widget.children[2].children if isinstance(child, ipywidgets.HBox)]
    return [(box.children[1].value, box.children[0]) for box in boxes]


def choice(labeller, start):
    return next(chooser for sentence, chooser in rows(labeller) if start in sentence)


def facts(labeller):
    return labeller.widget.children[3].children


@given(seed=st.integers(0, 99), order=st.permutations(range(3)))
def test_the_order_depends_on_the_seed_alone_and_nothing_tells_the_rank(seed, order):
    shown = blind(PASSAGES.iloc[list(order)], seed)
    assert shown.equals(blind(PASSAGES, seed))
    assert list(shown.columns) == ["document_id", "chunk_id", "text"]
    assert sorted(shown["chunk_id"]) == ["body/p0", "body/p0", "body/p1"]


def test_seeds_give_different_orders():
    assert len({tuple(blind(PASSAGES, seed)["text"]) for seed in range(20)}) > 1


def test_every_sentence_is_shown_once_and_escaped(dataset):
    labeller = Labeller(dataset, PASSAGES, seed=1)
    shown = sorted(sentence for sentence, _ in rows(labeller))
    assert shown == [
        "<span>It waits for &lt;b&gt;five&lt;/b&gt; minutes.</span>",
        "<span>It waits.</span>",
        "<span>Same here.</span>",
        "<span>Same here.</span>",
        "<span>Then it goes.</span>",
    ]


def test_marked_sentences_become_anchored_labels_that_the_guard_accepts(dataset):
    labeller = Labeller(dataset, PASSAGES)
    choice(labeller, "five").value = 1
    choice(labeller, "Then").value = "supports"
    facts(labeller)[0].value = "  It waits five  minutes. "
    assert labeller.yaml.startswith("# a question that is now under `unsupported`: move it to `answerable`\n")
    (written,) = yaml.safe_load(labeller.yaml)
    assert written == {
        "id": "new",
        "category": None,
        "question": "Who waits?",
        "evidence": [
            {
                "fact": "It waits five minutes.",
                "quotes": [{"document": "a", "quote": "It waits for <b>five</b> minutes."}],
            }
        ],
        "supporting": [{"document": "a", "quote": "Then it goes."}],
    }
    (dataset.folder / "cases.yaml").write_text(yaml.safe_dump({"answerable": [{**written, "category": "c"}]}))
    labelled = load_dataset(dataset.folder)
    labels = resolve_labels(labelled, list(chunk_documents(labelled.documents, labelled.chunking)))
    assert labels.judgments.set_index(["case_id", "chunk_id"])["grade"].loc["new"].to_dict() == {
        "body/p0": 2,
        "body/p1": 1,
    }


def test_two_sentences_of_one_fact_are_alternatives_and_more_facts_can_be_added(dataset):
    labeller = Labeller(dataset, PASSAGES)
    labeller.widget.children[4].click()
    assert len(facts(labeller)) == 4
    choice(labeller, "five").value = 4
    choice(labeller, "Then").value = 4
    facts(labeller)[3].value = "Either."
    (case,) = yaml.safe_load(labeller.yaml)
    assert len(case["evidence"][0]["quotes"]) == 2


def test_adding_a_fact_keeps_what_is_marked(dataset):
    labeller = Labeller(dataset, PASSAGES)
    choice(labeller, "Then").value = 2
    labeller.widget.children[4].click()
    assert choice(labeller, "Then").value == 2


def test_what_is_still_to_mend_is_said(dataset):
    text = label_yaml(
        dataset.unsupported[0], {}, [Mark("b", "Same here.", 1), Mark("b", "Same here.", 1)], dataset
    )
    assert "# name the category\n" in text
    assert "# fact 1: say what it is\n" in text
    assert "# stands more than once in b, quote more words: Same here.\n" in text
    (case,) = yaml.safe_load(text)
    assert case["evidence"] == [{"fact": None, "quotes": [{"document": "b", "quote": "Same here."}]}]
    assert "no sentence is marked" in label_yaml(dataset.cases[0], {}, [], dataset)


def test_another_question_starts_anew(dataset):
    passages = pd.concat([PASSAGES, PASSAGES.iloc[1:2].assign(case_id="one")])
    labeller = Labeller(dataset, passages)
    question = labeller.widget.children[0]
    question.value = "new"
    choice(labeller, "five").value = 1
    question.value = "one"
    assert [sentence for sentence, _ in rows(labeller)] == ["<span>Then it goes.</span>"]
    assert "evidence:" not in labeller.yaml
    assert yaml.safe_load(labeller.yaml)[0]["id"] == "one"


def test_without_passages_the_next_step_is_said(dataset):
    with pytest.raises(InputError, match="run `evalkit evaluate`"):
        Labeller(dataset, PASSAGES[:0])


def test_the_pool_of_real_runs_can_be_labelled(example_runs):
    labeller = Labeller(load_dataset("worker-runbooks"), pool("worker-runbooks").passages)
    assert [option[1] for option in labeller.widget.children[0].options][-1] == "record-retention"
    assert not {"rank", "score", "seen"} & set(" ".join(sentence for sentence, _ in rows(labeller)).split())
