"""What a reader sees of thresholds: words, tables, figures and the slider."""

import re

import numpy as np
import pytest
from bs4 import BeautifulSoup

from evalkit.acceptance import rates_at
from evalkit.plots.acceptance import errors_over_threshold, roc_and_risk, score_distributions
from evalkit.plots.style import png
from evalkit.runs import load_run
from evalkit.thresholds import Rule, explore
from evalkit.views import acceptance as view
from evalkit.widgets.threshold import threshold_slider
from tests.htmlparts import text_of
from tests.smallruns import small_run

FIGURES = (score_distributions, errors_over_threshold, roc_and_risk)


def explored(run, k=None, rule=None):
    return explore(run.questions, run.rankings, run.facts, k or run.record.search.ks[-1], rule)


@pytest.fixture
def platform(example_runs):
    return load_run(example_runs["platform-runbooks"])


@pytest.fixture
def worker(example_runs):
    return load_run(example_runs["worker-runbooks"])


def test_the_verdict_says_how_the_choice_fares_on_held_out(platform):
    exploration = explored(platform, 5)
    found = exploration.held_out.false_acceptance
    said = text_of(view.verdict(exploration, platform))
    assert (
        f"{found.counted} of 21 ({found.rate:.1%}, 95 % bounds {found.low:.1%} to {found.high:.1%})" in said
    )
    assert "Not met: False acceptance exceeds the limit of 10.0%" in said
    assert "On held-out questions" in text_of(view.verdict(explored(platform, 5, Rule("costs")), platform))
    generous = text_of(view.verdict(explored(platform, 5, Rule(max_false_acceptance=0.8)), platform))
    assert "it cannot be ruled out that it is as high as" in generous


def test_without_a_held_out_split_a_banner_says_so(worker):
    said = text_of(view.verdict(explored(worker, 5), worker))
    assert "Warning: Exploration only: nothing was held out, because no question has a split." in said
    assert "Only 2 unsupported and 7 answerable questions in all questions" in said


@pytest.mark.thorough
def test_a_run_with_a_threshold_of_its_own_and_without_unsupported_questions():
    run = small_run({"a": [1], "b": [2]}, search={"threshold": 0.25})
    exploration = explored(run)
    said = text_of(view.verdict(exploration, run))
    assert "There are no unsupported questions, so false acceptance is unknown" in said
    assert "The run kept only hits above 0.25" in said
    assert "anything returned" in text_of(view.choice(exploration))
    for figure in FIGURES:
        assert png(figure(exploration)[0], 30)


def test_the_tables_hold_what_the_measures_say(platform):
    exploration = explored(platform, 5)
    choice = text_of(view.choice(exploration))
    assert f"score > {exploration.choice.threshold:g}" in choice
    assert "held-out: 45 answerable and 21 unsupported questions" in choice
    rates = text_of(view.rates(exploration))
    assert (
        "no further threshold, development anything returned 21 of 21 (100.0%, 95 % bounds 83.9% to 100.0%)"
        in rates
    )
    rows = BeautifulSoup(view.whole_sweep(exploration).data, "html.parser").find_all("tr")
    assert len(rows) == len(exploration.sweep) + 1
    assert "; 10 of " in text_of(view.whole_sweep(exploration, limit=10))


def test_wrong_decisions_lead_to_their_evidence(platform):
    exploration = explored(platform, 5)
    page = BeautifulSoup(view.wrong_decisions(exploration).data, "html.parser")
    links = {link["href"] for link in page.find_all("a")}
    evidence = BeautifulSoup(view.wrong_evidence(exploration, platform).data, "html.parser")
    assert links == {f"#{one['id']}" for one in evidence.find_all("details")}
    assert len(links) == len(view.wrong_cases(exploration)) > 20


def test_nothing_wrong_is_said_too(worker):
    exploration = explored(worker, 5)
    assert "decides every question rightly" in text_of(view.wrong_evidence(exploration, worker))
    assert "Wrongly decided on all questions: 0 of 9" in text_of(view.wrong_decisions(exploration))


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_say_their_numbers(platform, figure):
    exploration = explored(platform, 5)
    drawn, alt = figure(exploration)
    assert png(drawn, 30).startswith(b"\x89PNG")
    assert "45 answerable" in alt or "coverage" in alt
    assert re.search(r"\d\.\d\d", alt)
    assert "nan" not in alt
    assert "on development" in alt


def test_figures_say_on_which_questions_the_threshold_was_chosen(platform, worker):
    for run, chosen_on in ((platform, "development"), (worker, "all questions")):
        exploration = explored(run, 5)
        for figure in (score_distributions, roc_and_risk):
            titles = [axes.get_title(loc="left") for axes in figure(exploration)[0].axes]
            assert all(chosen_on in title for title in titles), titles


def test_the_stairs_change_where_the_sweep_does(worker):
    exploration = explored(worker, 5)
    errors, evidence = errors_over_threshold(exploration)[0].axes
    lines = {line.get_label(): line for line in (*errors.lines, *evidence.lines)}
    line = lines["false acceptance (n = 2)"]
    x, y = line.get_xdata(), line.get_ydata()
    for threshold in [None, *exploration.sweep["threshold"][1:]]:
        at = 0 if threshold is None else int(np.searchsorted(x, threshold, side="right")) - 1
        assert y[at] == rates_at(exploration.questions, exploration.evidence, threshold).false_acceptance.rate
    assert line.get_drawstyle() == "steps-post"


def test_the_slider_starts_at_the_choice_and_its_numbers_follow(worker):
    exploration = explored(worker, 5)
    box = threshold_slider(exploration)
    slider, shown = box.children
    assert slider.value == pytest.approx(exploration.choice.threshold, abs=5e-4)
    assert "0 of 2" in text_of(shown.value)
    slider.value = slider.min
    assert "2 of 2 1.000 0.158 to 1.000" in text_of(shown.value)
    assert "0 of 7" in text_of(shown.value)
    slider.value = slider.max
    assert "7 of 7" in text_of(shown.value)
    assert "complete above the threshold n = 7 0.000" in text_of(shown.value)


@pytest.mark.thorough
def test_the_slider_without_any_result():
    run = small_run({}, unsupported={"x": False, "y": False})
    slider, shown = threshold_slider(explored(run)).children
    assert (slider.min, slider.max) == (0.0, 1.0)
    assert "0 of 2" in text_of(shown.value)
    for figure in FIGURES:
        drawn, alt = figure(explored(run))
        assert png(drawn, 30)
        assert "nan" not in alt


def test_texts_of_cases_are_escaped():
    # Both questions have the same score, so that the threshold must refuse both.
    run = small_run({"a": [1]}, unsupported={"x": True}, texts={"a": "<script>alert(1)</script>"})
    exploration = explored(run)
    assert exploration.chosen_at.false_rejection.counted == 1
    for part in (view.wrong_decisions(exploration), view.wrong_evidence(exploration, run)):
        assert "<script>" not in part.data
        assert "&lt;script&gt;" in part.data
