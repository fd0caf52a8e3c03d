"""Indexing against both engines: idempotent, resumable, never half-written under a complete state."""

import shlex
import shutil
import weakref

import numpy as np
import pytest
from typer.testing import CliRunner

from evalkit import indexing, paths, writing
from evalkit.chunking import chunk_documents
from evalkit.cli import app
from evalkit.contents import index_command, point_id
from evalkit.dataset import load_dataset
from evalkit.errors import InfrastructureError, InputError
from evalkit.indexing import index, open_for_evaluation
from evalkit.points import CollectionState, Fingerprint, Point
from evalkit.settings import EvaluateSettings, IndexSettings, ServerSettings
from evalkit.stores import open_store
from evalkit.vectors import VectorCache
from evalkit.writing import Progress
from tests.datasets import OTHER, case, fact, write_dataset
from tests.fakes import http
from tests.fakes.embedder import HashEmbedder
from tests.fakes.qdrant import FakeQdrant

NAME = "evalkit-small-ollama-made-1-section-paragraphs-80w-overlap1-v1"


@pytest.fixture(params=["embedded", pytest.param("server", marks=pytest.mark.server)])
def engine(request, tmp_path, monkeypatch):
    if request.param == "embedded":
        yield None
        return
    with FakeQdrant(tmp_path / "engine") as server:
        monkeypatch.setenv("QDRANT_URL", server.url)
        yield server


def document(number, sentences=3):
    sections = [f"## Part {part}\n\nText {part} of document {number}." for part in range(sentences)]
    return "\n\n".join(sections)


@pytest.fixture
def dataset(tmp_path):
    documents = {f"doc-{number}": document(number) for number in range(5)}
    return write_dataset(
        tmp_path / "small",
        documents,
        [case("one", evidence=[fact("doc-0", "Text 0 of document 0")])],
    )


@pytest.fixture
def embedder(monkeypatch):
    made = HashEmbedder()
    monkeypatch.setattr(indexing, "open_embedder", lambda *_: made)
    return made


def settings(dataset, **more):
    return IndexSettings.checked(dataset=str(dataset), upsert_batch=4, **more)


def opened(dataset, embedder, **more):
    wanted = EvaluateSettings.checked(dataset=str(dataset), **more)
    loaded = load_dataset(str(dataset))
    chunks = tuple(chunk_documents(loaded.documents, loaded.chunking))
    with VectorCache() as cache, open_store() as store:
        return open_for_evaluation(store, wanted, loaded, chunks, embedder, cache)


def state():
    with open_store() as store:
        return store.read_state(NAME).state if store.exists(NAME) else None


def stored():
    with open_store() as store:
        return {point.id: point.payload for point in store.scroll(NAME, vectors=False)}


def test_first_everything_is_written_and_then_nothing(engine, dataset, embedder):
    seen = []
    report = index(settings(dataset), seen.append)
    assert (report.collection, report.outcome) == (NAME, "created")
    assert {name: report.counts[name] for name in ("documents", "chunks", "embedded", "sent", "deleted")} == {
        "documents": 5,
        "chunks": 15,
        "embedded": 15,
        "sent": 15,
        "deleted": 0,
    }
    assert report.verification.problems == ()
    assert report.verification.checked == {"points": 15, "payloads": 15, "vectors": 15}
    assert [one.done for one in seen] == [*range(4, 15, 4), 15]
    assert all(one.total == 15 and one.rate > 0 and one.seconds_left is not None for one in seen)
    assert state() == "complete"

    embedder.embedded.clear()
    requests = 0 if engine is None else len(engine.requests)
    again = index(settings(dataset), lambda _: pytest.fail("nothing to write"))
    assert again.outcome == "unchanged"
    assert (again.counts["embedded"], again.counts["sent"]) == (0, 0)
    assert embedder.embedded == []
    assert "nothing embedded, nothing sent" in again.describe()
    assert again.fingerprint == report.fingerprint
    if engine is not None:
        wrote = [one for one in engine.requests[requests:] if one.method in ("PUT", "PATCH", "DELETE")]
        assert wrote == []


