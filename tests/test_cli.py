"""The command line as a user types it: outputs, refusals, exit codes."""

import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evalkit import paths
from evalkit.cli import app, main
from evalkit.runs import load_run
from tests.fakes.qdrant import FakeQdrant


def invoked(*arguments):
    """Run the command; gives exit code, standard output and error."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def reading(example_runs, example_outputs):
    """The command on the example outputs, which all tests share and none may change."""
    before = sorted(example_outputs.glob("*/*")), (example_outputs / "latest").read_text()
    yield invoked
    assert (sorted(example_outputs.glob("*/*")), (example_outputs / "latest").read_text()) == before


@pytest.fixture
def evalkit(own_outputs):
    """The command on a copy of the example outputs."""
    return invoked


def test_help_names_every_command(reading):
    code, out, _ = reading("--help")
    assert code == 0
    for command in "index evaluate record report labels compare gate verify score export import".split():
        assert command in out


def test_index_and_evaluate_print_the_headline(evalkit):
    code, out, _ = evalkit("index")
    assert (code, "nothing embedded, nothing sent" in out) == (0, True)
    code, out, _ = evalkit("evaluate")
    assert code == 0
    assert "1      1.000   0.857 1.000 1.000     0.929     0.857  7        7" in out
    assert "unsupported questions accepted at K=5: 2 of 2" in out
    assert load_run("latest").run_id in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["evaluate", "--k", "0"], "greater than or equal to 1"),
        (["evaluate", "--k", "three"], "wanted whole numbers"),
        (["evaluate", "--threshold", "2"], "scores are cosines, from -1 to 1"),
        (["evaluate", "--dataset", "no-such"], "worker-runbooks"),
        (["evaluate", "--embedder", "openai"], "'recorded' or 'ollama'"),
        (["evaluate", "--model", "other"], "recorded"),
        (["evaluate", "--rankings", "latest", "--threshold", "0.5"], "threshold would do nothing"),
        (["evaluate", "--rankings", "latest", "--k", "2"], "leave these out"),
        (["evaluate", "--bogus", "1"], "No such option"),
        (["gate", "latest"], "nothing to check"),
        (["gate", "latest", "--min", "complete@7=0.5"], "complete@7"),
        (["compare", "20260101T000000000Z-000000"], "newest runs"),
        (["export", "latest", "folder"], "wanted one of --trec"),
        (["report", "-p", "novalue"], "NAME=VALUE"),
        (["report", "-p", "kss=[1]"], "kss"),
        (["labels", "check", "no-such"], "worker-runbooks"),
        (["score", "missing.trec", "missing.qrels"], "missing"),
    ],
)
def test_invalid_input_exits_with_2_and_says_what_to_do(reading, arguments, text):
    code, _, err = reading(*arguments)
    assert code == 2
    assert text in err


def test_a_server_that_is_not_there_exits_with_3(reading, monkeypatch):
    monkeypatch.setattr("evalkit.transport.FIRST_PAUSE", 0.001)
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    code, _, err = reading("index", "--embedder", "ollama")
    assert code == 3
    assert "ollama serve" in err


def test_interrupt_exits_with_130(reading, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("evalkit.evaluation.load_labelled", interrupted)
    assert reading("evaluate")[0] == 130


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["evaluate"], 70, "KeyError: 'no such key, <OLLAMA_API_KEY>'"),
        (["evaluate", "--k", "0"], 2, "InputError: settings"),
        (["evaluate", "--bogus", "1"], 2, "No such option"),
        (["--help"], 0, ""),
    ],
)
def test_a_crash_has_an_exit_code_of_its_own_and_a_traceback_without_secrets(
    monkeypatch, capsys, arguments, code, said
):
    def broken(*_):
        raise KeyError("no such key, s3cr3t-value")

    monkeypatch.setenv("OLLAMA_API_KEY", "s3cr3t-value")
    monkeypatch.setattr("evalkit.evaluation.load_labelled", broken)
    monkeypatch.setattr("sys.argv", ["evalkit", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    shown = capsys.readouterr().err
    assert said in shown
    assert "s3cr3t" not in shown
    crashed = code == 70
    assert ("Traceback" in shown) is crashed
    assert ("defect of evalkit 0" in "".join(shown.splitlines()[-1:])) is crashed


def test_gate_passes_misses_and_writes_its_files(reading, tmp_path):
    junit, summary = tmp_path / "gate.xml", tmp_path / "gate.md"
    bounds = ("--min", "complete@3=0.95", "--min", "recall@5=0.9", "--junit", junit, "--summary", summary)
    code, out, _ = reading("gate", "latest", *bounds)
    assert (code, out.count(", met")) == (0, 2)
    code, _, err = reading("gate", "latest", *bounds, "--max-false-acceptance", "0.1")
    assert code == 1
    assert "CriteriaNotMet" in err
    assert len(ET.parse(junit).getroot().findall(".//testcase")) == 3
    assert len(ET.parse(junit).getroot().findall(".//failure")) == 1
    assert "not met" in summary.read_text()


@pytest.mark.thorough
def test_compare_shows_what_differs(evalkit):
    baseline = load_run("latest").run_id
    assert evalkit("evaluate", "--k", "1,3,5,10", "--threshold", "0.6")[0] == 0
    code, out, _ = evalkit("compare", baseline)
    assert code == 0
    assert "threshold" in out
    assert "drain-deadline: ranks lower" in out


def test_verify_shows_a_run_and_sees_a_changed_score(evalkit):
    run = load_run("latest")
    code, out, _ = evalkit("verify", run.run_id)
    assert code == 0
    assert "differs" not in out
    scores = run.scores.assign(recall=0.5)
    scores.to_parquet(run.folder / "scores.parquet")
    code, out, err = evalkit("verify", run.run_id)
    assert code == 2
    assert "differs  tables of the run are those that were stored with it" in out
    assert "1 of" in err


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [
        ("gate", "latest", "--min", "recall@1=0"),
        ("gate", "{other}", "--baseline", "latest", "--max-drop", "recall@1=1"),
        ("compare", "latest"),
        ("compare", "latest", "{other}"),
        ("export", "latest", "{folder}", "--csv"),
        ("evaluate", "--rankings", "latest"),
    ],
)
def test_every_command_refuses_a_run_with_a_table_of_another(evalkit, command, tmp_path):
    run, folder = load_run("latest"), tmp_path / "out"
    other = ""
    if any("{other}" in part for part in command):
        assert evalkit("evaluate", "--k", "1,3,5,10")[0] == 0
        other = load_run("latest").run_id
        (run.folder.parent.parent / "latest").write_text(run.run_id)
    shutil.copy(run.folder / "facts.parquet", run.folder / "judgments.parquet")
    code, _, err = evalkit(*(part.format(other=other, folder=folder) for part in command))
    assert code == 2
    assert f"{run.folder}/judgments.parquet: SHA-256 is " in err
    assert not folder.exists()


def test_verify_a_collection(reading):
    collection = load_run("latest").record.store.collection
    code, out, _ = reading("verify", collection, "--dataset", "worker-runbooks", "--all")
    assert code == 0
    assert "compared 11 points, 11 payloads, 11 vectors" in out
    code, _, _ = reading("verify", collection, "--dataset", "platform-runbooks")
    assert code == 2


@pytest.mark.thorough
def test_verify_a_collection_by_vectors_of_a_folder_of_their_own(reading, tmp_path):
    collection = load_run("latest").record.store.collection
    verify = ("verify", collection, "--dataset", "worker-runbooks", "--embeddings", tmp_path / "ours")
    code, _, err = reading(*verify)
    assert (code, f"{tmp_path}/ours: no such folder" in err) == (2, True)
    shutil.copytree(paths.embeddings_folder(), tmp_path / "ours")
    assert reading(*verify)[0] == 0
    model = tmp_path / "ours" / "model.json"
    model.write_text(re.sub(r'"digest": "[^"]*"', '"digest": "sha256:other"', model.read_text()))
    code, out, _ = reading(*verify)
    assert code == 2
    assert "differs  collection was embedded by this model and profile" in out
    assert "sha256:other" in out


@pytest.mark.thorough
def test_rankings_of_a_run_and_of_a_file_give_equal_scores(evalkit, tmp_path):
    first = load_run("latest")
    assert evalkit("evaluate", "--rankings", first.run_id)[0] == 0
    again = load_run("latest")
    assert again.run_id != first.run_id
    assert evalkit("export", first.run_id, tmp_path / "trec", "--trec")[0] == 0
    assert evalkit("evaluate", "--rankings", tmp_path / "trec" / "run.trec", "--k", "1,3,5,10")[0] == 0
    from_file = load_run("latest")
    assert from_file.record.store.kind == "file"
    for run in (again, from_file):
        assert run.scores.equals(first.scores)
        assert run.facts.equals(first.facts)


def test_score_and_export_agree(reading, tmp_path):
    assert reading("export", "latest", tmp_path / "trec", "--trec")[0] == 0
    files = (tmp_path / "trec" / "run.trec", tmp_path / "trec" / "qrels.trec")
    code, out, _ = reading("score", *files, "--k", "1,3", "--json")
    assert code == 0
    means = json.loads(out)["means"]
    assert [round(row["recall"], 3) for row in means] == [0.857, 1.0]
    assert reading("export", "latest", tmp_path / "csv", "--csv")[0] == 0
    assert (tmp_path / "csv" / "scores.csv").is_file()


def test_a_beir_folder_becomes_a_data_set(reading, tmp_path):
    beir = tmp_path / "beir"
    assert reading("export", "latest", beir, "--beir")[0] == 0
    target = tmp_path / "imported"
    code, out, _ = reading("import", beir, target)
    assert code == 0
    assert "7 cases" in out
    assert reading("labels", "check", target)[0] == 0


def test_labels_pool_of_complete_judgments_is_empty(reading):
    code, out, _ = reading("labels", "pool", "worker-runbooks")
    assert code == 0
    assert out.rstrip().endswith("[]")


def test_labels_check_diff_accept(reading, tmp_path):
    folder = tmp_path / "copied"
    source = Path(__file__).parent.parent / "data" / "worker-runbooks"
    shutil.copytree(source, folder)
    assert reading("labels", "check", folder)[0] == 0
    document = folder / "documents" / "worker-shutdown.md"
    document.write_text(
        document.read_text().replace(
            "complete the channel writer first", "complete the channel writer first of all"
        )
    )
    code, out, err = reading("labels", "check", folder)
    assert code == 2
    assert "changed" in out
    assert f"0 faults and 2 changed texts in data set {folder}" in err
    assert f"`evalkit labels accept {folder}`" in err
    code, out, _ = reading("labels", "diff", folder)
    assert "{+of all" in out.replace("\n", " ") or "of all" in out
    assert reading("evaluate", "--dataset", folder)[0] == 2
    assert reading("labels", "accept", folder)[0] == 0
    assert reading("labels", "check", folder)[0] == 0


def test_gate_wants_enough_cases(reading):
    assert reading("gate", "latest", "--min-cases", "7")[0] == 0
    code, _, err = reading("gate", "latest", "--min", "complete@3=0.5", "--min-cases", "8")
    assert code == 1
    assert "min_cases: found 7, wanted >= 8 (n = 7)" in err
    assert reading("gate", "latest", "--min-cases", "0")[0] == 2


def test_gate_at_another_k(reading):
    code, out, _ = reading("gate", "latest", "--max-false-acceptance", "1", "--k", "3")
    assert code == 0
    assert "max_false_acceptance@3" in out


def test_index_shows_how_far_it_is_and_how_fast(evalkit):
    code, out, err = evalkit("index", "--collection", "anew")
    assert code == 0
    assert "points written" in out
    assert "11/11" in err
    assert "chunks/s" in err
    assert "11/11" not in evalkit("index", "--collection", "anew")[2]


@pytest.mark.thorough
def test_a_damaged_collection_is_named_and_written_anew_on_request(evalkit):
    run = load_run("latest")
    folder = run.folder.parents[1] / "collections" / run.record.store.collection
    shutil.rmtree(folder / "shard")
    for command in ("index", "evaluate"):
        code, _, err = evalkit(command)
        assert code == 2
        assert f"collection folder {folder} is damaged, it holds no shard/" in err
        assert "--recreate" in err
    assert evalkit("index", "--recreate")[0] == 0
    assert evalkit("evaluate")[0] == 0


@pytest.mark.server
def test_the_layout_of_a_collection_reaches_the_server(evalkit, tmp_path, monkeypatch):
    layout = {"shards": 3, "replicas": 2, "vectors_on_disk": True, "quantized": True, "hnsw_m": 8}
    given = [f"--server={name}={str(value).lower()}" for name, value in layout.items()]
    with FakeQdrant(tmp_path / "engine") as server:
        monkeypatch.setenv("QDRANT_URL", server.url)
        code, _, err = evalkit("index", *given, "--server", "hnsw_ef_construct=32", "--server", "parallel=2")
        assert code == 0, err
        made = next(one.body for one in server.requests if one.method == "PUT")
    assert (made["shard_number"], made["replication_factor"]) == (3, 2)
    assert made["vectors"]["on_disk"] is True
    assert made["hnsw_config"] == {"m": 8, "ef_construct": 32}
    assert made["quantization_config"]["scalar"]["type"] == "int8"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("shards", "wanted NAME=VALUE, such as shards=3"),
        ("shards=many", "'many'"),
        ("shards=0", "greater than or equal to 1"),
        ("quantized=perhaps", "quantized"),
        ("shard=3", "did you mean shards?"),
        ("recreate=true", "unknown field recreate"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(reading, given, text):
    code, _, err = reading("index", "--server", given)
    assert code == 2
    assert text in err
