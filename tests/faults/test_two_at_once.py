"""Two processes on one collection: both end right, one after the other where only one can write."""

import json
import os
import subprocess
import sys

import pytest

from evalkit import paths
from tests.fakes.qdrant import FakeQdrant


@pytest.fixture(params=["embedded", pytest.param("server", marks=pytest.mark.server)])
def environment(request, tmp_path):
    shared = os.environ | {"PYTHONPATH": str(paths.root())}
    if request.param == "embedded":
        yield shared
        return
    with FakeQdrant(tmp_path / "engine") as server:
        yield shared | {"QDRANT_URL": server.url}


@pytest.mark.slow
def test_two_that_index_and_evaluate_at_once_both_end_right(environment):
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.two_at_once", "2"],
        env=environment,
        cwd=paths.root(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one.get("text") for one in said] == [None, None]
    assert {one["points"] for one in said} == {352}
    assert said[0]["complete"] == said[1]["complete"]
    assert said[0]["rankings"] == said[1]["rankings"] == 132 * 3
    assert "created" in {one["outcome"] for one in said}
