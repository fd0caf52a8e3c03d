"""SIGKILL at every step of indexing: the collection is complete, or says that it is not and can be resumed."""

import json
import os
import subprocess
import sys

import pytest

from evalkit import paths
from tests.fakes.qdrant import FakeQdrant

POINTS = 11


@pytest.fixture(params=["embedded", pytest.param("server", marks=pytest.mark.server)])
def environment(request, tmp_path):
    shared = os.environ | {"PYTHONPATH": str(paths.root())}
    if request.param == "embedded":
        yield shared
        return
    with FakeQdrant(tmp_path / "engine") as server:
        yield shared | {"QDRANT_URL": server.url}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["anew", "recreate"])
def test_a_kill_at_any_step_leaves_a_collection_whole_or_resumable(environment, outputs, how):
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.killed_indexing", how],
        env=environment,
        cwd=paths.root(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    left = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(left) >= 7
    for one in left:
        assert one["status"] == 0, one
        assert one["points"] == POINTS, one
        match one["state"]:
            case None:
                assert one["collections"] == [], one
                assert (one["outcome"], one["sent"]) == ("created", POINTS), one
                assert "no collection" in one["evaluated"], one
            case "building":
                assert one["evaluated"] == "incomplete", one
                assert one["outcome"] == "resumed", one
            case "complete":
                assert one["evaluated"] == "evaluated", one
                assert (one["outcome"], one["sent"]) == ("unchanged", 0), one
    assert {one["state"] for one in left} == (
        {None, "building", "complete"} if how == "recreate" else {None, "building"}
    )
    if how == "anew":
        sent = {one["sent"] for one in left if one["outcome"] == "resumed"}
        assert sent == {0, 3, 7, POINTS}, "what is stored is not sent again"
    assert [
        path.name for path in (outputs / "collections").glob("*") if not path.name.startswith(".tmp-")
    ] in (
        [],
        left[-1]["collections"],
    )
