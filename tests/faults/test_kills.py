"""SIGKILL at every step of storing a run and rendering a report, and while the engine writes.

Kills at every step of indexing are in `test_killed_indexing`, kills of the vector cache in `test_vectors`.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def killed(what: str) -> list[dict]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.killed_writing", what],
        env=dict(os.environ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What was left of runs and reports, a dictionary a kill; the last of each was not killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALKIT_OUTPUTS", str(tmp_path_factory.mktemp("killed") / "outputs"))
        return killed("files")


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
    left = killed("engine")
    assert sum(one["signal"] == signal.SIGKILL for one in left) >= 3, left
    for one in left:
        assert one["same"], one
        # Nothing between dropping the old collection and creating the new one.
        expected = {"complete": "unchanged", "building": "resumed"}
        assert one["outcome"] == (expected[one["states"][0]] if one["states"] else "created"), one
