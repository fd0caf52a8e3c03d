"""One retrieval: the engine's filter, the guard behind it, and answers that are none."""

import json
from pathlib import Path

import numpy as np
import pytest

from evalkit.chunking import chunk_documents
from evalkit.dataset import load_dataset
from evalkit.embedders import embed_cached, open_embedder
from evalkit.embedding import query_prompt
from evalkit.errors import InfrastructureError, InputError
from evalkit.indexing import open_for_evaluation
from evalkit.points import Hit
from evalkit.querying import retrieve
from evalkit.settings import EvaluateSettings
from evalkit.stores import open_store
from evalkit.vectors import VectorCache

EXPECTED = Path(__file__).parent / "expected"


class Asked:
    """A data set's questions, and its collection among the example outputs."""

    def __init__(self, name, store):
        settings = EvaluateSettings.checked(dataset=name)
        self.dataset = load_dataset(name)
        self.chunks = tuple(chunk_documents(self.dataset.documents, self.dataset.chunking))
        questions = self.dataset.questions
        self.names = [question.id for question in questions]
        with open_embedder(settings) as embedder, VectorCache() as cache:
            prompts = [query_prompt(embedder.identity.profile, one.id, one.question) for one in questions]
            self.vectors, _ = embed_cached(embedder, cache, prompts)
            opened = open_for_evaluation(store, settings, self.dataset, self.chunks, embedder, cache)
        self.collection = opened.collection
        self.filter = {"chunking_version": (self.dataset.chunking,), **self.dataset.eligibility}
        self.store = store

    def retrieve(self, k, filter=None, **settings):
        filter = self.filter if filter is None else filter
        return retrieve(self.store, self.collection, self.names, self.vectors, filter, k, **settings)


@pytest.fixture(
    scope="module", params=["worker-runbooks", pytest.param("platform-runbooks", marks=pytest.mark.thorough)]
)
def asked(request, example_outputs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALKIT_OUTPUTS", str(example_outputs))
        with open_store() as store:
            yield Asked(request.param, store)


def keys(hits):
    return [(hit.payload["document_id"], hit.payload["chunk_id"]) for hit in hits]


def test_the_filter_and_not_luck_keeps_drafts_and_notes_out(asked):
    everything = len(asked.chunks)
    eligible = {chunk.key for chunk in asked.chunks if asked.dataset.is_eligible(chunk)}
    assert 0 < len(eligible) < everything
    filtered = asked.retrieve(everything, exact=True)
    assert all(len(hits) == len(eligible) for hits in filtered)
    for hits in filtered:
        assert {(document, asked.dataset.chunking, chunk) for document, chunk in keys(hits)} == eligible
    top = asked.retrieve(3, {}, exact=True)
    barred = [hit for hits in top for hit in hits if hit.payload["publication_state"] != "published"]
    assert barred, "without the filter drafts come back"


def test_worker_runbooks_would_return_the_draft_and_the_note(example_outputs, monkeypatch):
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(example_outputs))
    with open_store() as store:
        asked = Asked("worker-runbooks", store)
        found = {hit.payload["document_id"]: hit.payload for hits in asked.retrieve(5, {}) for hit in hits}
        kinds = {(payload["document_type"], payload["publication_state"]) for payload in found.values()}
        assert any(state == "draft" for _, state in kinds)
        assert any(kind == "note" for kind, _ in kinds)


def test_every_threshold_keeps_what_our_float32_comparison_keeps(asked):
    compared = 0
    for vector, hits in zip(asked.vectors, asked.retrieve(20), strict=True):
        for threshold in [hit.score for hit in hits]:
            (from_engine,) = asked.store.query(asked.collection, vector[None], asked.filter, 20, threshold)
            ours = [hit for hit in hits if np.float32(hit.score) > np.float32(threshold)]
            assert keys(from_engine) == keys(ours)
            compared += 1
    assert compared == sum(len(hits) for hits in asked.retrieve(20)) > 50


def test_rankings_and_scores_are_the_expected_ones(asked):
    expected = json.loads((EXPECTED / f"{asked.dataset.name}-rankings.json").read_text())
    found = dict(zip(asked.names, asked.retrieve(5), strict=True))
    for name, ranking in expected.items():
        assert keys(found[name]) == [(one["document_id"], one["chunk_id"]) for one in ranking[:5]], name
        assert [hit.score for hit in found[name]] == pytest.approx(
            [one["score"] for one in ranking[:5]], abs=1e-4
        )


