"""The sweep over hnsw_ef, on a made collection whose approximate index is poor on purpose."""

import numpy as np
import pandas as pd
import pytest

from evalkit.ann import COLUMNS, sweep, sweep_collection
from evalkit.embedded_store import EmbeddedStore
from evalkit.errors import InputError
from evalkit.labels import Labels
from evalkit.points import CollectionState, Fingerprint, Point
from evalkit.settings import EvaluateSettings, ServerSettings

POINTS, DIMENSION, QUESTIONS, K = 3000, 48, 60, 10
EFS = (1, 16, 64, 512)
FILTER = {"state": ("published",)}


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


SOURCE = np.random.default_rng(7)
VECTORS = unit(SOURCE.normal(size=(POINTS, DIMENSION)))
ASKED = unit(SOURCE.normal(size=(QUESTIONS, DIMENSION)))
NAMES = [f"case-{number:02}" for number in range(QUESTIONS)]


def payload(number):
    return {
        "document_id": f"doc-{number // 10}",
        "chunk_id": f"p{number % 10}",
        "state": "published" if number % 3 else "draft",
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    points = [
        Point(f"00000000-0000-0000-0000-{number:012}", vector, payload(number))
        for number, vector in enumerate(VECTORS)
    ]
    state = CollectionState("complete", Fingerprint("made", "made", "made"))
    layouts = {"approximate": ServerSettings(hnsw_m=4, hnsw_ef_construct=8), "exact": ServerSettings()}
    with EmbeddedStore(tmp_path_factory.mktemp("engine")) as opened:
        for name, layout in layouts.items():
            opened.create(name, DIMENSION, state, layout)
            opened.index_fields(name, ["state"])
            opened.upsert(name, points)
            opened.finish(name)
        yield opened


@pytest.fixture(scope="module")
def swept(store):
    return sweep_collection(store, "approximate", NAMES, ASKED, FILTER, K, EFS, repeats=2)


def best():
    """The first K allowed passages of each question, by a plain product."""
    allowed = np.flatnonzero(np.arange(POINTS) % 3)
    return allowed[np.argsort(-(ASKED @ VECTORS[allowed].T), axis=1)[:, :K]]


@pytest.mark.thorough
def test_recall_against_exact_rises_with_the_beam(swept):
    table = swept.table
    assert list(table.columns) == COLUMNS
    assert table["hnsw_ef"].tolist() == [pd.NA, *EFS]
    assert table["recall_exact"].iloc[0] == 1
    assert table["identical"].iloc[0] == QUESTIONS
    approximate = table["recall_exact"].iloc[1:]
    assert approximate.is_monotonic_increasing
    assert approximate.iloc[0] < 0.9 < approximate.iloc[-1]
    assert (swept.approximate, swept.points, swept.k) == (True, 2000, K)


@pytest.mark.thorough
def test_the_first_row_is_exact_search_and_the_others_are_measured_against_it(store, swept):
    found = store.query("approximate", ASKED, FILTER, K, hnsw_ef=EFS[0])
    shares = [
        len({int(hit.id[-12:]) for hit in hits} & set(truth.tolist())) / K
        for hits, truth in zip(found, best(), strict=True)
    ]
    assert swept.table["recall_exact"].iloc[1] == pytest.approx(np.mean(shares))


@pytest.mark.thorough
def test_latencies_are_percentiles_of_single_requests(swept):
    table = swept.table
    assert (table["n"] == QUESTIONS).all()
    assert (table["requests"] == 2 * QUESTIONS).all()
    assert (table["p50_ms"] > 0).all()
    assert (table["p50_ms"] <= table["p90_ms"]).all()
    assert (table["p90_ms"] <= table["p99_ms"]).all()
    assert (table["batch_ms"] > 0).all()
    assert table[["recall", "coverage"]].isna().all(axis=None)


@pytest.mark.thorough
def test_without_an_index_every_width_finds_all(store):
    found = sweep_collection(store, "exact", NAMES, ASKED, FILTER, K, EFS[:2], repeats=1)
    assert not found.approximate
    assert (found.table["recall_exact"] == 1).all()
    assert (found.table["identical"] == QUESTIONS).all()


@pytest.mark.thorough
def test_recall_against_labels_stands_apart(store):
    """Each question is labelled with its two best passages, and with one that never comes back."""
    rows = [
        (name, payload(number)["document_id"], payload(number)["chunk_id"], 2)
        for name, numbers in zip(NAMES, best()[:, :2], strict=True)
        for number in numbers.tolist()
    ] + [(name, "elsewhere", "p0", 1) for name in NAMES]
    judgments = pd.DataFrame(rows, columns=["case_id", "document_id", "chunk_id", "grade"])
    judgments = judgments.astype({"case_id": "str", "document_id": "str", "chunk_id": "str"})
    empty = pd.DataFrame(columns=["case_id", "fact", "text", "first_quote", "lost"])
    places = pd.DataFrame(columns=["case_id", "fact", "quote", "document_id", "chunk_id", "text"])
    labels = Labels(judgments, empty.astype({"fact": "int64"}), places.astype({"fact": "int64"}))
    table = sweep_collection(store, "approximate", NAMES, ASKED, FILTER, K, EFS, 1, labels).table
    assert table["recall"].iloc[0] == pytest.approx(2 / 3)
    assert table["recall"].iloc[1] < 2 / 3
    assert table["coverage"].isna().all()


@pytest.mark.thorough
def test_no_questions_give_no_figures(store):
    table = sweep_collection(store, "exact", [], ASKED[:0], FILTER, K, (8,), repeats=1).table
    assert table["n"].tolist() == [0, 0]
    assert table[["recall_exact", "p50_ms", "batch_ms"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("efs", "repeats", "text"), [([], 1, "efs"), ([0, 8], 1, "efs"), ([8, 4], 1, "efs"), ([8], 0, "repeats")]
)
def test_what_cannot_be_swept_is_refused_before_anything_is_asked(efs, repeats, text):
    with pytest.raises(InputError, match=text):
        sweep(EvaluateSettings.checked(dataset="worker-runbooks"), efs, repeats)


def test_a_data_set_is_swept_with_its_labels(example_runs):
    seen = []
    found = sweep(EvaluateSettings.checked(dataset="worker-runbooks", ks=(3,)), [4, 64], 1, seen.append)
    assert (found.k, found.points, found.approximate, found.store) == (3, 7, False, "embedded")
    assert found.table["recall"].tolist() == [1.0, 1.0, 1.0]
    assert found.table["coverage"].tolist() == [1.0, 1.0, 1.0]
    assert found.table["n"].tolist() == [9, 9, 9]
    assert seen[:3] == ["labels", "verification", "embedding"]
    assert seen[3:] == ["turn 1 of 1, exact", "turn 1 of 1, hnsw_ef 4", "turn 1 of 1, hnsw_ef 64"]
