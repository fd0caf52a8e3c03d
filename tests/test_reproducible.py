"""The same inputs give the same bytes, from anywhere; and a run can be scored again from its rankings alone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from evalkit import paths
from evalkit.cli import app
from evalkit.comparison import compare
from evalkit.dataset import load_dataset
from evalkit.errors import InputError
from evalkit.rescoring import score_rankings_file, score_run_again
from evalkit.runs import TABLES, load_run, write_run
from tests.reported import figures_of

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "PYTHONHASHSEED": "4711",
    "TZ": "Pacific/Kiritimati",
    "LC_ALL": "C",
    "LANG": "C",
    "COLUMNS": "40",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
}


@pytest.mark.slow
def test_another_process_in_another_folder_gives_the_same_bytes_tables_and_drawings(example_runs, tmp_path):
    """Another order of hashes, time zone, language and working directory; indexed anew."""
    folder = tmp_path / "far" / "away"
    folder.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "reported.py"), "worker-runbooks"],
        env=os.environ | ELSEWHERE | {"EVALKIT_OUTPUTS": str(tmp_path / "other")},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    there, here = json.loads(done.stdout), figures_of(load_run(example_runs["worker-runbooks"]))
    assert [name for name in here if here[name] != there[name]] == []
    assert len(here) == len(there) == 32


@pytest.mark.parametrize(
    "dataset", ["worker-runbooks", pytest.param("platform-runbooks", marks=pytest.mark.thorough)]
)
def test_a_run_scored_again_from_its_rankings_has_equal_figures(example_runs, dataset, tmp_path, monkeypatch):
    run = load_run(example_runs[dataset])
    evaluation = score_run_again(run)
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path / "again"))
    again = write_run(evaluation)
    assert again.run_id != run.run_id
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(again, name), getattr(run, name))
        assert (again.folder / f"{name}.parquet").read_bytes() == (
            run.folder / f"{name}.parquet"
        ).read_bytes()
    assert again.record.dataset == run.record.dataset
    assert any(run.run_id in notice for notice in again.record.notices)
    assert set(compare(run, again).cases["verdict"]) == {"same"}


@pytest.fixture
def edited(example_runs, tmp_path):
    """A run and a copy of its data set to edit."""
    folder = tmp_path / "worker-runbooks"
    shutil.copytree(paths.dataset_folder("worker-runbooks"), folder)
    return load_run(example_runs["worker-runbooks"]), folder


def test_a_question_in_other_words_is_not_scored_by_old_rankings(edited):
    run, folder = edited
    cases = folder / "cases.yaml"
    question = load_dataset(folder).cases[0].question
    text = cases.read_text(encoding="utf-8")
    assert text.count(question) == 1
    cases.write_text(text.replace(question, f"{question.rstrip('?')} then?"), encoding="utf-8")
    with pytest.raises(InputError, match=r"1 question asked in other words.*evaluate anew"):
        score_run_again(run, str(folder))


def test_a_document_that_was_edited_is_said_and_nothing_is_called_verified(edited):
    run, folder = edited
    note = next(
        path for path in (folder / "documents").glob("*.md") if "document_type: note" in path.read_text()
    )
    note.write_text(note.read_text(encoding="utf-8") + "\nOne more sentence.\n", encoding="utf-8")
    record = score_run_again(run, str(folder)).record
    assert any("the documents are others than were searched then" in notice for notice in record.notices)
    assert run.record.checks.verification
    assert record.checks.verification == {}


def test_figures_beyond_the_longest_ranking_are_said(example_runs, tmp_path):
    run = load_run(example_runs["worker-runbooks"])
    file = tmp_path / "three.parquet"
    run.rankings[run.rankings["k"] == 3].to_parquet(file)
    notices = score_rankings_file(file, "worker-runbooks", (1, 3, 5)).record.notices
    assert any("no ranking is longer than 3: figures beyond are those at 3" in notice for notice in notices)
    notices = score_rankings_file(file, "worker-runbooks", (1, 3)).record.notices
    assert not any("no ranking is longer" in notice for notice in notices)


def test_the_command_scores_a_run_again_without_any_collection(example_runs, tmp_path, monkeypatch):
    run = load_run(example_runs["worker-runbooks"])
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path / "again"))
    result = CliRunner().invoke(app, ["evaluate", "--rankings", str(run.folder)])
    assert result.exit_code == 0, result.stderr
    pd.testing.assert_frame_equal(load_run("latest").scores, run.scores)
    assert not (tmp_path / "again" / "collections").exists()


@pytest.mark.thorough
def test_a_run_scored_again_and_again_stays_as_it_is(example_runs, tmp_path, monkeypatch):
    run = load_run(example_runs["worker-runbooks"])
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path / "again"))
    for _ in range(2):
        again = write_run(score_run_again(run))
        pd.testing.assert_frame_equal(again.scores, run.scores)
        run = again
