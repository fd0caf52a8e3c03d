"""compare-runs without parameters after a single run, and its refusal of runs that cannot be compared."""

import pytest

from evalkit.errors import InputError
from evalkit.notebooks import run_notebook
from tests.smallruns import small_run

pytestmark = [pytest.mark.notebook, pytest.mark.slow]


def test_defaults_compare_a_single_run_with_itself_and_say_so(outputs, tmp_path):
    small_run({"a": [1], "b": [4]}, unsupported={"x": True})
    executed = run_notebook("compare-runs", {}, tmp_path / "out.ipynb", progress=False)
    (verdict,) = [cell for cell in executed.cells if cell.get("id") == "verdict"]
    shown = "".join(output["data"]["text/html"] for output in verdict.outputs)
    assert "Baseline and candidate are the same run" in shown
    assert "complete@3 is the same for every case" in shown


def test_incomparable_runs_end_with_every_reason(outputs, tmp_path):
    baseline = small_run({"a": [1]})
    small_run({"a": [1]}, dataset={"labels_sha256": "0" * 64}, search={"ks": (5,)})
    with pytest.raises(InputError, match=r"(?s)labels: another truth.*K: baseline \[1, 3\], candidate \[5\]"):
        run_notebook("compare-runs", {"baseline": baseline.run_id}, tmp_path / "out.ipynb", progress=False)
    assert not (tmp_path / "out.ipynb").exists()
