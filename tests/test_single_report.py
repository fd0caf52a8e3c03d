"""A notebook by itself: refused before a kernel starts, never over somebody's files, whole or not at all."""

import nbformat
import pytest
from bs4 import BeautifulSoup

from evalkit import reporting
from evalkit.errors import InputError
from evalkit.reporting import single_report


@pytest.fixture
def kernel(monkeypatch):
    """What would run in a kernel: a stored notebook with one heading; gives the values it was called with."""
    called = []

    def run(name, parameters, out, **_settings):
        called.append(dict(parameters))
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(f"# Made {name}")])
        nbformat.write(notebook, out)
        return notebook

    monkeypatch.setattr(reporting, "run_notebook", run)
    return called


def test_page_and_notebook_land_in_a_folder_of_their_own_and_replace_those_before(outputs, kernel):
    page = single_report("compare-chunkings", {"dataset": "x"}, texts={"ks": "[1, 2]", "dataset": "y"})
    assert kernel == [{"dataset": "y", "ks": [1, 2]}]
    assert page == outputs / "pages" / "compare-chunkings" / "compare-chunkings.html"
    assert "<title>Made compare-chunkings</title>" in page.read_text()
    assert 'href="pages/compare-chunkings/compare-chunkings.html"' in (outputs / "index.html").read_text()
    (back,) = [link["href"] for link in BeautifulSoup(page.read_text(), "html.parser").select("header a")]
    assert (page.parent / back).resolve() == (outputs / "index.html").resolve()
    page.write_text("old")
    assert "Made" in single_report("compare-chunkings", {}).read_text()
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "compare-chunkings.html",
        "compare-chunkings.ipynb",
    ]


def test_a_page_in_another_folder_is_not_listed(outputs, tmp_path, kernel):
    page = single_report("compare-chunkings", {}, folder=tmp_path / "elsewhere")
    assert "index.html" not in page.read_text()
    assert not (outputs / "index.html").exists()


def test_a_folder_with_other_files_is_never_replaced(tmp_path, kernel):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="holds something else than the page of compare-chunkings"):
        single_report("compare-chunkings", {}, folder=tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "keep"
    assert kernel == []


def test_unknown_names_are_refused_before_anything_runs(outputs):
    with pytest.raises(InputError, match="dateset: unknown; did you mean dataset"):
        single_report("compare-chunkings", {}, texts={"dateset": "x"}, progress=False)
    with pytest.raises(InputError, match="notebook 'compare-nothing'"):
        single_report("compare-nothing", {})
    assert not (outputs / "pages").exists()