def test_nothing_is_embedded_even_when_the_cache_is_gone(engine, dataset, embedder):
    index(settings(dataset))
    shutil.rmtree(paths.outputs() / "vectors")
    embedder.embedded.clear()
    report = index(settings(dataset))
    assert report.outcome == "unchanged"
    assert embedder.embedded == []
    assert report.verification.checked["vectors"] == 0


def test_the_collection_is_evaluated_once_it_is_complete(engine, dataset, embedder):
    index(settings(dataset))
    found = opened(dataset, embedder)
    assert found.collection == NAME
    assert found.checked == {"points": 15, "payloads": 15, "vectors": 15}
    assert (found.details["dataset"], found.details["points"], found.details["server_version"]) == (
        "small",
        15,
        "0.1",
    )
    assert found.notices == ()


def test_another_server_version_is_noticed(engine, dataset, embedder):
    index(settings(dataset))
    embedder.identity = HashEmbedder().identity.__class__(
        **vars(embedder.identity) | {"server_version": "0.2"}
    )
    (notice,) = opened(dataset, embedder).notices
    assert "0.1" in notice
    assert "0.2" in notice


def test_payload_indexes_come_before_points(engine, dataset, embedder):
    index(settings(dataset))
    if engine is not None:
        writes = [one.path.rpartition("/")[2] for one in engine.requests if one.method == "PUT"]
        assert writes[1:5] == ["index", "index", "index", "points"]
        assert set(engine.engine.info(NAME)["payload_schema"]) == {
            "chunking_version",
            "document_type",
            "publication_state",
        }


def interrupt_after(batches):
    def progress(_):
        nonlocal batches
        batches -= 1
        if batches <= 0:
            raise KeyboardInterrupt

    return progress


def test_an_interrupted_one_is_refused_for_evaluation_and_completed_by_indexing(engine, dataset, embedder):
    with pytest.raises(KeyboardInterrupt):
        index(settings(dataset), interrupt_after(3))
    assert state() == "building"
    kept = len(stored())
    assert 0 < kept < 15
    with pytest.raises(InputError, match=r"incomplete.*index.*again"):
        opened(dataset, embedder)

    embedded = len(embedder.embedded)
    report = index(settings(dataset))
    assert report.outcome == "resumed"
    assert report.counts["sent"] == 15 - kept
    assert len(embedder.embedded) == 15
    assert report.counts["embedded"] == 15 - embedded
    assert state() == "complete"
    assert opened(dataset, embedder).checked["points"] == 15


@pytest.mark.thorough
def test_what_is_stored_is_not_embedded_again_even_without_the_cache(engine, dataset, embedder):
    with pytest.raises(KeyboardInterrupt):
        index(settings(dataset), interrupt_after(3))
    kept = len(stored())
    shutil.rmtree(paths.outputs() / "vectors")
    embedder.embedded.clear()
    report = index(settings(dataset, verify_sample=1))
    assert report.outcome == "resumed"
    assert report.counts["embedded"] == 15 - kept
    # The vector that verification compares is stored, so the embedder is asked for it once more.
    assert len(embedder.embedded) <= 15 - kept + 1


def test_vectors_are_in_memory_for_a_few_batches_only(engine, tmp_path, embedder, monkeypatch):
    sections = "\n\n".join(f"## Part {part}\n\nText {part}." for part in range(200))
    large = write_dataset(
        tmp_path / "large", {"doc": sections}, [case("one", evidence=[fact("doc", "Text 0")])]
    )
    made, alive = [], []
    embed = writing.embed_cached

    def tracked(*given):
        vectors, embedded = embed(*given)
        made.append(weakref.ref(vectors))
        return vectors, embedded

    monkeypatch.setattr(writing, "embed_cached", tracked)
    report = index(settings(large), lambda _: alive.append(sum(one() is not None for one in made)))
    assert report.counts["sent"] == 200
    assert len(made) > 50
    assert max(alive) <= 4  # one on its way, one that waits, one that is being made


