"""What a collection is to hold, and the comparison with what it holds."""

import hashlib
import itertools
import json
import re
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.chunking import Chunk, ChunkKey
from evalkit.contents import (
    by_point_id,
    corpus_hash,
    default_name,
    differences,
    payload_of,
    point_id,
    spread,
    verify_collection,
)
from evalkit.embedded_store import EmbeddedStore
from evalkit.points import CollectionState, Fingerprint, Point
from evalkit.settings import CollectionSettings, ServerSettings

STATE = CollectionState("building", Fingerprint("corpus", "digest", "profile"))


def chunk(document="doc", name="body/p0", text="some text", **fields):
    values = {"title": "Title", "document_type": "runbook", "publication_state": "published"} | fields
    return Chunk(
        ChunkKey(document, "v1", name),
        values["title"],
        values["document_type"],
        values["publication_state"],
        text,
    )


def test_the_default_name_is_plain_and_says_what_is_in_it():
    name = default_name(
        "worker-runbooks", "recorded", "embeddinggemma:300m", "section-paragraphs-80w-overlap1-v1"
    )
    assert name == "evalkit-worker-runbooks-recorded-embeddinggemma-300m-section-paragraphs-80w-overlap1-v1"


@given(st.text(max_size=300), st.text(max_size=300))
def test_every_default_name_is_one_that_settings_allow(dataset, model):
    name = default_name(dataset, "ollama", model, "v1")
    assert re.fullmatch(r"[a-z0-9-]{1,200}", name)
    assert CollectionSettings.checked(dataset="x", collection=name).collection == name


def test_long_names_that_differ_at_the_end_stay_apart():
    names = {default_name("d" * 300, "ollama", model, "v1") for model in ("a", "b")}
    assert len(names) == 2


texts = st.text(max_size=5)
chunk_keys = st.builds(ChunkKey, texts, texts, texts)


@given(st.lists(chunk_keys, unique=True, max_size=6))
def test_point_ids_are_uuids_and_differ_as_keys_do(keys):
    ids = [point_id(key) for key in keys]
    assert len(set(ids)) == len(keys)
    assert all(str(uuid.UUID(one)) == one and uuid.UUID(one).version == 5 for one in ids)


def test_point_ids_never_change():
    """They are stored: another rule would make every collection foreign."""
    assert (
        point_id(ChunkKey("worker-shutdown", "v1", "shutdown/p0")) == "741576e6-3bb7-5271-8e0a-e43fcd464a89"
    )


@given(st.lists(st.builds(chunk, *[st.text(max_size=6)] * 3, title=st.text(max_size=6)), max_size=3))
def test_the_corpus_hash_is_that_of_the_payloads_as_json(chunks):
    """It is stored with every collection and run: another form would make them foreign."""
    lines = [
        json.dumps(payload_of(one), ensure_ascii=False, sort_keys=True) + "\n"
        for one in sorted(chunks, key=lambda one: one.key)
    ]
    assert corpus_hash(chunks) == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_the_corpus_hash_knows_every_field_and_no_order():
    one, two = chunk(name="body/p0"), chunk(name="body/p1")
    assert corpus_hash([one, two]) == corpus_hash([two, one])
    others = [
        [one],
        [one, chunk(name="body/p1", text="other")],
        [one, chunk(name="body/p1", title="Other")],
        [one, chunk(name="body/p1", document_type="note")],
        [one, chunk(name="body/p1", publication_state="draft")],
        [one, chunk(name="body/p2")],
    ]
    hashes = [corpus_hash(chunks) for chunks in ([one, two], *others)]
    assert len(set(hashes)) == len(hashes)


def test_differences_name_what_differs():
    one = Fingerprint("a", "b", "c")
    assert differences(one, one) == {}
    found = differences(one, Fingerprint("a", "x", "y"))
    assert found == {
        "digest": "model digest: found b, wanted x",
        "profile": "prompt profile: found c, wanted y",
    }


@given(st.integers(1, 50), st.integers(1, 60))
def test_a_sample_is_spread_over_all_with_both_ends(number, size):
    chunks = [chunk(name=f"body/p{place:03}") for place in range(number)]
    chosen = spread(list(reversed(chunks)), size)
    assert len(chosen) == min(number, size)
    assert len({one.key for one in chosen}) == len(chosen)
    assert chosen[0] == chunks[0]
    if size > 1:
        assert chosen[-1] == chunks[-1]
        gaps = [int(b.chunk_id[-3:]) - int(a.chunk_id[-3:]) for a, b in itertools.pairwise(chosen)]
        assert not gaps or max(gaps) - min(gaps) <= 1


