"""Pages hold everything they show, let nothing out, escape what came from data, and lead to the evidence."""

import base64
import hashlib
import re

import nbformat
import pandas as pd
import pytest
from bs4 import BeautifulSoup

from evalkit.pages import NotebookPage, front_page, notebook_page, overview_page, trend_tables
from evalkit.plots.trends import metric_trends
from evalkit.runs import Run
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


def assert_self_contained(soup):
    for element in soup.select("[src]"):
        assert element["src"].startswith("data:")
    assert soup.select("link, iframe, object, embed, base, form") == []
    policy = soup.select_one('meta[http-equiv="Content-Security-Policy"]')["content"]
    (script,) = soup.select("script")
    digest = base64.b64encode(hashlib.sha256(script.string.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert soup.html["lang"] == "en"
    assert soup.title.string
    assert len(soup.select("main")) == len(soup.select("h1")) == 1
    assert all(image["alt"] for image in soup.select("img"))
    ids = [element["id"] for element in soup.select("[id]")]
    assert len(ids) == len(set(ids))
    for link in soup.select("a[href]"):
        assert re.fullmatch(r"(#|[\w./-]+\.(html|ipynb)(#|$)).*", link["href"]), link


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


def test_an_overview_without_runs_says_how_to_make_one():
    soup = BeautifulSoup(overview_page(), "html.parser")
    assert_self_contained(soup)
    assert "evalkit report" in soup.main.get_text()


def test_the_overview_lists_runs_newest_first_and_names_what_it_cannot_read():
    older, newer = (small_run({"all": [1, 2], "half": [1, second]}) for second in (None, 3))
    damaged = small_run({"all": [1]})
    (damaged.folder / "run.json").write_text("{", encoding="utf-8")
    (newer.folder / "report").mkdir()
    (newer.folder / "report" / "report.html").write_text("x", encoding="utf-8")
    soup = BeautifulSoup(overview_page(), "html.parser")
    assert_self_contained(soup)
    rows = [row.get_text(" ", strip=True) for row in soup.select("#runs ~ .scroll tbody tr")]
    order = sorted([older.run_id, newer.run_id], reverse=True)
    assert [next(one for one in order if one in row) for row in rows] == order
    by_id = {one: row for one in order for row in rows if one in row}
    assert "no report" in by_id[older.run_id]
    assert by_id[newer.run_id].endswith("3 2 1.000 1.000 1.000 0.960 1.000 0.667")
    links = [link["href"] for link in soup.select("tbody a")]
    assert links == [f"runs/{newer.run_id}/report/report.html"]
    assert str(damaged.folder / "run.json") in soup.select_one("#damaged ~ ul").get_text()
    assert "small, version 1" in soup.select_one("h3").get_text()
    assert "2 runs" in soup.select_one("h3 + figure img")["alt"]


def test_trends_hold_only_runs_of_equal_data_cases_and_labels():
    runs = [
        small_run({"a": [1]}),
        small_run({"a": [2]}),
        small_run({"a": [3]}, dataset={"labels_sha256": "f" * 64}),
    ]
    ((title, table),) = trend_tables(reversed(runs)).items()
    assert title == "small, version 1, cases aaaaaaaa, labels bbbbbbbb: 2 runs"
    expected = sorted(run.run_id for run in runs[:2])
    assert list(dict.fromkeys(table["run_id"])) == expected


def test_no_trend_is_left_out_when_cases_differ_and_labels_do_not():
    runs = [small_run({"a": [1]}, dataset={"cases_sha256": letter * 64}) for letter in "eeff"]
    assert [len(table["run_id"].unique()) for table in trend_tables(runs).values()] == [2, 2]


def test_runs_without_an_answerable_question_are_listed_and_have_no_trend():
    runs = [small_run({}, unsupported={"u": True}) for _ in range(2)]
    assert trend_tables(runs) == {}
    assert len(BeautifulSoup(overview_page(), "html.parser").select("#runs ~ .scroll tbody tr")) == 2


def test_a_trend_chart_has_a_panel_a_measure_and_tells_its_ends():
    started = pd.Timestamp("2026-01-02T03:04:05Z")
    rows = [
        {"run_id": run, "started": started, "k": k, "n": 4, "coverage": None, "complete": None}
        | dict.fromkeys(("precision", "recall", "reciprocal_rank", "ndcg"), value)
        for run, value in (("r1", 0.25), ("r2", 0.5))
        for k in (1, 3)
        if (run, k) != ("r1", 3)
    ]
    figure, alt = metric_trends(pd.DataFrame(rows).astype({"coverage": float, "complete": float}))
    drawn = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in drawn] == ["precision", "recall", "MRR", "nDCG"]
    first, second = drawn[0].lines
    assert list(first.get_ydata()) == [0.25, 0.5]
    assert pd.isna(second.get_ydata()[0])
    assert second.get_ydata()[1] == 0.5
    assert "At K = 3, first to last run: precision from 0.500 to 0.500" in alt
