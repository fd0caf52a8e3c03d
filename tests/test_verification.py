"""Provenance: what can be shown stays shown, and every kind of tampering is seen and named."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from evalkit import paths
from evalkit.cli import app
from evalkit.errors import InputError
from evalkit.evaluation import evaluate
from evalkit.indexing import index
from evalkit.points import Point
from evalkit.rescoring import score_rankings_file
from evalkit.runs import TABLES, load_run, read_run, write_run
from evalkit.settings import EmbeddingSettings, EvaluateSettings, IndexSettings
from evalkit.stores import open_store
from evalkit.verification import verify_run, verify_stored
from tests.conftest import copied, environment
from tests.fakes.ollama import FakeOllama
from tests.smallruns import without_hashes

STORED = "points, payloads and vectors are what the data set and model give"
COSINES = "recorded scores are the cosines of question and passage"
TIED = "tables of the run are those that were stored with it"
CLAIMS = 13
FOLLOW = "scores follow from the rankings and labels"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """A data set, its collection and a run of it; tests work on copies that stand where it was made."""
    home = tmp_path_factory.mktemp("home")
    folder = shutil.copytree(paths.root() / "data" / "worker-runbooks", home / "work" / "worker-runbooks")
    with environment(EVALKIT_OUTPUTS=str(home / "work" / "outputs")):
        index(IndexSettings.checked(dataset=str(folder)))
        write_run(evaluate(EvaluateSettings.checked(dataset=str(folder), ks=(1, 3))))
    return (home / "work").rename(home / "pristine")


@pytest.fixture
def work(pristine, monkeypatch):
    folder = pristine.with_name("work")
    copied(pristine, folder)
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(folder / "outputs"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def folder(work):
    """The data set, to be changed."""
    return work / "worker-runbooks"


@pytest.fixture
def run(work):
    """A run of it, on a collection of one's own."""
    return load_run("latest")


def verdicts(run):
    return {finding.claim: finding.verdict for finding in verify_run(run)}


def differences(run):
    return {finding.claim: finding.detail for finding in verify_run(run) if finding.verdict == "differs"}


def differing(run):
    return list(differences(run))


@pytest.mark.parametrize(
    ("sample", "number"),
    [
        (1, 1),
        pytest.param(3, 3, marks=pytest.mark.thorough),
        pytest.param(64, 11, marks=pytest.mark.thorough),
        (None, 11),
    ],
)
def test_what_is_as_it_was_is_shown(run, sample, number):
    findings = verify_run(run, sample)
    compared = f"compared 11 points, 11 payloads, {number} vectors (as recorded)"
    assert {finding.claim: finding.detail for finding in findings}[STORED] == compared
    found = {finding.claim: finding.verdict for finding in findings}
    assert set(found.values()) == {"shown", "cannot be shown"}
    assert [claim for claim, verdict in found.items() if verdict == "cannot be shown"] == [
        "the model gives these vectors",
        "vectors would come out the same on another machine",
    ]
    assert len(found) == CLAIMS


def text_of(point):
    return replace(point, payload=point.payload | {"text": "something else"})


def turned(point):
    return replace(point, vector=np.roll(point.vector, 1))


def stranger(point):
    return Point("00000000-0000-0000-0000-000000000001", point.vector, {"document_id": "stranger"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(text_of, "payloads differ: ", marks=pytest.mark.thorough),
        (turned, "vectors differ from the embedder's: "),
        pytest.param(
            stranger, "points belong to no passage of the data set: stranger", marks=pytest.mark.thorough
        ),
        pytest.param(None, "passages are missing: ", marks=pytest.mark.thorough),
    ],
    ids=["text", "vector", "added", "deleted"],
)
def test_a_tampered_collection_is_seen(run, change, said):
    with open_store() as store:
        point = next(store.scroll(run.record.store.collection, vectors=True))
        if change is None:
            store.delete(run.record.store.collection, [point.id])
        else:
            store.upsert(run.record.store.collection, [change(point)])
    assert f"1 {said}" in differences(run)[STORED]


