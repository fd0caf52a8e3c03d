"""Faults of Qdrant and Ollama over real HTTP: a run ends right or says why; no score comes from less than everything.

What is observed here is `docs/faults.md`; a test compares. Write it anew with

    EVALKIT_WRITE_FAULTS=1 python -m pytest tests/faults/test_faults.py
"""

import os
import re
import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalkit import paths, transport
from evalkit.cli import EXIT_CODES
from evalkit.errors import InfrastructureError, InputError
from evalkit.evaluation import evaluate
from evalkit.indexing import index
from evalkit.points import Point
from evalkit.runs import list_runs, write_run
from evalkit.settings import EvaluateSettings, IndexSettings
from evalkit.stores import open_store
from tests.fakes.http import FakeServer, Fault, changed, hang
from tests.fakes.ollama import EMBED, FakeOllama
from tests.fakes.qdrant import FakeQdrant
from tests.faults.catalogue import QUERY, ROWS, Row, Wanted

pytestmark = pytest.mark.server

TABLE = Path(__file__).parents[2] / "docs" / "faults.md"
CHOSEN = {"dataset": "worker-runbooks", "embedder": "ollama", "collection": "made", "embed_batch": 4}
observed: dict[tuple[str, str, str], str] = {}


class World:
    """Both servers with one indexed collection, its vector cache, and the tables of an undisturbed evaluation."""

    def __init__(self, folder: Path) -> None:
        self.servers = {"Qdrant": FakeQdrant(folder), "Ollama": FakeOllama()}
        self.cache = folder / "cache"

    def point_to_servers(self, monkeypatch):
        monkeypatch.setenv("QDRANT_URL", self.servers["Qdrant"].url)
        monkeypatch.setenv("OLLAMA_HOST", self.servers["Ollama"].url)

    def restore(self, server: str) -> None:
        fake = self.servers[server]
        fake.faults.clear()
        if fake._http is None:
            fake.listen()


def leaving(fake: FakeServer, path: str) -> tuple[threading.Thread, Fault]:
    """From the second request to `path` on, nobody is there any more."""
    gone = threading.Thread(target=fake.vanish)

    def leave(body):
        socket = fake._http.socket
        gone.start()
        while socket.fileno() != -1:
            time.sleep(0.001)
        return body

    return gone, changed(leave, path, times=1, after=1)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("world"))
    with pytest.MonkeyPatch.context() as patch, made.servers["Qdrant"], made.servers["Ollama"]:
        patch.setenv("EVALKIT_OUTPUTS", str(tmp_path_factory.mktemp("undisturbed")))
        made.point_to_servers(patch)
        index(IndexSettings.checked(**CHOSEN))
        shutil.copytree(paths.outputs() / "vectors", made.cache)
        made.undisturbed = ask()
        yield made


@pytest.fixture(autouse=True)
def quick(world, monkeypatch):
    world.point_to_servers(monkeypatch)
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.01)
    yield
    for server in world.servers:
        world.restore(server)
    world.servers["Qdrant"].engine.drop("other")


def ask(timeout=60.0):
    """Evaluate and store the run."""
    chosen = CHOSEN | {"ks": (1, 3, 5), "embed_timeout": timeout}
    return write_run(evaluate(EvaluateSettings.checked(**chosen)))


def put(collection="other", timeout=60.0):
    chosen = CHOSEN | {"collection": collection, "upsert_batch": 4, "embed_timeout": timeout}
    return index(IndexSettings.checked(**chosen))


def assert_same_figures(run, undisturbed):
    for table in ("rankings", "scores", "facts", "questions"):
        pd.testing.assert_frame_equal(getattr(run, table), getattr(undisturbed, table))


@contextmanager
def disturbed(world: World, row: Row, fault: Fault | None):
    """Make the fault; give the seconds that an embedding request may take."""
    fake, seconds = world.servers[row.server], 60.0
    thread, hits = None, len(fake.faults.hit)
    with pytest.MonkeyPatch.context() as patch:
        match row.before:
            case "down":
                fake.vanish()
            case "vanishing":
                thread, fault = leaving(fake, fault.path)
            case "other digest":
                patch.setattr(fake, "digests", dict.fromkeys(fake.digests, "e" * 64))
            case "other version":
                patch.setattr(fake, "version", "0.99.0")
            case "model removed":
                patch.setattr(fake, "digests", {"another:1b": "0" * 64})
            case "dropped":
                patch.setattr(fake.engine, "collections", {})
        if fault and fault.name in ("hang", "drip"):
            patch.setattr(transport, "ATTEMPTS", 2)
            patch.setenv("QDRANT_TIMEOUT", "1")
            seconds = 1.0
        if fault:
            fake.faults.add(fault)
        try:
            yield seconds
        finally:
            if thread:
                thread.join()
            world.restore(row.server)
    if fault:
        assert len(fake.faults.hit) > hits, "no request met the fault"


@contextmanager
def tampered(row: Row):
    """Change the indexed collection behind evalkit's back, and put it back."""
    with open_store() as store:
        points = list(store.scroll("made", vectors=True)) if "point" in row.before else []
        extra = [Point("00000000-0000-0000-0000-000000000009", np.eye(768, dtype=np.float32)[0], {})]
        if row.before == "point deleted":
            store.delete("made", [points[0].id])
        if row.before == "point added":
            store.upsert("made", extra)
    yield
    if points:
        with open_store() as store:
            store.upsert("made", points[:1])
            store.delete("made", [extra[0].id])


