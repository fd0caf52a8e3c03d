"""What only the embedded engine has: folders, locks, an index on demand."""

import fcntl
import gc
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from evalkit import embedded_store, paths
from evalkit.embedded_store import EmbeddedStore
from evalkit.errors import InfrastructureError, InputError
from evalkit.files import STALE, TEMPORARY
from evalkit.points import CollectionState, Fingerprint, Point
from evalkit.settings import ServerSettings
from evalkit.stores import open_store
from evalkit.transport import Deadline

STATE = CollectionState("building", Fingerprint("corpus", "digest", "profile"))
FIRST = Point("00000000-0000-0000-0000-000000000001", np.array([1, 0], dtype=np.float32), {"text": "one"})

HOLD = """
import sys
from pathlib import Path
from evalkit.embedded_store import EmbeddedStore

store = EmbeddedStore(Path(sys.argv[1]))
print(store.count(sys.argv[2]), flush=True)
sys.stdin.readline()
"""


def made(store: EmbeddedStore, name: str = "made") -> EmbeddedStore:
    store.create(name, 2, STATE, ServerSettings())
    store.upsert(name, [FIRST])
    return store


def test_without_a_url_the_store_is_embedded_under_outputs():
    with open_store() as store:
        assert store.kind == "embedded"
        made(store)
    assert (
        json.loads((paths.outputs() / "collections" / "made" / "state.json").read_text())["state"]
        == "building"
    )


def test_a_cell_that_is_run_again_never_meets_its_own_lock(tmp_path):
    with made(EmbeddedStore(tmp_path)) as first, EmbeddedStore(tmp_path) as second:
        assert second.count("made") == 1
        first.close()
        assert second.count("made") == 1
        assert first.count("made") == 1  # a closed store opens again what it needs
    forgotten = EmbeddedStore(tmp_path)
    forgotten.count("made")
    with EmbeddedStore(tmp_path) as again:
        assert again.count("made") == 1


def test_each_collection_is_flushed_by_its_own_count(tmp_path, monkeypatch):
    class Counted:
        """The engine of one collection, its flushes counted."""

        def __init__(self, engine, name):
            self.engine, self.name = engine, name

        def __getattr__(self, attribute):
            if attribute == "flush":
                flushed.append(self.name)
            return getattr(self.engine, attribute)

    opened, flushed = EmbeddedStore._engine, []
    monkeypatch.setattr(EmbeddedStore, "_engine", lambda store, name: Counted(opened(store, name), name))
    monkeypatch.setattr(embedded_store, "FLUSH", 3)
    with EmbeddedStore(tmp_path) as store:
        made(store, "one")
        made(store, "two")
        store.upsert("one", [FIRST])
        assert flushed == []
        store.upsert("two", [FIRST, FIRST])
        assert flushed == ["two"]
        store.drop("one")
        made(store, "one")
        store.upsert("one", [FIRST])
        assert flushed == ["two"]


def hold(folder, name):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(paths.root())},
    )
    assert process.stdout.readline() == "1\n"
    return process


def let_go(process):
    process.communicate("\n", timeout=30)


@pytest.mark.slow
def test_a_folder_that_another_process_holds_is_named_with_what_to_close(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded_store, "LOCK_WAIT", 0.2)
    made(EmbeddedStore(tmp_path)).close()
    process = hold(tmp_path, "made")
    try:
        with EmbeddedStore(tmp_path) as store:
            for use in (store.count, store.drop, lambda name: store.write_state(name, STATE)):
                with pytest.raises(InfrastructureError, match=r"made.*held by another process.*kernel"):
                    use("made")
            assert store.read_state("made") == STATE  # needs no lock
    finally:
        let_go(process)
    with EmbeddedStore(tmp_path) as store:
        assert store.count("made") == 1


@pytest.mark.slow
def test_a_short_wait_for_another_process_is_enough_when_it_ends(tmp_path):
    made(EmbeddedStore(tmp_path)).close()
    process = hold(tmp_path, "made")
    process.stdin.write("\n")  # ends while we wait
    process.stdin.flush()
    with EmbeddedStore(tmp_path) as store:
        assert store.count("made") == 1
    process.communicate(timeout=30)


def test_closing_and_dropping_release_the_folder(tmp_path):
    with made(EmbeddedStore(tmp_path)):
        pass
    assert opens_elsewhere(tmp_path)
    store = EmbeddedStore(tmp_path)
    store.count("made")
    assert not opens_elsewhere(tmp_path)
    del store
    gc.collect()
    assert opens_elsewhere(tmp_path)


def opens_elsewhere(folder) -> bool:
    """Take the lock as another process would."""
    with (folder / "made" / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_drop_reaches_every_store_of_this_process(tmp_path):
    with made(EmbeddedStore(tmp_path)) as one, EmbeddedStore(tmp_path) as other:
        other.count("made")
        one.drop("made")
        assert not other.exists("made")
        with pytest.raises(InputError, match="no collection 'made'"):
            other.count("made")
        made(one)
        assert other.count("made") == 1


def test_a_folder_that_something_else_made_carries_no_state(tmp_path):
    (tmp_path / "made").mkdir()
    with EmbeddedStore(tmp_path) as store:
        assert store.exists("made")
        assert store.read_state("made") is None
        with pytest.raises(InputError, match="no collection 'made'"):
            store.count("made")
        store.drop("made")
        assert not store.exists("made")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"state": "done"}', "\ud800".encode("utf-8", "surrogatepass")]
)
def test_a_garbled_state_is_an_input_error_that_names_the_file(tmp_path, text):
    with made(EmbeddedStore(tmp_path)) as store:
        (tmp_path / "made" / "state.json").write_bytes(text.encode() if isinstance(text, str) else text)
        with pytest.raises(InputError, match=r"state\.json.*recreate"):
            store.read_state("made")


