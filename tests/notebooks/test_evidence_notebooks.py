"""Notebooks about evidence, run headless: chunkings compared, contexts followed, labels written."""

import nbformat
import pytest

from evalkit.notebooks import run_notebook
from evalkit.reporting import single_report
from tests.notebooks.readable import assert_readable

pytestmark = pytest.mark.notebook


def run(name, out, **parameters):
    return run_notebook(name, parameters, out / f"{name}.ipynb", progress=False)


def shown(notebook, cell, kind="text/html"):
    (found,) = [one for one in notebook.cells if one.get("id") == cell]
    return "\n".join(output["data"].get(kind, "") for output in found.outputs if "data" in output)


def test_compare_chunkings(own_outputs, tmp_path):
    given = {"dataset": "platform-runbooks", "ks": [1, 5, 12]}
    page = single_report("compare-chunkings", given, texts={"budgets": "[160]"}, progress=False)
    assert page == own_outputs / "pages" / "compare-chunkings" / "compare-chunkings.html"
    html = page.read_text(encoding="utf-8")
    assert "<title>Compare chunkings</title>" in html
    assert 'alt="Line chart of evidence found over words of context, 90 cases.' in html
    assert "evaluate_chunkings" not in html  # code is hidden
    notebook = nbformat.read(page.with_suffix(".ipynb"), 4)
    assert_readable(notebook)
    verdict = shown(notebook, "verdict")
    assert "No chunking is shown to find more complete evidence" in verdict
    assert "At 160 words paragraphs-v1 has all facts of 77.8% of 90 questions" in verdict
    assert "K = 5: 244 words, coverage 0.900, complete 0.867" in shown(notebook, "figure", "text/plain")
    assert "delete-blocking-pod" in shown(notebook, "changed")
    assert "No chunking cuts a quote apart" in shown(notebook, "lost")


def test_evaluate_follows_the_evidence_into_the_context_when_asked(own_outputs, tmp_path):
    options = {"context_words": 200, "context_similarity": 0.9, "context_merge": True}
    notebook = run("evaluate", tmp_path, dataset="platform-runbooks", **options)
    assert_readable(notebook)
    text = shown(notebook, "context")
    assert "121 of 140 required facts reach the model; 76 of 90 questions have all of theirs." in text
    assert "within budget: 121 left, 2 lost, 76 of 90 cases whole" in shown(notebook, "context", "text/plain")
    assert 'href="#case-password-in-logs"' in shown(notebook, "context-lost")


def test_write_labels_shows_the_queue_and_says_what_needs_a_kernel(own_outputs, tmp_path):
    notebook = run("write-labels", tmp_path)
    assert_readable(notebook)
    assert "Every returned passage of an answerable question is judged" in shown(notebook, "queue")
    assert "open notebooks/write-labels.ipynb in JupyterLab" in shown(notebook, "live")
    (label,) = [cell for cell in notebook.cells if cell.get("id") == "label"]
    assert "application/vnd.jupyter.widget-view+json" in label.outputs[0]["data"]