@pytest.mark.thorough
def test_a_corpus_that_changed_meanwhile_is_resumed_and_stale_points_go(engine, dataset, embedder):
    with pytest.raises(KeyboardInterrupt):
        index(settings(dataset), interrupt_after(3))
    shrunk = dataset / "documents" / "doc-1.md"
    shrunk.write_text(shrunk.read_text().partition("## Part 1")[0] + "Some more words.\n")
    report = index(settings(dataset))
    assert report.outcome == "resumed"
    assert report.counts["deleted"] == 2
    assert report.counts["chunks"] == 13
    payloads = list(stored().values())
    assert sorted(one["chunk_id"] for one in payloads if one["document_id"] == "doc-1") == ["part-0/p0"]
    assert [one["text"] for one in payloads if one["document_id"] == "doc-1"] == [
        "Text 0 of document 1.\n\nSome more words."
    ]
    assert opened(dataset, embedder).checked["points"] == 13


@pytest.mark.thorough
def test_another_corpus_is_refused_until_recreate(engine, dataset, embedder):
    index(settings(dataset))
    before = stored()
    changed = dataset / "documents" / "doc-1.md"
    changed.write_text(changed.read_text().replace("Text 2 of", "Text two of"))
    for refused in (lambda: index(settings(dataset)), lambda: opened(dataset, embedder)):
        with pytest.raises(InputError, match=r"1 document changed \(doc-1\); .*recreate"):
            refused()
    assert stored() == before
    assert state() == "complete"
    report = index(settings(dataset, recreate=True))
    assert (report.outcome, report.counts["sent"], report.counts["embedded"]) == ("created", 15, 1)
    assert opened(dataset, embedder).checked["points"] == 15


def test_edited_documents_are_named_with_the_command_that_indexes_them(engine, dataset, embedder):
    index(settings(dataset))
    documents = dataset / "documents"
    for name in ("doc-1", "doc-3"):
        path = documents / f"{name}.md"
        path.write_text(path.read_text().replace("Text 2 of", "Text two of"))
    for number in range(10, 14):
        path.with_stem(f"doc-{number}").write_text(path.read_text().replace("doc-3", f"doc-{number}"))
    (documents / "doc-4.md").unlink()
    command = f"evalkit index --dataset {dataset} --recreate"
    expected = (
        f"collection '{NAME}' was indexed before the documents were edited: 2 documents changed (doc-1, doc-3), "
        "4 documents added (doc-10, doc-11, doc-12, doc-13), 1 document gone (doc-4); index with recreate to replace "
        f"all that is in it by what the data set holds now: `{command}`"
    )
    for refused in (lambda: index(settings(dataset)), lambda: opened(dataset, embedder)):
        with pytest.raises(InputError) as raised:
            refused()
        assert str(raised.value) == expected
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    assert opened(dataset, embedder).checked["points"] == 24


def test_the_command_keeps_what_differs_from_the_defaults(dataset):
    given = settings(dataset, collection="ours", shards=3, quantized=True, embed_batch=7)
    assert index_command(given) == (
        f"evalkit index --dataset {dataset} --collection ours --server shards=3 --server quantized=True"
    )


@pytest.mark.parametrize(
    ("other", "text"), [({"digest": "sha256:other"}, "digest"), ({"profile": "nomic-embed-text"}, "profile")]
)
def test_another_model_or_profile_is_refused(engine, dataset, embedder, other, text, monkeypatch):
    index(settings(dataset))
    changed = HashEmbedder(**other)
    monkeypatch.setattr(indexing, "open_embedder", lambda *_: changed)
    for refused in (lambda: index(settings(dataset)), lambda: opened(dataset, changed)):
        with pytest.raises(InputError, match=rf"{text}.*recreate"):
            refused()
    assert changed.embedded == []


