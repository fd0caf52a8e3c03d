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
from dataclasses import dataclass
from pathlib import Path

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
from tests.datasets import case, fact, write_dataset
from tests.fakes.http import FakeServer, Fault, changed, hang
from tests.fakes.ollama import EMBED, FakeOllama
from tests.fakes.qdrant import FakeQdrant
from tests.faults.catalogue import QUERY, ROWS, Row, Wanted, first_hits

pytestmark = pytest.mark.server

TABLE = Path(__file__).parents[2] / "docs" / "faults.md"
DOCUMENTS = {
    "alpha": "## One\n\nAlpha waits ten seconds.\n\n## Two\n\nAlpha then stops.",
    "beta": "## One\n\nBeta keeps a queue.\n\n## Two\n\nBeta drops nothing.\n\n## Three\n\nBeta says so.",
    "gamma": "## One\n\nGamma is another thing.\n\n## Two\n\nGamma is left alone.",
}
CASES = [
    case("waiting", evidence=[fact("alpha", "waits ten seconds"), fact("alpha", "then stops")]),
    case(
        "queue",
        evidence=[fact("beta", "keeps a queue")],
        supporting=[{"document": "beta", "quote": "says so"}],
    ),
    case("other", relevant=[{"document": "gamma", "chunk": "one/p0"}]),
]
UNSUPPORTED = [{"id": "weather", "question": "Will it rain?"}]


@dataclass
class Outcome:
    """What came of one fault at one stage."""

    short: str
    text: str


observed: dict[tuple[str, str, str], Outcome] = {}


class World:
    """Both servers with one indexed collection, its vector cache, and the tables of an undisturbed evaluation."""

    def __init__(self, folder: Path) -> None:
        self.servers = {"Qdrant": FakeQdrant(folder), "Ollama": FakeOllama(dimension=8, recorded=False)}
        self.cache = folder / "cache"
        dataset = write_dataset(folder / "small", DOCUMENTS, CASES, UNSUPPORTED)
        self.chosen = {
            "dataset": str(dataset),
            "embedder": "ollama",
            "embeddings": str(folder / "none"),
            "embed_batch": 2,
        }

    def put(self, collection="other", timeout=60.0):
        """Index."""
        chosen = self.chosen | {"collection": collection, "upsert_batch": 3, "embed_timeout": timeout}
        return index(IndexSettings.checked(**chosen))

    def ask(self, collection="made", timeout=60.0, **more):
        """Evaluate and store the run."""
        chosen = self.chosen | {"collection": collection, "embed_timeout": timeout, **more}
        return write_run(evaluate(EvaluateSettings.checked(ks=(1, 3), depth=5, **chosen)))

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
        made.put("made")
        shutil.copytree(paths.outputs() / "vectors", made.cache)
        made.undisturbed = made.ask()
        made.holds = content(made, "made")
        yield made


@pytest.fixture(autouse=True)
def quick(world, monkeypatch):
    world.point_to_servers(monkeypatch)
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.01)
    yield
    for server in world.servers:
        world.restore(server)
    world.servers["Qdrant"].engine.drop("other")


def content(world: World, collection: str):
    """Everything that a collection holds, seen from inside the server."""
    engine = world.servers["Qdrant"].engine
    body = {"limit": 1000, "with_payload": True, "with_vector": True}
    return engine.collections[collection].metadata, engine.scroll(collection, body)


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
    if "point" not in row.before:
        yield
        return
    with open_store() as store:
        first = next(store.scroll("made", vectors=True))
        extra = Point("00000000-0000-0000-0000-000000000009", first.vector, {})
        if row.before == "point deleted":
            store.delete("made", [first.id])
        else:
            store.upsert("made", [extra])
    yield
    with open_store() as store:
        store.upsert("made", [first])
        store.delete("made", [extra.id])


def note(world: World, row: Row, stage: str, outcome: Outcome) -> None:
    text = outcome.text.replace(str(paths.outputs()), "outputs")
    text = text.replace(world.chosen["dataset"], "data/small").replace(world.chosen["embeddings"], "none")
    for server, fake in world.servers.items():
        text = text.replace(fake.url, f"http://{server.lower()}")
    text = re.sub(r"([0-9a-f]{12})[0-9a-f]{52}", r"\1…", text)
    text = re.sub(r"\((\w+Error): [^)]*\)+", r"(\1)", text)  # a library's own words change with its versions
    outcome.text = re.sub(r"\s+", " ", text.replace("\n", "<br>")).replace("|", "\\|")
    observed[row.server, row.fault, stage] = outcome


