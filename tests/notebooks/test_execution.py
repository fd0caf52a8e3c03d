"""Every notebook runs headless, with its defaults on worker-runbooks and on platform-runbooks."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from evalkit.evaluation import evaluate
from evalkit.notebooks import notebook_parameters, run_notebook
from evalkit.reporting import NOTEBOOKS, run_id_of
from evalkit.runs import list_runs, load_run, write_run
from evalkit.settings import EvaluateSettings
from tests.conftest import copied, environment
from tests.notebooks.readable import assert_readable

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
DATASETS = ("worker-runbooks", "platform-runbooks")
ELSEWHERE = {
    ("compare-chunkings", "platform-runbooks"),
    ("evaluate", "platform-runbooks"),
    ("write-labels", "worker-runbooks"),
}
"""What tests/notebooks/test_evidence_notebooks.py runs."""

pytestmark = [pytest.mark.notebook, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def work(untouched_outputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs with both data sets indexed and two runs of each, the newer with a threshold."""
    folder = tmp_path_factory.mktemp("work") / "outputs"
    copied(untouched_outputs, folder)
    with environment(EVALKIT_OUTPUTS=str(folder)):
        for dataset in DATASETS:
            write_run(evaluate(EvaluateSettings.checked(dataset=dataset, ks=(1, 3, 5, 10), threshold=0.4)))
    return folder


def values_for(name: str, dataset: str) -> dict[str, object]:
    """Values that lead a notebook to a data set; runs by their ids."""
    runs = list_runs()
    newest, before = list(runs.loc[runs["dataset"] == dataset, "run_id"])[:2]
    wanted = {"dataset": dataset, "run": newest, "baseline": before, "candidate": newest}
    return {key: value for key, value in wanted.items() if key in notebook_parameters(name)}


@pytest.mark.parametrize(
    ("name", "dataset"),
    [
        (name, dataset)
        for name in NAMES
        for dataset in DATASETS
        if not (name in NOTEBOOKS and dataset == "worker-runbooks") and (name, dataset) not in ELSEWHERE
    ],
)
def test_a_notebook_runs_headless(work, tmp_path, monkeypatch, name, dataset):
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(work))
    executed = run_notebook(name, values_for(name, dataset), tmp_path / "out.ipynb", progress=False)
    assert_readable(executed)


def test_plain_papermill_runs_a_notebook_from_any_directory(work, tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(work))
    command = [sys.executable, "-m", "papermill", FOLDER / "index.ipynb", "out.ipynb", "--no-progress-bar"]
    done = subprocess.run(
        [*command, "-p", "dataset", "platform-runbooks"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    executed = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert_readable(executed)
    assert any("platform-runbooks" in str(cell.get("outputs")) for cell in executed.cells)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.ipynb"]


# The report comes last: another worker makes it at the start of the tests of browsers.


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_report_runs_its_notebooks_on_worker_runbooks(example_report, name):
    (report,) = example_report.glob("runs/*/report")
    assert_readable(nbformat.read(report / f"{name}.ipynb", as_version=4))


def test_the_report_is_whole_and_its_run_is_the_latest(example_report, monkeypatch):
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(example_report))
    run = load_run("latest")
    names = {path.name for path in (run.folder / "report").iterdir()}
    pages = {f"{name}{ending}" for name in NOTEBOOKS for ending in (".ipynb", ".html", ".code.html")}
    assert names == pages | {"report.html"}
    assert f"runs/{run.run_id}/report/report.html" in (example_report / "index.html").read_text(
        encoding="utf-8"
    )
    assert not (example_report / "failed").exists()
    assert [path.name for path in example_report.rglob(".tmp-*")] == []
    evaluated = nbformat.read(run.folder / "report" / "evaluate.ipynb", as_version=4)
    assert run_id_of(evaluated) == run.run_id