@pytest.mark.thorough
def test_a_half_written_one_of_another_model_is_refused_too(engine, dataset, embedder, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        index(settings(dataset), interrupt_after(2))
    before = stored()
    monkeypatch.setattr(indexing, "open_embedder", lambda *_: HashEmbedder(digest="sha256:other"))
    with pytest.raises(InputError, match="digest"):
        index(settings(dataset))
    assert stored() == before


@pytest.mark.thorough
def test_a_half_written_one_of_another_data_set_is_refused(engine, dataset, embedder, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        index(settings(dataset, collection="shared"), interrupt_after(2))
    other = write_dataset(
        tmp_path / "other",
        {"doc-0": document(0)},
        [case("one", evidence=[fact("doc-0", "Text 0")])],
        name="other",
    )
    with pytest.raises(InputError, match="corpus"):
        index(settings(other, collection="shared"))


def test_a_collection_that_something_else_made_is_left_alone(engine, dataset, embedder):
    foreign = CollectionState("complete", Fingerprint("theirs", "theirs", "theirs"))
    with open_store() as store:
        store.create(NAME, 3, foreign, ServerSettings())
        store.upsert(
            NAME, [Point(point_id(("a", "b", "c")), np.array([1, 0, 0], dtype=np.float32), {"their": "own"})]
        )
    if engine is not None:
        engine.engine.collections[NAME].metadata.clear()
        with pytest.raises(InputError, match="carries no state"):
            opened(dataset, embedder)
    with pytest.raises(InputError, match="something else"):
        index(settings(dataset))
    if engine is not None:
        with pytest.raises(InputError, match="left alone, with recreate too"):
            index(settings(dataset, recreate=True))
    assert list(stored().values()) == [{"their": "own"}]
    assert embedder.embedded == []
    if engine is None:  # another of ours, which recreate is for
        assert index(settings(dataset, recreate=True)).counts["sent"] == 15


@pytest.mark.thorough
def test_a_layout_for_a_collection_that_is_there_is_said_to_be_unused(engine, dataset, embedder):
    made = index(settings(dataset))
    again = index(settings(dataset, quantized=True, shards=2, parallel=2))
    assert not any("a layout is given" in notice for notice in made.notices)
    assert [notice for notice in again.notices if notice.startswith("shards, quantized: a layout is given")]


@pytest.mark.thorough
def test_an_interrupted_one_is_incomplete_for_an_evaluation_also_after_an_edit(engine, dataset, embedder):
    with pytest.raises(KeyboardInterrupt):
        index(settings(dataset), interrupt_after(2))
    file = next((dataset / "documents").glob("*.md"))
    file.write_text(file.read_text() + "\n\n## More\n\nAnother paragraph.\n")
    with pytest.raises(InputError, match=r"is incomplete.*goes on where it stopped"):
        opened(dataset, embedder)


def tamper_missing(store, ids):
    store.delete(NAME, ids[:1])


def tamper_extra(store, ids):
    (copied,) = store.retrieve(NAME, ids[:1], vectors=True)
    store.upsert(NAME, [Point(point_id(("not", "ours", "x")), copied.vector, copied.payload)])


def tamper_payload(store, ids):
    (copied,) = store.retrieve(NAME, ids[:1], vectors=True)
    store.upsert(NAME, [Point(copied.id, copied.vector, copied.payload | {"publication_state": "draft"})])


def tamper_vector(store, ids):
    first, second = store.retrieve(NAME, ids[:2], vectors=True)
    store.upsert(NAME, [Point(first.id, second.vector, first.payload)])


@pytest.mark.parametrize(
    ("tamper", "text"),
    [
        pytest.param(tamper_missing, "1 passages are missing", marks=pytest.mark.thorough),
        pytest.param(tamper_extra, "1 points belong to no passage", marks=pytest.mark.thorough),
        pytest.param(tamper_payload, r"1 payloads differ.*publication_state", marks=pytest.mark.thorough),
        (tamper_vector, "1 vectors differ"),
    ],
)
def test_a_collection_changed_behind_our_back_is_refused_and_not_repaired(
    engine, dataset, embedder, tamper, text
):
    index(settings(dataset))
    ids = sorted(stored())
    with open_store() as store:
        tamper(store, ids)
    before = stored()
    for refused in (lambda: index(settings(dataset)), lambda: opened(dataset, embedder)):
        with pytest.raises(InputError, match=rf"(?s)changed since.*{text}.*recreate"):
            refused()
    assert stored() == before
    assert index(settings(dataset, recreate=True)).outcome == "created"
    assert opened(dataset, embedder).checked["points"] == 15


@pytest.mark.thorough
def test_what_does_not_arrive_leaves_the_collection_building(engine, dataset, embedder, monkeypatch):
    """A store that loses a batch: reading back finds it, and the state never says complete."""
    from evalkit.embedded_store import EmbeddedStore
    from evalkit.server_store import ServerStore

    chosen = EmbeddedStore if engine is None else ServerStore
    whole = chosen.upsert
    lost = []

    def lossy(self, collection, points):
        if not lost:
            lost.extend(points)
        else:
            whole(self, collection, points)

    monkeypatch.setattr(chosen, "upsert", lossy)
    with pytest.raises(
        InfrastructureError, match=r"(?s)stays marked as building.*11 points, wanted 15.*index again"
    ):
        index(settings(dataset))
    assert state() == "building"
    assert index(settings(dataset)).counts["sent"] == 4


@pytest.mark.thorough
def test_a_failure_while_writing_ends_with_its_class_and_is_resumed(engine, dataset, embedder, monkeypatch):
    from evalkit.embedded_store import EmbeddedStore
    from evalkit.server_store import ServerStore

    chosen = EmbeddedStore if engine is None else ServerStore

    def full(*_):
        raise InfrastructureError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(chosen, "upsert", full)
        with pytest.raises(InfrastructureError, match="disk is full"):
            index(settings(dataset))
    assert state() == "building"
    assert index(settings(dataset)).outcome == "resumed"


def test_labels_are_checked_before_anything_is_embedded(engine, dataset, embedder):
    write_dataset(dataset, {}, [case("one", evidence=[fact("doc-0", "Found nowhere")])])
    with pytest.raises(InputError, match="Found nowhere"):
        index(settings(dataset))
    assert embedder.embedded == []
    assert state() is None


def test_a_prompt_that_cannot_be_embedded_writes_nothing(engine, dataset):
    with pytest.raises(InputError, match="record"):
        index(settings(dataset, embedder="recorded"))
    with open_store() as store:
        assert store.collections() == []


@pytest.mark.thorough
def test_recreate_keeps_the_old_one_when_the_embedder_fails(engine, dataset, embedder, monkeypatch):
    index(settings(dataset))

    def down(_):
        raise InfrastructureError("Ollama is down")

    shutil.rmtree(paths.outputs() / "vectors")
    with monkeypatch.context() as patch:
        patch.setattr(embedder, "embed", down)
        with pytest.raises(InfrastructureError, match="down"):
            index(settings(dataset, recreate=True))
    assert state() == "complete"


@pytest.mark.thorough
def test_several_uploads_at_a_time_write_the_same(engine, dataset, embedder):
    report = index(settings(dataset, parallel=3))
    assert report.counts["sent"] == 15
    assert opened(dataset, embedder).checked["points"] == 15
    assert any("parallel" in notice for notice in report.notices) == (engine is None)


@pytest.mark.parametrize("engine", [pytest.param("server", marks=pytest.mark.server)], indirect=True)
def test_a_failing_upload_among_several_is_not_lost(engine, dataset, embedder):
    engine.faults.add(http.status(400, r"PUT .*/points", times=1, after=3))
    with pytest.raises(InputError, match="made error"):
        index(settings(dataset, parallel=3))
    assert state() == "building"
    assert index(settings(dataset)).outcome == "resumed"


def test_no_collection_says_what_to_do(engine, dataset, embedder):
    with pytest.raises(InputError, match=rf"no collection.*{NAME}.*: `evalkit index --dataset {dataset}`$"):
        opened(dataset, embedder)
    with pytest.raises(InputError, match=r"--embeddings 'our vectors'`$") as refused:
        opened(dataset, embedder, chunking=OTHER, collection="ours", embeddings="our vectors")
    assert f"`evalkit index --dataset {dataset} --chunking {OTHER} --collection ours " in str(refused.value)


def test_progress_has_no_rate_before_it_began():
    assert Progress(0, 10, 0.0).rate == 0.0
    assert Progress(0, 10, 0.0).seconds_left is None
    assert Progress(5, 10, 2.0).seconds_left == pytest.approx(2.0)
