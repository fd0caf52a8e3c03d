"""Two processes on one collection: both end right, one after the other where only one can write."""

import pytest

from tests.processes import run_module


@pytest.mark.slow
def test_two_that_index_and_evaluate_at_once_both_end_right(engine):
    said = run_module("tests.faults.two_at_once", "2", environment=engine)
    assert [one.get("text") for one in said] == [None, None]
    assert {one["points"] for one in said} == {352}
    assert said[0]["complete"] == said[1]["complete"]
    assert said[0]["rankings"] == said[1]["rankings"] == 132 * 3
    assert "created" in {one["outcome"] for one in said}
