"""Several at once on one server collection, one embedded collection, one vector cache and one outputs folder.

Two that index and evaluate at once, on both engines, are in `test_two_at_once`; an embedded collection that another
process holds is in `test_embedded_store`, three writers of one cache in `test_vectors`.
"""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest

from evalkit import paths
from evalkit.errors import InfrastructureError, InputError
from evalkit.evaluation import evaluate
from evalkit.indexing import index
from evalkit.runs import TABLES, list_runs, load_run
from evalkit.settings import EvaluateSettings, IndexSettings
from tests.datasets import case, write_dataset
from tests.fakes.embedder import HashEmbedder
from tests.fakes.http import changed
from tests.fakes.ollama import FakeOllama
from tests.fakes.qdrant import FakeQdrant
from tests.faults.catalogue import WRITE
from tests.processes import run_module

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[2]
SECTIONS = "\n\n".join(f"## S{part}\n\nPart {part} of NAME." for part in range(4))
CASES = [case("one", relevant=[{"document": "alpha", "chunk": "s1/p0"}])]


def dataset(folder: Path, *documents: str) -> str:
    return str(write_dataset(folder, {name: SECTIONS.replace("NAME", name) for name in documents}, CASES))


@pytest.fixture
def server(tmp_path, monkeypatch):
    with FakeQdrant(tmp_path / "engine") as running:
        monkeypatch.setenv("QDRANT_URL", running.url)
        for module in ("indexing", "evaluation"):
            monkeypatch.setattr(f"evalkit.{module}.open_embedder", lambda *_: HashEmbedder())
        yield running


def put(folder: str, **more):
    return index(IndexSettings.checked(dataset=folder, collection="made", upsert_batch=3, **more))


def ask(folder: str):
    return evaluate(EvaluateSettings.checked(dataset=folder, collection="made", ks=(1, 3)))


def meanwhile(server, work):
    """Put a fault that lets `work` run between two writes of somebody else; gives what it returned or raised."""
    said = []

    def interrupt(body):
        try:
            said.append(work())
        except (InputError, InfrastructureError) as error:
            said.append(error)
        return body

    server.faults.add(changed(interrupt, WRITE, times=1, after=1))
    return said


def test_evaluating_while_somebody_indexes_is_told_to_wait(server, tmp_path):
    folder = dataset(tmp_path / "a", "alpha", "beta")
    said = meanwhile(server, lambda: ask(folder))
    assert put(folder).outcome == "created"
    assert isinstance(said[0], InputError)
    assert "incomplete: its indexing was interrupted or is still running" in str(said[0])
    assert len(ask(folder).scores) == 2


def test_two_indexers_of_one_corpus_both_end_right(server, tmp_path):
    folder = dataset(tmp_path / "a", "alpha", "beta", "gamma")
    said = meanwhile(server, lambda: put(folder))
    first = put(folder)
    assert (first.outcome, said[0].outcome) == ("created", "resumed")
    assert first.verification.checked == said[0].verification.checked
    assert put(folder).outcome == "unchanged"
    assert len(ask(folder).scores) == 2


def test_two_indexers_of_different_corpora_never_leave_a_mixture_that_is_scored(server, tmp_path):
    one, other = dataset(tmp_path / "a", "alpha", "beta", "gamma"), dataset(tmp_path / "b", "alpha", "delta")
    said = meanwhile(server, lambda: put(other))
    with pytest.raises(InfrastructureError, match=r"(?s)points belong to no passage.*look for somebody else"):
        put(one)
    assert said[0].outcome == "resumed"
    with pytest.raises(InputError, match=r"index with recreate"):
        ask(one)
    with pytest.raises(InputError, match=r"(?s)was changed since it was indexed.*index with recreate"):
        ask(other)
    assert put(other, recreate=True).outcome == "created"
    assert len(ask(other).scores) == 2


def test_recreating_while_somebody_else_writes_the_same_ends_right(server, tmp_path):
    folder = dataset(tmp_path / "a", "alpha", "beta", "gamma")
    said = meanwhile(server, lambda: put(folder, recreate=True))
    assert put(folder).outcome == said[0].outcome == "created"
    assert len(ask(folder).scores) == 2


def test_a_collection_is_free_again_after_indexing_and_evaluating(tmp_path, monkeypatch):
    """What a notebook did does not keep the next one out, though its kernel still runs."""
    monkeypatch.setattr("evalkit.embedded_store.LOCK_WAIT", 0.0)
    for module in ("indexing", "evaluation"):
        monkeypatch.setattr(f"evalkit.{module}.open_embedder", lambda *_: HashEmbedder())
    folder = dataset(tmp_path / "a", "alpha")
    kept = [put(folder), ask(folder)]
    look = "import sys; from evalkit.stores import open_store; print(open_store().count('made'))"
    done = subprocess.run(
        [sys.executable, "-c", look],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.stdout == "4\n", done.stderr
    assert len(kept) == 2


@pytest.mark.slow
def test_three_that_evaluate_at_once_share_collection_and_vector_cache(tmp_path, monkeypatch):
    folder = dataset(tmp_path / "a", "alpha", "beta")
    with FakeOllama(dimension=8, recorded=False) as ollama:
        said = run_module("tests.faults.sharing", folder, environment={"OLLAMA_HOST": ollama.url})
        prompts = set(ollama.embedded)
    assert [one.get("error") for one in said] == [None] * 3
    assert sorted(list_runs()["run_id"]) == sorted(one["run"] for one in said)
    first, *others = (load_run(one["run"]) for one in said)
    for run in others:
        for name in TABLES:
            pd.testing.assert_frame_equal(getattr(run, name), getattr(first, name))
    assert load_run("latest").run_id in {one["run"] for one in said}
    assert not list(paths.outputs().rglob(".tmp-*"))
    with sqlite3.connect(paths.outputs() / "vectors" / "cache.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (len(prompts),)
    connection.close()


def test_runs_stored_at_once_are_all_whole(example_runs, tmp_path, monkeypatch):
    from evalkit.rescoring import score_run_again
    from evalkit.runs import write_run

    run = load_run(example_runs["worker-runbooks"])
    evaluations = [score_run_again(run) for _ in range(4)]
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path / "together"))
    threads = [threading.Thread(target=write_run, args=(one,)) for one in evaluations]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(list_runs()["run_id"]) == {one.record.run_id for one in evaluations}
    assert load_run("latest").run_id in {one.record.run_id for one in evaluations}
    for one in evaluations:
        pd.testing.assert_frame_equal(load_run(one.record.run_id).rankings, one.rankings)
