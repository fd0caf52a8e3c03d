import hashlib
import json
import shutil

import pandas as pd
import pytest

from evalkit.errors import InfrastructureError, InputError
from evalkit.evaluation import Evaluation
from evalkit.exchange import export_csv
from evalkit.runs import TABLES, list_runs, load_run, read_run, write_run
from tests.smallruns import small_run, without_hashes


@pytest.fixture
def evaluation(example_runs):
    run = load_run(example_runs["worker-runbooks"])
    return Evaluation(record=run.record, **{name: getattr(run, name) for name in TABLES})


def test_round_trip(evaluation, tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path))
    run = write_run(evaluation)
    monkeypatch.chdir(run.folder.parent)
    run.folder.with_name("baseline").symlink_to(run.folder)
    for ref in ("latest", run.run_id, str(run.folder), "baseline"):
        again = load_run(ref)
        assert again.record == evaluation.record
        for name in TABLES:
            pd.testing.assert_frame_equal(getattr(again, name), getattr(evaluation, name))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "runs"]


def test_list_is_newest_first(example_runs):
    runs = list_runs()
    assert list(runs["dataset"]) == ["worker-runbooks", "platform-runbooks"]
    assert runs["run_id"].is_monotonic_decreasing


def test_no_runs(outputs):
    assert list_runs().empty
    with pytest.raises(InputError, match="make report"):
        load_run("latest")


@pytest.mark.parametrize("ref", ["20260101T000000000Z-000000", "no-such", "../..", "", "latest/"])
def test_no_such_run(example_runs, ref):
    with pytest.raises(InputError):
        load_run(ref)


def test_a_damaged_run_is_named(example_runs, tmp_path):
    run = load_run(example_runs["worker-runbooks"])
    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy)
    (copy / "scores.parquet").write_bytes(b"PAR1 no parquet")
    with pytest.raises(InputError, match=r"scores\.parquet: cannot be read"):
        _ = read_run(copy).scores
    (copy / "run.json").write_text("{}")
    with pytest.raises(InputError, match=r"run\.json"):
        load_run(copy)


def test_unwritable_outputs_leave_nothing(evaluation, tmp_path, monkeypatch):
    blocker = tmp_path / "file"
    blocker.touch()
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(blocker))
    with pytest.raises(InfrastructureError, match="EVALKIT_OUTPUTS"):
        write_run(evaluation)


def test_csv(evaluation, example_runs, tmp_path):
    run = load_run(example_runs["worker-runbooks"])
    files = export_csv(run, tmp_path / "csv")
    assert sorted(path.name for path in files) == sorted(f"{name}.csv" for name in TABLES)
    assert len(pd.read_csv(tmp_path / "csv" / "scores.csv")) == len(run.scores)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_record_holds_the_hash_of_every_table():
    run = small_run({"a": [1, 2]})
    hashes = {name: sha256(run.folder / f"{name}.parquet") for name in TABLES}
    assert run.record.tables_sha256 == load_run(run.run_id).record.tables_sha256 == hashes


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_another_run_is_refused_with_both_hashes(name):
    run, other = small_run({"a": [1, 2]}), small_run({"a": [1, 9], "b": [1]}, unsupported={"u": True})
    file = run.folder / f"{name}.parquet"
    hashes = sha256(other.folder / file.name), sha256(file)
    shutil.copy(other.folder / file.name, file)
    with pytest.raises(InputError) as refused:
        load_run(run.run_id)
    assert "1 fault\n" in str(refused.value)
    assert f"{file}: SHA-256 is {hashes[0]}, when the run was stored it was {hashes[1]}" in str(refused.value)
    assert "evaluate again" in str(refused.value)


def test_a_table_that_is_gone_and_one_that_the_record_does_not_know_are_refused():
    run = small_run({"a": [1]})
    (run.folder / "deep.parquet").unlink()
    with pytest.raises(
        InputError, match=r"deep\.parquet: SHA-256 is unknown, No such file or directory, when"
    ):
        load_run(run.run_id)
    text = (run.folder / "run.json").read_text()
    (run.folder / "run.json").write_text(
        text.replace('"facts":"', '"fact":"').replace('"facts": "', '"fact": "')
    )
    with pytest.raises(InputError, match=r"(?s)2 faults.*facts\.parquet: .* it was not in run\.json"):
        load_run(run.run_id)


def test_a_run_without_hashes_can_be_read():
    run = without_hashes(small_run({"a": [1]}))
    assert run.record.tables_sha256 is None
    assert len(run.scores) == 2


@pytest.mark.parametrize(
    ("part", "values", "said"),
    [
        ("search", {"ks": []}, "search.ks: is empty; give at least one cutoff"),
        ("search", {"ks": [-1, 0]}, "search.ks[0]: should be greater than or equal to 1, found -1"),
        ("search", {"ks": [3, 3]}, "search.ks: must ascend without repeats, found [3, 3]"),
        ("search", {"ks": [3, 1]}, "search.ks: must ascend without repeats, found [3, 1]"),
        ("search", {"ks": "1"}, "search.ks: "),
        ("search", {"threshold": float("nan")}, "search.threshold: should be a finite number"),
        ("parameters", None, "parameters: names no data set under 'dataset', found {}"),
        ("parameters", {"dataset": 3}, "parameters: names no data set"),
        ("tables_sha256", {"facts": "../x"}, "tables_sha256.facts: "),
    ],
)
def test_a_faulty_field_of_a_record_is_named(part, values, said):
    run = small_run({"a": [1]})
    path = run.folder / "run.json"
    record = json.loads(path.read_text())
    record[part] = {} if values is None else record[part] | values
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"\d faults?\n") as refused:
        load_run(run.run_id)
    assert str(refused.value).startswith(f"{path}: not a run record: ")
    assert f"\n- {said}" in str(refused.value)
    assert "evaluate again" in str(refused.value)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"run_id": ' + b"9" * 5000 + b"}"]
)
def test_a_record_that_is_none_is_refused(content):
    run = small_run({"a": [1]})
    (run.folder / "run.json").write_bytes(content)
    with pytest.raises(InputError, match=r"run\.json: not a run record: \d+ faults?\n- "):
        load_run(run.run_id)