CHUNKS = [chunk(name=f"body/p{place}", text=f"text {place}") for place in range(30)]
VECTORS = {
    point_id(one.key): np.array([np.cos(place), np.sin(place)], dtype=np.float32)
    for place, one in enumerate(CHUNKS)
}


@pytest.fixture(params=[256, 1], ids=["read at once", "read one by one"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.setattr("evalkit.contents.READ", request.param)
    with EmbeddedStore(tmp_path) as opened:
        opened.create("made", 2, STATE, ServerSettings())
        opened.upsert("made", [stored(one) for one in CHUNKS])
        yield opened


def stored(one, **payload):
    return Point(point_id(one.key), VECTORS[point_id(one.key)], payload_of(one) | payload)


def verify(store):
    return verify_collection(store, "made", by_point_id(CHUNKS), VECTORS)


def test_a_collection_that_holds_what_it_should_has_no_problems(store):
    found = verify(store)
    assert found.problems == ()
    assert found.checked == {"points": 30, "payloads": 30, "vectors": 30}


def test_missing_points_are_named(store):
    store.delete("made", [point_id(CHUNKS[3].key)])
    assert verify(store).problems == (
        "the collection holds 29 points, wanted 30",
        "1 passages are missing: doc body/p3",
    )


def test_points_of_something_else_are_named(store):
    store.upsert(
        "made", [Point(str(uuid.uuid4()), VECTORS[point_id(CHUNKS[0].key)], {"document_id": "alien"})]
    )
    count, extra = verify(store).problems
    assert count == "the collection holds 31 points, wanted 30"
    assert extra.startswith("1 points belong to no passage of the data set: alien")


def test_one_missing_and_one_too_many_do_not_cancel(store):
    store.delete("made", [point_id(CHUNKS[3].key)])
    store.upsert(
        "made", [Point(str(uuid.uuid4()), VECTORS[point_id(CHUNKS[0].key)], {"document_id": "alien"})]
    )
    assert len(verify(store).problems) == 2


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"text": "changed"}, "text"),
        ({"words": "2"}, "words"),
        ({"words": True}, "words"),
        ({"more": 1}, "more"),
    ],
)
def test_a_changed_payload_is_named_with_its_fields(store, payload, field):
    store.upsert("made", [stored(CHUNKS[5], **payload)])
    assert verify(store).problems == (f"1 payloads differ: doc body/p5 ({field})",)


def test_a_changed_vector_is_named(store):
    one = CHUNKS[7]
    turned = VECTORS[point_id(one.key)] @ np.array([[0.9998, 0.02], [-0.02, 0.9998]], dtype=np.float32)
    store.upsert("made", [Point(point_id(one.key), turned, payload_of(one))])
    (problem,) = verify(store).problems
    assert re.fullmatch(r"1 vectors differ from the embedder's: doc body/p7 \(distance 0\.02\d*\)", problem)


def test_a_stored_vector_without_direction_is_a_problem(store):
    import qdrant_edge as edge

    for place, numbers in ((1, [float("nan"), 0.0]), (2, [0.0, 0.0])):
        raw = edge.Point(point_id(CHUNKS[place].key), numbers, payload_of(CHUNKS[place]))
        store._engine("made").update(edge.UpdateOperation.upsert_points([raw]))
    (problem,) = verify(store).problems
    assert "doc body/p1 (distance nan)" in problem
    assert "doc body/p2 (distance nan)" in problem


def test_a_vector_of_another_size_is_a_problem(store):
    wrong = {point_id(CHUNKS[0].key): np.ones(3, dtype=np.float32)}
    found = verify_collection(store, "made", by_point_id(CHUNKS), wrong)
    assert len(found.problems) == 1


def test_long_lists_are_cut_and_say_how_many_there_are(store):
    store.delete("made", list(VECTORS))
    assert verify(store).problems[1].endswith("doc body/p17 and 20 more")


def test_verification_changes_nothing(store):
    store.upsert("made", [stored(CHUNKS[5], text="changed")])
    assert verify(store) == verify(store)