def test_swapped_vectors_show_in_the_recorded_scores_too(run):
    with open_store() as store:
        points = list(store.scroll(run.record.store.collection, vectors=True))
        vectors = [point.vector for point in points]
        swapped = [replace(one, vector=vector) for one, vector in zip(points, vectors[::-1], strict=True)]
        store.upsert(run.record.store.collection, swapped)
    assert {STORED, COSINES} <= set(differing(run))


def test_a_collection_that_says_building_or_is_of_another_corpus(run):
    with open_store() as store:
        state = store.read_state(run.record.store.collection)
        assert state is not None
        other = replace(state.fingerprint, corpus="0" * 64, profile="text-only")
        store.write_state(run.record.store.collection, replace(state, state="building", fingerprint=other))
    assert differing(run) == [
        "indexing finished",
        "collection was made from this corpus",
        "collection was embedded by this model and profile",
    ]


def test_a_collection_that_is_gone_cannot_be_shown(run):
    with open_store() as store:
        store.drop(run.record.store.collection)
    found = verdicts(run)
    assert found[f"collection {run.record.store.collection}"] == "cannot be shown"
    assert found[COSINES] == "cannot be shown"
    assert "differs" not in found.values()


def cases_of(folder):
    return yaml.safe_load((folder / "cases.yaml").read_text(encoding="utf-8"))


def write_cases(folder, cases):
    (folder / "cases.yaml").write_text(yaml.safe_dump(cases), encoding="utf-8")


def test_changed_labels_are_seen_and_what_follows_from_them(run, folder):
    cases = cases_of(folder)
    changed = next(case for case in cases["answerable"] if len(case.get("evidence", [])) > 1)
    del changed["evidence"][1:]
    changed["relevant"] = None
    cases["answerable"] = [{k: v for k, v in case.items() if v is not None} for case in cases["answerable"]]
    write_cases(folder, cases)
    assert differing(run) == ["labels of data set worker-runbooks", FOLLOW]


@pytest.mark.thorough
def test_a_changed_question_is_seen(run, folder):
    cases = cases_of(folder)
    cases["unsupported"][0]["id"] = "renamed"
    write_cases(folder, cases)
    found = differences(run)
    assert list(found) == ["cases of data set worker-runbooks", FOLLOW]
    assert "questions that the data set has no more" in found[FOLLOW]


@pytest.mark.thorough
def test_a_changed_document_is_seen(run, folder):
    document = sorted((folder / "documents").glob("*.md"))[0]
    text = document.read_text(encoding="utf-8")
    document.write_text(text.replace("title: ", "title: Another ", 1), encoding="utf-8")
    found = verdicts(run)
    assert [claim for claim, verdict in found.items() if verdict == "differs"] == [
        "corpus of data set worker-runbooks",
        "collection was made from this corpus",
        STORED,
    ]
    assert found["stored vectors are those of the model"] == "cannot be shown"


@pytest.mark.parametrize(
    ("table", "column", "claim"),
    [("scores", "recall", FOLLOW), ("rankings", "score", COSINES)],
)
def test_a_figure_changed_in_the_run_is_seen(run, table, column, claim):
    changed = getattr(run, table)
    changed.loc[changed["k"] == 3, column] *= 0.9
    changed.to_parquet(run.folder / f"{table}.parquet")
    assert differing(read_run(run.folder)) == [TIED]
    assert differing(without_hashes(run)) == [claim]


@pytest.mark.thorough
@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_another_run_or_none_is_seen(run, table):
    file = run.folder / f"{table}.parquet"
    shutil.copy(run.folder / f"{'facts' if table != 'facts' else 'deep'}.parquet", file)
    found = {finding.claim: finding for finding in verify_run(read_run(run.folder))}
    assert [claim for claim, finding in found.items() if finding.verdict == "differs"] == [TIED]
    assert found[FOLLOW].verdict == found[COSINES].verdict == "cannot be shown"
    assert file.name in found[TIED].detail
    file.unlink()
    assert "No such file" in differences(read_run(run.folder))[TIED]


