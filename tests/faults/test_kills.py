"""SIGKILL at every step of storing a run and rendering a report, and while the engine writes.

Kills at every step of indexing are in `test_killed_indexing`, kills of the vector cache in `test_vectors`.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest

from tests.processes import run_module

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What was left of runs and reports, a dictionary a kill; the last of each was not killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALKIT_OUTPUTS", str(tmp_path_factory.mktemp("killed") / "outputs"))
        return run_module("tests.faults.killed_writing", "files")


def test_a_run_is_whole_or_absent_and_latest_names_one_that_is_there(files):
    *left, last = (one for one in files if one["of"] == "run")
    assert last["signal"] == 0
    assert all(one["signal"] == signal.SIGKILL for one in left)
    assert len(left) >= 10
    # Absent up to the rename, whole from then on.
    appeared = [one["whole"] for one in left].index(True)
    assert {one["whole"] for one in left[:appeared]} == {None}
    assert {one["whole"] for one in left[appeared:]} == {True}
    assert all(one["latest"] for one in [*left, last])


def test_a_report_is_whole_or_absent_and_the_run_stays(files):
    *left, last = (one for one in files if one["of"] == "report")
    assert last["signal"] == 0
    assert len(left) >= 10
    whole = ["evaluate.html", "evaluate.ipynb", "report.html"]
    assert all(one["report"] in (None, whole) for one in [*left, last]), left
    assert {one["report"] is None for one in left} == {True, False}
    assert all(one["ends"] and one["run"] for one in [*left, last])


def test_a_kill_while_the_engine_writes_leaves_a_collection_that_ends_as_if_nothing_had_been():
    left = run_module("tests.faults.killed_writing", "engine")
    assert len(left) == 5
    for one in left:
        assert (one["signal"], one["states"], one["outcome"]) == (signal.SIGKILL, ["building"], "resumed"), (
            one
        )
        assert one["same"], one


SLEEP = "import os, pathlib, time\npathlib.Path(place).write_text(str(os.getpid()))\ntime.sleep(600)"
RUN = """
import sys
from pathlib import Path
from evalkit.notebooks import run_notebook
run_notebook(Path(sys.argv[1]), {"place": sys.argv[2]}, Path(sys.argv[3]), progress=False)
"""


@pytest.mark.notebook
def test_a_kill_while_a_notebook_runs_ends_its_kernel_and_leaves_nothing(tmp_path, outputs):
    declared = nbformat.v4.new_code_cell('place: str = ""  # where', metadata={"tags": ["parameters"]})
    notebook = nbformat.v4.new_notebook(cells=[declared, nbformat.v4.new_code_cell(SLEEP)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "probe.ipynb")
    place, out = tmp_path / "pid", tmp_path / "out" / "probe.ipynb"
    with tempfile.TemporaryDirectory() as scratch:  # names of sockets are in it, which have to be short
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(tmp_path / "probe.ipynb"), str(place), str(out)],
            env=os.environ | {"TMPDIR": scratch},
            cwd=ROOT,
        )
        try:
            wait_for(lambda: place.exists() and place.read_text())
        finally:
            process.kill()
            process.wait()
        kernel = int(place.read_text())
        wait_for(lambda: not is_running(kernel))
    assert not out.exists()
    assert not outputs.exists()


def wait_for(condition) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def is_running(pid: int) -> bool:
    """Whether a process is at work; one that has ended and waits to be collected is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
