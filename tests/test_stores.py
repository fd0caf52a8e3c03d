"""Both engines keep the same promises: every test here runs against the embedded engine and against a server."""

import json
import uuid
from pathlib import Path

import numpy as np
import pytest

from evalkit.embedded_store import EmbeddedStore
from evalkit.errors import InputError
from evalkit.points import CollectionState, Fingerprint, Point, Store
from evalkit.settings import ServerSettings
from tests.fakes.qdrant import Engine, FakeQdrant

FIELDS = ("document_type", "publication_state")
STATE = CollectionState(
    "building", Fingerprint("corpus", "digest", "profile"), {"dataset": "made", "points": 3}
)


SERVER = pytest.mark.server


@pytest.fixture(
    scope="module",
    params=["embedded", pytest.param("rest", marks=SERVER), pytest.param("grpc", marks=SERVER)],
)
def store(request, tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("engine")
    if request.param == "embedded":
        with EmbeddedStore(folder) as opened:
            yield opened
        return
    # Loading the client takes a second, which tests of the embedded engine alone do without.
    from evalkit.qdrant_connection import Connection
    from evalkit.server_store import ServerStore
    from tests.fakes.qdrant_grpc import FakeQdrantGrpc

    if request.param == "rest":
        with FakeQdrant(folder) as server, ServerStore(Connection(server.url)) as opened:
            yield opened
    else:
        with (
            FakeQdrantGrpc(Engine(folder)) as server,
            ServerStore(Connection("http://127.0.0.1", grpc_port=server.port)) as opened,
        ):
            yield opened


@pytest.fixture
def name():
    return f"made-{uuid.uuid4().hex}"


def unit(*numbers):
    vector = np.array(numbers, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def point(number, vector, **payload):
    return Point(str(uuid.UUID(int=number)), vector, payload)


POINTS = [
    point(
        1,
        unit(1, 0, 0),
        document_type="runbook",
        publication_state="published",
        text="ü\u0000 \U0001f600",
        words=3,
    ),
    point(2, unit(1, 1, 0), document_type="runbook", publication_state="draft", text="two", words=1),
    point(3, unit(1, 1, 1), document_type="note", publication_state="published", text="three", words=1),
]


def fill(store: Store, name: str) -> str:
    assert store.create(name, 3, STATE, ServerSettings()) == ()
    store.index_fields(name, FIELDS)
    store.upsert(name, POINTS)
    store.finish(name)
    return name


@pytest.fixture(scope="module")
def filled(store: Store) -> str:
    """A collection of three points that tests only read."""
    return fill(store, "shared")


@pytest.fixture
def own(store: Store, name: str) -> str:
    """The same, for a test that changes it."""
    return fill(store, name)


def test_a_new_collection_carries_its_state_and_nothing_else(store, name):
    assert not store.exists(name)
    store.create(name, 3, STATE, ServerSettings())
    assert store.exists(name)
    assert name in store.collections()
    assert store.read_state(name) == STATE
    assert store.dimension(name) == 3
    assert store.count(name) == 0
    assert list(store.scroll(name, vectors=True)) == []


def test_without_an_approximate_index_every_search_is_exact(store, filled):
    assert store.is_exact(filled)


def test_a_name_that_is_taken_is_refused(store, filled):
    with pytest.raises(InputError, match=f"{filled}.*recreate"):
        store.create(filled, 3, CollectionState("building", Fingerprint("a", "b", "c")), ServerSettings())
    assert store.read_state(filled) == STATE
    assert store.count(filled) == 3


def test_state_is_replaced_as_a_whole(store, own):
    complete = CollectionState(
        "complete", Fingerprint("x", "y", "z"), {"server_version": None, "deep": {"a": [1]}}
    )
    store.write_state(own, complete)
    assert store.read_state(own) == complete
    assert store.dimension(own) == 3


def test_what_was_written_is_read_back(store, filled, monkeypatch):
    for module in ("embedded_store", "server_store"):
        monkeypatch.setattr(f"evalkit.{module}.READ", 2)
    read = list(store.scroll(filled, vectors=True))
    assert [one.id for one in read] == [one.id for one in POINTS]
    for got, wanted in zip(read, POINTS, strict=True):
        assert got.payload == wanted.payload
        np.testing.assert_allclose(got.vector, wanted.vector, atol=1e-6)
    assert [one.vector.size for one in store.scroll(filled, vectors=False)] == [0, 0, 0]


def test_retrieve_gives_what_is_there(store, filled):
    found = store.retrieve(filled, [POINTS[1].id, str(uuid.uuid4())], vectors=True)
    assert [one.id for one in found] == [POINTS[1].id]
    np.testing.assert_allclose(found[0].vector, POINTS[1].vector, atol=1e-6)
    (bare,) = store.retrieve(filled, [POINTS[1].id], vectors=False)
    assert (bare.vector.size, bare.payload) == (0, POINTS[1].payload)


def test_upsert_replaces_and_delete_removes(store, own):
    store.upsert(own, [point(2, unit(0, 0, 1), document_type="other")])
    store.delete(own, [POINTS[0].id, str(uuid.uuid4())])
    assert {one.id: one.payload for one in store.scroll(own, vectors=False)} == {
        POINTS[1].id: {"document_type": "other"},
        POINTS[2].id: POINTS[2].payload,
    }


def test_nothing_to_write_or_delete_is_nothing_done(store, filled):
    store.upsert(filled, [])
    store.delete(filled, [])
    assert store.count(filled) == 3


def test_count_can_filter(store, filled):
    assert store.count(filled, {"document_type": ("runbook",)}) == 2
    assert (
        store.count(filled, {"document_type": ("runbook", "note"), "publication_state": ("published",)}) == 2
    )
    assert store.count(filled, {"document_type": ("elsewhere",)}) == 0


@pytest.mark.parametrize("exact", [True, False])
def test_query_ranks_filters_and_limits(store, filled, exact):
    vectors = np.stack([unit(1, 0, 0), unit(0, 0, 1)])
    first, second = store.query(filled, vectors, {}, 3, exact=exact, hnsw_ef=None if exact else 16)
    assert [hit.id for hit in first] == [POINTS[0].id, POINTS[1].id, POINTS[2].id]
    assert [hit.score for hit in first] == pytest.approx([1, 2**-0.5, 3**-0.5], abs=1e-6)
    assert first[0].payload == POINTS[0].payload
    assert second[0].id == POINTS[2].id
    published = store.query(filled, vectors, {"publication_state": ("published",)}, 1, exact=exact)
    assert [[hit.id for hit in hits] for hits in published] == [[POINTS[0].id], [POINTS[2].id]]


def test_scores_are_float32_and_the_threshold_is_strict(store, filled):
    (hits,) = store.query(filled, unit(1, 0.3, 0.1)[None], {}, 3)
    for rank, hit in enumerate(hits):
        assert hit.score == float(np.float32(hit.score))
        (above,) = store.query(filled, unit(1, 0.3, 0.1)[None], {}, 3, hit.score)
        assert [one.id for one in above] == [one.id for one in hits[:rank]]
        just_below = float(np.nextafter(np.float32(hit.score), np.float32(-1)))
        (from_here,) = store.query(filled, unit(1, 0.3, 0.1)[None], {}, 3, just_below)
        assert [one.id for one in from_here] == [one.id for one in hits[: rank + 1]]


@pytest.mark.parametrize(
    ("vector", "text"),
    [
        (np.array([1, 0], dtype=np.float32), r"\(2,\)"),
        (np.array([np.nan, 0, 1], dtype=np.float32), "not finite"),
        (np.zeros(3, dtype=np.float32), "zero"),
        (np.array([2, 0, 0], dtype=np.float32), "length 2"),
    ],
    ids=["size", "nan", "zero", "length"],
)
def test_vectors_that_could_never_be_found_are_refused_and_nothing_is_written(store, filled, vector, text):
    bad = point(9, vector, document_id="doc", chunk_id="body/p0")
    with pytest.raises(InputError, match=text) as caught:
        store.upsert(filled, [point(8, unit(0, 1, 0)), bad])
    assert "doc body/p0" in str(caught.value)
    assert store.count(filled) == 3


def test_drop_removes_everything_and_the_name_is_free(store, own):
    store.drop(own)
    assert not store.exists(own)
    assert own not in store.collections()
    store.drop(own)
    store.create(own, 2, STATE, ServerSettings())
    assert store.dimension(own) == 2
    store.upsert(own, [point(1, unit(1, 0))])
    assert store.count(own) == 1


def test_a_missing_collection_is_an_input_error(store, name):
    for ask in (
        lambda: store.count(name),
        lambda: store.retrieve(name, [str(uuid.uuid4())], vectors=True),
        lambda: list(store.scroll(name, vectors=False)),
        lambda: store.dimension(name),
    ):
        with pytest.raises(InputError, match=name):
            ask()


def test_requests_are_counted(store, filled):
    before = store.counts["store_requests"]
    store.count(filled)
    assert store.counts["store_requests"] == before + 1
    assert store.counts["store_retries"] == 0


def test_payloads_survive_whatever_text_they_hold(store, own):
    texts = [
        "",
        "line\r\nbreak",
        "<script>alert(1)</script>",
        "עברית 中文",
        json.dumps({"a": "\\"}),
        "x" * 100_000,
    ]
    written = [point(100 + place, unit(1, 2, 3), text=text) for place, text in enumerate(texts)]
    store.upsert(own, written)
    found = {one.id: one.payload for one in store.retrieve(own, [one.id for one in written], vectors=True)}
    assert found == {one.id: one.payload for one in written}