def test_that_tables_of_an_older_run_are_its_own_cannot_be_shown(run):
    found = verdicts(without_hashes(run))
    assert found[TIED] == "cannot be shown"
    assert "differs" not in found.values()


@pytest.mark.thorough
def test_a_ranking_changed_in_the_run_is_seen(run):
    changed = run.rankings
    changed = changed[~((changed["k"] == 3) & (changed["rank"] == 1))]
    changed.to_parquet(run.folder / "rankings.parquet")
    assert differing(read_run(run.folder)) == [TIED]
    assert FOLLOW in differing(without_hashes(run))


def test_rankings_of_another_retriever_show_what_they_can(run, folder, tmp_path):
    columns = ["case_id", "rank", "document_id", "chunk_id", "score"]
    file = tmp_path / "theirs.parquet"
    run.rankings.loc[run.rankings["k"] == 3, columns].to_parquet(file)
    theirs = write_run(score_rankings_file(file, str(folder), (1, 3)))
    found = verdicts(theirs)
    assert found[FOLLOW] == "shown"
    assert found["collection and vectors"] == "cannot be shown"


@pytest.fixture
def server(monkeypatch):
    with FakeOllama() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        yield running


@pytest.fixture
def live_run(server, folder):
    chosen = {"dataset": str(folder), "embedder": "ollama"}
    index(IndexSettings.checked(**chosen))
    return write_run(evaluate(EvaluateSettings.checked(ks=(1, 3), **chosen)))


@pytest.mark.server
def test_a_live_model_embeds_the_sample_anew_past_the_cache(live_run, server):
    before = len(server.embedded)
    found = verdicts(live_run)
    assert "differs" not in found.values()
    assert "the model gives these vectors" not in found
    canary, passages, questions = 1, 11, 9
    assert len(server.embedded) - before == canary + passages + questions


@pytest.mark.server
def test_another_digest_is_seen(live_run, server):
    server.digests = dict.fromkeys(server.digests, "e" * 64)
    found = differences(live_run)
    assert list(found) == ["model digest of the run", "collection was embedded by this model and profile"]
    assert all("sha256:eeee" in detail for detail in found.values())


@pytest.mark.server
def test_a_model_that_gives_other_vectors_under_the_same_digest_is_seen(live_run, server):
    server._recorded = None  # vectors from hashes
    assert differing(live_run) == [STORED, COSINES]


def test_a_collection_is_compared_with_the_data_set_that_it_should_hold(run, folder):
    settings = EmbeddingSettings.checked()
    found = verify_stored(run.record.store.collection, str(folder), settings)
    assert {finding.verdict for finding in found} == {"shown", "cannot be shown"}
    other = verify_stored(run.record.store.collection, "platform-runbooks", settings)
    assert {finding.claim for finding in other if finding.verdict == "differs"} == {
        "collection was made from this corpus",
        STORED,
    }
    with pytest.raises(InputError, match=run.record.store.collection):
        verify_stored("no-such", str(folder), settings)


def test_the_command_ends_with_2_when_a_claim_does_not_hold(run, folder):
    def verify(*arguments):
        result = CliRunner().invoke(app, ["verify", *arguments])
        return result.exit_code, result.stdout, result.stderr

    code, out, _ = verify("latest", "--all")
    assert (code, out.count("\n")) == (0, CLAIMS)
    assert "compared 11 points, 11 payloads, 11 vectors" in out
    assert verify(run.record.store.collection, "--dataset", str(folder))[0] == 0
    scores = without_hashes(run).scores.assign(recall=0.0)
    scores.to_parquet(run.folder / "scores.parquet")
    code, out, err = verify("latest")
    assert code == 2
    assert f"differs  {FOLLOW}: 0 of {len(scores)} rows are equal" in out
    assert f"1 of {CLAIMS} claims about latest do not hold" in err
