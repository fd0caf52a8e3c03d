"""Pages hold everything they show, let nothing out, escape what came from data, and lead to the evidence."""

import base64

import nbformat
import pytest
from bs4 import BeautifulSoup

from evalkit.pages import NotebookPage, front_page, notebook_page
from evalkit.runs import Run
from tests.htmlparts import assert_self_contained
from tests.smallruns import small_run

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)"><b'
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nnot really").decode()


def code_cell(*outputs, source="secret_source = 1"):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs), execution_count=1)


def shown(data, **metadata):
    return nbformat.v4.new_output("display_data", data=data, metadata=metadata)


def page_of(*cells, name="evaluate", title="# Evaluate\n\nDoes it *find* all?"):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(title), *cells])
    return NotebookPage(name, notebook)


def rendered(run, *cells, code=False):
    page = page_of(*cells)
    return BeautifulSoup(
        notebook_page(page, run, [page, page_of(name="index", title="# Index")], code=code), "html.parser"
    )


@pytest.fixture
def run() -> Run:
    return small_run({"all": [1, 2], "half": [1, None]}, unsupported={"none": True})


def test_a_notebook_page_has_title_contents_links_and_no_code(run):
    soup = rendered(
        run,
        nbformat.v4.new_markdown_cell("## Verdict\n\ntext"),
        code_cell(nbformat.v4.new_output("stream", name="stdout", text="plain words")),
        nbformat.v4.new_markdown_cell("## Detail\n\n## Detail"),
    )
    assert_self_contained(soup)
    assert soup.title.string == f"Evaluate · small · {run.run_id}"
    assert "secret_source" not in soup.get_text()
    assert "plain words" in soup.main.get_text()
    listed = [(link["href"], link.get_text()) for link in soup.select(".contents a")]
    assert listed == [("#Verdict", "Verdict"), ("#Detail", "Detail"), ("#Detail-2", "Detail")]
    assert soup.select_one("#Detail-2 .anchor-link")["href"] == "#Detail-2"
    assert soup.select_one("#Detail .anchor-link")["aria-label"] == "Link to Detail"
    links = {link.get_text(): link["href"] for link in soup.select("header a")}
    assert links == {"All runs": "../../../index.html", "Report": "report.html", "Index": "index.html"}
    assert soup.select_one('header [aria-current="page"]').get_text() == "Evaluate"


def test_code_is_shown_on_request_with_its_style(run):
    soup = rendered(run, code_cell(), code=True)
    assert_self_contained(soup)
    assert "secret_source" in soup.main.get_text()
    assert ".highlight" in soup.style.string


def test_images_carry_the_alt_text_of_their_output(run):
    described = shown(
        {"image/png": PNG, "text/plain": "x"}, **{"image/png": {"alt": 'a "b" <c>', "width": 768}}
    )
    soup = rendered(run, code_cell(described), code_cell(shown({"image/png": PNG + "\n"})))
    assert_self_contained(soup)
    first, second = soup.select("img")
    assert (first["alt"], first["width"]) == ('a "b" <c>', "768")
    assert second["alt"] == "Figure without a description"


def test_wide_tables_scroll_in_a_box_that_the_keyboard_reaches(run):
    plain = "<table><caption>Means</caption><tr><td>1</td></tr></table>"
    boxed = f'<div class="ek-scroll" tabindex="0">{plain}</div>'
    soup = rendered(run, code_cell(shown({"text/html": plain})), code_cell(shown({"text/html": boxed})))
    (box,) = soup.select(".scroll")
    assert (box["tabindex"], box["role"], box["aria-label"]) == ("0", "region", "Means")
    assert len(soup.select(".ek-scroll table")) == 1


def test_scripts_and_widgets_of_notebooks_do_not_reach_a_page(run):
    view = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "m", "version_major": 2},
        "text/plain": "Slider()",
    }
    page = page_of(code_cell(shown({"application/javascript": "fetch('http://x')"})), code_cell(shown(view)))
    state = {"state": {"m": {}}, "version_major": 2, "version_minor": 0}
    page.notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": state}
    soup = BeautifulSoup(notebook_page(page, run, [page]), "html.parser")
    assert_self_contained(soup)
    assert "fetch" not in soup.main.decode()
    assert "An interactive control stands here in JupyterLab" in soup.main.get_text()


def test_text_outputs_and_names_are_escaped(run):
    stream = nbformat.v4.new_output("stream", name="stdout", text=HOSTILE)
    failed = nbformat.v4.new_output("error", ename="E", evalue=HOSTILE, traceback=[HOSTILE])
    soup = rendered(run, code_cell(stream, shown({"text/plain": HOSTILE}), failed))
    assert_self_contained(soup)
    assert soup.main.get_text().count(HOSTILE) == 3
    assert soup.select("main script, main img, main b") == []


def test_the_front_page_leads_from_a_case_to_its_evidence(run):
    notebooks = [page_of(), page_of(name="index", title="# Index")]
    soup = BeautifulSoup(front_page(run, notebooks, code=True), "html.parser")
    assert_self_contained(soup)
    assert "1 of 2 questions lack some of their required facts in the first 3 results" in soup.main.get_text()
    assert [link["href"] for link in soup.select('main a[href*="#case-"]')] == ["evaluate.html#case-half"]
    assert "Does it find all?" in soup.select_one("#reports + ul").get_text()
    targets = {link["href"] for link in soup.select("#reports + ul a")}
    assert targets == {
        f"{name}{ending}" for name in ("evaluate", "index") for ending in (".html", ".code.html", ".ipynb")
    }
    assert run.record.dataset.labels_sha256 in soup.get_text()
    plain = BeautifulSoup(front_page(run, notebooks), "html.parser")
    assert plain.select('a[href$=".code.html"]') == []


def test_names_of_data_sets_cannot_break_out_of_a_page():
    dataset = {"name": HOSTILE, "version": HOSTILE}
    run = small_run({"a": [1]})
    record = run.record.model_copy(update={"dataset": run.record.dataset.model_copy(update=dataset)})
    hostile = Run(run.run_id, run.folder, record)
    for text in (front_page(hostile, [page_of()]), notebook_page(page_of(), hostile, [])):
        soup = BeautifulSoup(text, "html.parser")
        assert_self_contained(soup)
        assert HOSTILE in soup.title.string
        assert HOSTILE in soup.body.get_text()