def note(world: World, row: Row, stage: str, text: str) -> None:
    for server, fake in world.servers.items():
        text = text.replace(fake.url, f"http://{server.lower()}")
    observed[row.server, row.fault, stage] = re.sub(r"\s+", " ", text).replace("|", "\\|")


def ended_badly(error: Exception, wanted: Wanted) -> str:
    assert type(error) is wanted.error
    assert re.search(wanted.says, str(error), re.DOTALL), f"{wanted.says!r} is not in: {error}"
    return f"exit {EXIT_CODES[type(error)]}: {error}"


def names(stage: str) -> list:
    return [
        pytest.param(row, id=f"{row.server}: {row.fault}")
        for row in ROWS
        if (row.indexed if stage == "index" else row.evaluated) is not None
    ]


@pytest.mark.parametrize("row", names("index"))
def test_while_indexing(world, row, caplog):
    wanted = row.indexed
    if wanted.error is None:
        with disturbed(world, row, row.index) as timeout:
            report = put(timeout=timeout)
        assert retried(report.counts) == wanted.retries == len(caplog.messages)
        note(world, row, "index", ended_well(wanted))
    else:
        with pytest.raises(wanted.error) as caught, disturbed(world, row, row.index) as timeout:
            put(timeout=timeout)
        note(world, row, "index", ended_badly(caught.value, wanted))
        with pytest.raises(InputError, match="incomplete|no collection"):
            evaluate(EvaluateSettings.checked(**CHOSEN | {"collection": "other"}))
        assert put().outcome in ("created", "resumed")
    run = evaluate(EvaluateSettings.checked(**CHOSEN | {"collection": "other"}))
    assert_same_figures(run, world.undisturbed)


def retried(counts: dict[str, int]) -> int:
    return counts["store_retries"] + counts["ollama_retries"]


def ended_well(wanted: Wanted) -> str:
    return f"ends well, {wanted.retries} requests repeated" if wanted.retries else "ends well"


@pytest.mark.parametrize("row", names("evaluate"))
def test_while_evaluating(world, row, outputs, caplog):
    shutil.copytree(world.cache, outputs / "vectors")
    wanted = row.evaluated
    if wanted.error is None:
        with disturbed(world, row, row.evaluate) as timeout:
            run = ask(timeout)
        assert_same_figures(run, world.undisturbed)
        assert retried(run.record.counts) == wanted.retries
        assert sum("; attempt " in text for text in caplog.messages) == wanted.retries
        new = [one for one in run.record.notices if one not in world.undisturbed.record.notices]
        note(world, row, "evaluate", "; ".join([ended_well(wanted), *new]))
    else:
        with (
            tampered(row),
            pytest.raises(wanted.error) as caught,
            disturbed(world, row, row.evaluate) as timeout,
        ):
            ask(timeout)
        note(world, row, "evaluate", ended_badly(caught.value, wanted))
        assert list_runs().empty
        assert not (outputs / "latest").exists()


@pytest.mark.parametrize("server", ["Qdrant", "Ollama"])
def test_a_deadline_ends_the_evaluation_while_a_server_hangs(world, server, outputs):
    world.servers[server].faults.add(hang({"Qdrant": QUERY, "Ollama": EMBED}[server], seconds=600))
    with pytest.raises(InfrastructureError, match="deadline"):
        evaluate(EvaluateSettings.checked(**CHOSEN | {"deadline": 2.0}))
    assert list_runs().empty


HEAD = """\
# Faults and what comes of them

Each fault is made over real HTTP, between evalkit and a server with the real engine behind it, once while indexing
and once while evaluating. `tests/faults/test_faults.py` writes this table from what it observes, and fails when the
table says anything else. After every fault that ends indexing, evaluating is refused until indexing was done again,
which goes on where it stopped; after every one that ends evaluating there is no run. What ends well has the scores of
an undisturbed run.
"""


def as_table() -> str:
    parts = [HEAD]
    for server in ("Qdrant", "Ollama"):
        parts.append(f"\n## {server}\n\n| fault | while indexing | while evaluating |\n| --- | --- | --- |")
        for row in (row for row in ROWS if row.server == server):
            cells = [observed.get((server, row.fault, stage), "–") for stage in ("index", "evaluate")]
            parts.append(f"| {row.fault} | {cells[0]} | {cells[1]} |")
    return "\n".join(parts) + "\n"


def test_the_committed_table_is_what_was_observed():
    wanted = len(names("index")) + len(names("evaluate"))
    if len(observed) < wanted:
        pytest.skip(f"only {len(observed)} of {wanted} faults were tried")
    if os.environ.get("EVALKIT_WRITE_FAULTS"):
        TABLE.write_text(as_table(), encoding="utf-8")
    assert TABLE.read_text(encoding="utf-8") == as_table(), (
        "docs/faults.md is not what the tests observe; write it anew with EVALKIT_WRITE_FAULTS=1"
    )