def test_a_garbled_shard_is_an_infrastructure_error_and_can_be_dropped(tmp_path):
    made(EmbeddedStore(tmp_path)).close()
    for file in (tmp_path / "made" / "shard").rglob("*"):
        if file.is_file():
            file.write_bytes(b"garbled")
    with EmbeddedStore(tmp_path) as store:
        with pytest.raises(InfrastructureError, match="recreate"):
            store.count("made")
        store.drop("made")
        assert not store.exists("made")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../made", "a/b", "a\\b", ".hidden", "a" * 201, "a\0b", "a b"]
)
def test_names_cannot_leave_the_folder(tmp_path, name):
    with EmbeddedStore(tmp_path / "collections") as store:
        for use in (store.exists, store.drop, store.read_state, store.count):
            with pytest.raises(InputError, match="refused"):
                use(name)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept_when_it_is_old(tmp_path):
    old, young = tmp_path / f"{TEMPORARY}old", tmp_path / f"{TEMPORARY}young"
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (0, time.time() - 2 * STALE))
    with made(EmbeddedStore(tmp_path)) as store:
        assert store.collections() == ["made"]
    assert not old.exists()
    assert young.exists()


def test_a_place_that_cannot_be_written_is_an_infrastructure_error(tmp_path):
    (tmp_path / "collections").write_text("a file, not a folder")
    with EmbeddedStore(tmp_path / "collections") as store:
        with pytest.raises(InfrastructureError, match="EVALKIT_OUTPUTS"):
            store.create("made", 2, STATE, ServerSettings())
        assert store.collections() == []


def test_a_creation_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise InfrastructureError("disk full")

    monkeypatch.setattr(embedded_store, "write_whole", full)
    with EmbeddedStore(tmp_path) as store, pytest.raises(InfrastructureError, match="disk full"):
        store.create("made", 2, STATE, ServerSettings())
    assert list(tmp_path.iterdir()) == []


def test_no_request_starts_after_the_deadline(tmp_path):
    made(EmbeddedStore(tmp_path)).close()
    with (
        EmbeddedStore(tmp_path, Deadline(0.0)) as store,
        pytest.raises(InfrastructureError, match="deadline"),
    ):
        store.count("made")


def test_settings_that_this_engine_lacks_are_named(tmp_path):
    settings = ServerSettings(shards=2, replicas=2, parallel=4, vectors_on_disk=True)
    with EmbeddedStore(tmp_path) as store:
        ignored = store.create("made", 2, STATE, settings)
        store.upsert("made", [FIRST])
        assert store.count("made") == 1
    assert [sentence.split("'")[1] for sentence in ignored] == ["shards", "replicas", "parallel"]


@pytest.mark.parametrize(
    "settings", [ServerSettings(hnsw_m=8, hnsw_ef_construct=16), ServerSettings(quantized=True)]
)
def test_an_approximate_index_is_built_when_it_is_asked_for(tmp_path, settings):
    vectors = np.random.default_rng(0).normal(size=(600, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    points = [
        Point(f"00000000-0000-0000-0000-{place:012}", vector, {"half": str(place % 2)})
        for place, vector in enumerate(vectors)
    ]
    asked, only = vectors[:20] + np.float32(0), {"half": ("0",)}
    with EmbeddedStore(tmp_path) as store:
        for name, chosen in (("exact", ServerSettings()), ("approximate", settings)):
            store.create(name, 32, STATE, chosen)
            store.index_fields(name, ["half"])
            store.upsert(name, points)
            store.finish(name)
        assert [store.is_exact(name) for name in ("exact", "approximate")] == [True, False]
        truth = store.query("exact", asked, only, 10)
        assert as_ids(store.query("exact", asked, only, 10, hnsw_ef=4)) == as_ids(truth)
        assert as_ids(store.query("approximate", asked, only, 10, exact=True)) == as_ids(truth)
        approximate = store.query("approximate", asked, only, 10, hnsw_ef=4)
        assert as_ids(approximate) != as_ids(truth)
        # Whatever is found is scored with the vectors themselves, not with their quantized copies.
        for place, hits in enumerate(approximate):
            for hit in hits:
                assert hit.score == pytest.approx(float(asked[place] @ vectors[int(hit.id[-12:])]), abs=1e-5)


def as_ids(rankings):
    return [[hit.id for hit in hits] for hits in rankings]


def create_and_write(folder, number, results):
    try:
        with EmbeddedStore(folder) as store:
            store.create("made", 2, STATE, ServerSettings())
            store.upsert("made", [FIRST])
            results.put((number, "made"))
    except InputError:
        results.put((number, "taken"))


@pytest.mark.slow
def test_of_two_processes_that_create_at_once_one_is_told(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=create_and_write, args=(tmp_path, n, results)) for n in range(2)]
    for process in processes:
        process.start()
    said = sorted(results.get(timeout=60)[1] for _ in processes)
    for process in processes:
        process.join(timeout=60)
    assert said == ["made", "taken"]
    with EmbeddedStore(tmp_path) as store:
        assert store.count("made") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_a_copied_folder_is_the_same_collection(tmp_path):
    made(EmbeddedStore(tmp_path / "here")).close()
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    with EmbeddedStore(tmp_path / "there") as store:
        assert [point.payload for point in store.scroll("made", vectors=False)] == [FIRST.payload]