def ended_badly(error: Exception, wanted: Wanted) -> Outcome:
    assert type(error) is wanted.error
    assert re.search(wanted.says, str(error), re.DOTALL), f"{wanted.says!r} is not in: {error}"
    return Outcome(f"exit {EXIT_CODES[type(error)]}", str(error))


def ended_well(wanted: Wanted, text: str = "") -> Outcome:
    repeated = {0: "", 1: ", one request repeated"}.get(
        wanted.retries, f", {wanted.retries} requests repeated"
    )
    return Outcome(f"ends well{repeated}", text)


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
            report = world.put(timeout=timeout)
        assert retried(report.counts) == wanted.retries == len(caplog.messages)
        note(world, row, "index", ended_well(wanted))
    else:
        with pytest.raises(wanted.error) as caught, disturbed(world, row, row.index) as timeout:
            world.put(timeout=timeout)
        note(world, row, "index", ended_badly(caught.value, wanted))
        with pytest.raises(InputError, match=r"incomplete|no collection"):
            world.ask("other")
        assert world.put().outcome in ("created", "resumed")
    assert content(world, "other") == world.holds


def retried(counts: dict[str, int]) -> int:
    return counts["store_retries"] + counts["ollama_retries"]


@pytest.mark.parametrize("row", names("evaluate"))
def test_while_evaluating(world, row, outputs, caplog):
    shutil.copytree(world.cache, outputs / "vectors")
    wanted = row.evaluated
    if wanted.error is None:
        with disturbed(world, row, row.evaluate) as timeout:
            run = world.ask(timeout=timeout)
        assert_same_figures(run, world.undisturbed)
        assert retried(run.record.counts) == wanted.retries
        assert sum("; attempt " in text for text in caplog.messages) == wanted.retries
        new = [one for one in run.record.notices if one not in world.undisturbed.record.notices]
        note(world, row, "evaluate", ended_well(wanted, "\n".join(new)))
    else:
        with (
            tampered(row),
            pytest.raises(wanted.error) as caught,
            disturbed(world, row, row.evaluate) as timeout,
        ):
            world.ask(timeout=timeout)
        note(world, row, "evaluate", ended_badly(caught.value, wanted))
        assert list_runs().empty
        assert not (outputs / "latest").exists()


@pytest.mark.parametrize("server", ["Qdrant", "Ollama"])
def test_a_deadline_ends_the_evaluation_while_a_server_hangs(world, server):
    world.servers[server].faults.add(hang({"Qdrant": QUERY, "Ollama": EMBED}[server], seconds=600))
    with pytest.raises(InfrastructureError, match="deadline"):
        world.ask(deadline=2.0)
    assert list_runs().empty


def test_a_hit_that_a_threshold_should_not_have_taken_away_is_missed(world):
    assert len(world.ask(threshold=-0.9).rankings) == 4 * (1 + 3)
    world.servers["Qdrant"].faults.add(first_hits(lambda hits: hits[1:], times=2))
    with pytest.raises(InfrastructureError, match=r"left out hits above the threshold -0\.9.*for waiting"):
        world.ask(threshold=-0.9)


def test_a_proxy_of_the_environment_is_not_asked_for_servers_on_this_machine(world, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert_same_figures(world.ask(), world.undisturbed)


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
        parts.append(f"\n## {server}\n\n| fault | while indexing | while evaluating | what the user reads |")
        parts.append("| --- | --- | --- | --- |")
        for row in (row for row in ROWS if row.server == server):
            stages = [observed.get((server, row.fault, stage)) for stage in ("index", "evaluate")]
            shorts = " | ".join("–" if one is None else one.short for one in stages)
            texts = [one.text for one in stages if one is not None and one.text]
            # Texts differ in what was being done; both are shown where the outcome differs too.
            alike = len({one.short for one in stages if one is not None}) == 1
            parts.append(f"| {row.fault} | {shorts} | {'<br>'.join(texts[-1:] if alike else texts)} |")
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
