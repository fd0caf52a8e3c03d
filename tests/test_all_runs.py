"""The overview of all runs: a row a run, trends of equal settings, pages beside the runs."""

import os

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from evalkit.all_runs import overview_page, trends
from evalkit.plots.trends import metric_trends
from tests.htmlparts import assert_self_contained
from tests.smallruns import small_run


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
    assert (
        f"small, version 1 {newer.run_id} 3 2 1.000 1.000 1.000 0.960 1.000 0.667 m (rec"
        in by_id[newer.run_id]
    )
    links = [link["href"] for link in soup.select("tbody a")]
    assert links == [f"runs/{newer.run_id}/report/report.html"]
    assert str(damaged.folder / "run.json") in soup.select_one("#damaged ~ ul").get_text()
    assert "small, version 1" in soup.select_one("h3").get_text()
    assert "2 runs" in soup.select_one("h3 + p + figure img")["alt"]


def test_trends_hold_only_runs_of_equal_data_cases_and_labels():
    runs = [
        small_run({"a": [1]}),
        small_run({"a": [2]}),
        small_run({"a": [3]}, dataset={"labels_sha256": "f" * 64}),
    ]
    ((title, details, table),) = trends(reversed(runs))
    assert title == "small, version 1; m (recorded); paragraphs-v1; accepted by: anything returned; 2 runs"
    assert details.startswith("Cases aaaaaaaa, labels bbbbbbbb, model digest ")
    expected = sorted(run.run_id for run in runs[:2])
    assert list(dict.fromkeys(table["run_id"])) == expected


def test_no_trend_is_left_out_when_cases_differ_and_labels_do_not():
    runs = [small_run({"a": [1]}, dataset={"cases_sha256": letter * 64}) for letter in "eeff"]
    assert [len(trend.table["run_id"].unique()) for trend in trends(runs)] == [2, 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"search": {"threshold": 0.5}},
        {"chunking": "section-paragraphs-80w-overlap1-v1"},
        {"model": {"digest": "c" * 64}},
        {"search": {"exact": True}},
    ],
)
def test_a_trend_never_joins_runs_of_different_settings(changes):
    runs = [small_run({"a": [1]}), small_run({"a": [2]}, **changes), small_run({"a": [3]})]
    (trend,) = trends(runs)
    assert set(trend.table["run_id"]) == {runs[0].run_id, runs[2].run_id}


@pytest.mark.thorough
def test_runs_of_different_settings_are_all_listed_and_have_one_trend():
    runs = [small_run({"a": [1]}), small_run({"a": [2]}, search={"threshold": 0.5}), small_run({"a": [3]})]
    soup = BeautifulSoup(overview_page(), "html.parser")
    assert [one.get_text() for one in soup.select("h3")] == [trends(runs)[0].title]
    assert len(soup.select("#runs ~ .scroll tbody tr")) == 3


def test_notebooks_run_by_themselves_are_listed_with_their_time(outputs):
    page = outputs / "pages" / "compare-runs" / "compare-runs.html"
    page.parent.mkdir(parents=True)
    page.write_text("x", encoding="utf-8")
    os.utime(page, (0, 1_767_225_600))
    soup = BeautifulSoup(overview_page(), "html.parser")
    assert_self_contained(soup)
    (link,) = soup.select("#single + ul a")
    assert (outputs / link["href"]).is_file()
    assert link.parent.get_text() == "compare-runs, made 2026-01-01 00:00:00 UTC"


def test_runs_without_an_answerable_question_are_listed_and_have_no_trend():
    runs = [small_run({}, unsupported={"u": True}) for _ in range(2)]
    assert trends(runs) == []
    assert len(BeautifulSoup(overview_page(), "html.parser").select("#runs ~ .scroll tbody tr")) == 2


def test_a_trend_chart_has_a_panel_a_measure_and_tells_its_ends():
    started = pd.Timestamp("2026-01-02T03:04:05Z")
    rows = [
        {"run_id": run, "started": started, "k": k, "n": 4, "n_facts": 0, "coverage": None, "complete": None}
        | dict.fromkeys(("precision", "recall", "reciprocal_rank", "ndcg"), value)
        for run, value in (("r1", 0.25), ("r2", 0.5))
        for k in (1, 3)
        if (run, k) != ("r1", 3)
    ]
    figure, alt = metric_trends(pd.DataFrame(rows).astype({"coverage": float, "complete": float}))
    drawn = [axes for axes in figure.axes if axes.get_visible()]
    titles = [axes.get_title(loc="left") for axes in drawn]
    assert titles == ["precision (n = 4)", "recall (n = 4)", "MRR (n = 4)", "nDCG (n = 4)"]
    first, second = drawn[0].lines
    assert list(first.get_ydata()) == [0.25, 0.5]
    assert pd.isna(second.get_ydata()[0])
    assert second.get_ydata()[1] == 0.5
    assert "At K = 3, first to last run: precision (n = 4) from 0.500 to 0.500" in alt