@pytest.mark.parametrize(("limit", "value"), [("BATCH", 4), ("NUMBERS", 4 * 768 + 1), ("HITS", 4 * 4 + 1)])
def test_batches_change_nothing(asked, monkeypatch, limit, value):
    whole = asked.retrieve(4)
    monkeypatch.setattr(f"evalkit.querying.{limit}", value)
    before = asked.store.counts["store_requests"]
    assert asked.retrieve(4) == whole
    assert asked.store.counts["store_requests"] - before == -(-len(asked.names) // 4)


def test_a_ranking_longer_than_the_hits_of_a_request_is_asked_for_by_itself(asked, monkeypatch):
    whole = asked.retrieve(4)
    monkeypatch.setattr("evalkit.querying.HITS", 3)
    before = asked.store.counts["store_requests"]
    assert asked.retrieve(4) == whole
    assert asked.store.counts["store_requests"] - before == len(asked.names)


def test_no_questions_give_no_rankings(asked):
    assert retrieve(asked.store, asked.collection, [], asked.vectors[:0], asked.filter, 3) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda vectors: vectors[:, :-1], "size|numbers|shape"),
        (lambda vectors: vectors[:-1], "vectors|shape"),
        (
            lambda vectors: np.where(np.arange(len(vectors))[:, None] == 1, np.float32("nan"), vectors),
            "not finite",
        ),
        (lambda vectors: vectors * (np.arange(len(vectors))[:, None] != 1), "zero"),
        (lambda vectors: vectors * np.float32(1.1), "length"),
    ],
    ids=["size", "count", "nan", "zero", "length"],
)
def test_bad_query_vectors_never_reach_the_engine(asked, change, text, monkeypatch):
    monkeypatch.setattr(asked.store, "query", lambda *_, **__: pytest.fail("asked"))
    monkeypatch.setattr(asked, "vectors", change(asked.vectors).astype(np.float32))
    with pytest.raises(InputError, match=text) as caught:
        asked.retrieve(3)
    if text in ("not finite", "zero"):
        assert asked.names[1] in str(caught.value)


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused(asked, k):
    with pytest.raises(InputError, match=f"at least 1, found {k}"):
        asked.retrieve(k)


@pytest.mark.parametrize("threshold", [float("nan"), float("inf")])
def test_a_threshold_that_is_no_number_is_refused(asked, threshold):
    with pytest.raises(InputError, match="threshold"):
        asked.retrieve(3, threshold=threshold)


# Answers that are none, from a store that answers what it is told


class Answering:
    def __init__(self, *answers, there=9):
        self.answers = list(answers)
        self.there = there

    def dimension(self, _):
        return 2

    def count(self, *_):
        return self.there

    def query(self, *_, **__):
        return self.answers


def hit(name, score, **payload):
    return Hit(name, score, {"document_id": "doc", "chunk_id": name, "state": "published", **payload})


def ask(store, k=2, **settings):
    vectors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    return retrieve(store, "made", ["case-a", "case-b"], vectors, {"state": ("published",)}, k, **settings)


GOOD = [hit("a", 0.9), hit("b", 0.9)]


def test_a_good_answer_is_given_on_as_it_is():
    assert ask(Answering(GOOD, [])) == [GOOD, []]


@pytest.mark.parametrize("payload", [{"state": "draft"}, {"state": None}, {"state": ["published"]}])
def test_the_guard_names_case_passage_and_value(payload):
    with pytest.raises(InputError, match=r"case-b.*doc x.*state.*recreate"):
        ask(Answering(GOOD, [hit("x", 0.5, **payload)]))


@pytest.mark.parametrize(
    ("hits", "settings", "text"),
    [
        ([hit("a", 0.9), hit("b", 0.8), hit("c", 0.7)], {}, "3 hits for K = 2"),
        ([hit("a", 0.9), hit("a", 0.9)], {}, "twice"),
        ([hit("a", 0.8), hit("b", 0.9)], {}, "descending"),
        ([hit("a", float("nan"))], {}, "not finite"),
        ([hit("a", 0.9), hit("b", 0.5)], {"threshold": 0.5}, "threshold"),
        ([hit("a", 0.9)], {"exact": True}, "1 hits .* 2 passages"),
    ],
    ids=["too many", "twice", "order", "nan", "threshold", "too few"],
)
def test_an_answer_that_is_none_is_an_infrastructure_error_that_names_the_case(hits, settings, text):
    with pytest.raises(InfrastructureError, match=f"case-b.*{text}"):
        ask(Answering(GOOD, hits), **settings)


def test_an_answer_for_another_number_of_questions_is_an_infrastructure_error():
    with pytest.raises(InfrastructureError, match="1 of 2 questions"):
        ask(Answering(GOOD))


def test_few_hits_are_right_where_there_are_few_passages_or_a_threshold():
    few = [hit("a", 0.9)]
    assert ask(Answering(few, few, there=1), exact=True) == [few, few]
    assert ask(Answering(few, few), exact=True, threshold=0.5) == [few, few]
    assert ask(Answering(few, few)) == [few, few]
