"""What a reader sees of two runs: words, tables and figures."""

import pytest
from bs4 import BeautifulSoup

from evalkit.comparison import baseline_for, compare
from evalkit.plots.comparison import changed_cases, mean_differences
from evalkit.plots.style import png
from evalkit.views import comparison as view
from tests.conftest import environment
from tests.htmlparts import text_of
from tests.smallruns import small_run

MANY = {f"q{index}": [1] for index in range(12)}
PARTS = (
    view.verdict, view.contract, view.differences, view.decisions, view.cases, view.evidence, view.moves, view.details
)  # fmt: skip


@pytest.fixture(scope="module")
def worse(tmp_path_factory):
    """Eight of twelve cases lose their fact, one of them entirely."""
    ranks = {case: [5] if index < 8 else [1] for index, case in enumerate(MANY)} | {"q0": [None]}
    with environment(EVALKIT_OUTPUTS=str(tmp_path_factory.mktemp("compared"))):
        return compare(small_run(MANY, unsupported={"x": True}), small_run(ranks, unsupported={"x": False}))


def test_a_loss_beyond_chance_is_a_warning(worse):
    said = text_of(view.verdict(worse))
    assert "Warning: complete@3 is lower in the candidate, more than chance explains: 1.000 → 0.333." in said
    assert "Difference -0.667" in said
    assert "p-value 0.008, n = 12" in said
    assert "8 cases have less of their evidence, 0 have more; 8 facts lost, 0 gained." in said


def test_a_gain_and_a_change_within_chance_are_told_apart(worse):
    lower = {case: [5] if index < 8 else [1] for index, case in enumerate(MANY)}
    better = compare(small_run(lower, unsupported={"x": True}), small_run(MANY, unsupported={"x": False}))
    said = text_of(view.verdict(better))
    assert said.startswith("complete@3 is higher in the candidate, more than chance")
    assert "But more" not in said
    once = compare(small_run(MANY), small_run({**MANY, "q0": [5]}))
    said = text_of(view.verdict(once))
    assert "Note: complete@3 is lower in the candidate, which can be chance" in said
    assert "p-value 1.000" in said


def test_a_gain_that_accepts_more_unsupported_questions_is_no_good_news(worse):
    said = text_of(view.verdict(compare(worse.candidate, worse.baseline)))
    assert said.startswith("Warning: complete@3 is higher in the candidate, more than chance explains")
    assert "But more unsupported questions are accepted: 0.000 → 1.000 of 1, p-value 1.000." in said


def test_few_cases_are_said_to_show_nothing():
    said = text_of(view.verdict(compare(small_run({"a": [1], "b": [1]}), small_run({"a": [5], "b": [5]}))))
    assert "With n = 2 nothing can be told from chance: at least 6 cases would have to change." in said


def test_the_same_run_twice_is_said_and_shows_no_change():
    run = small_run(MANY)
    comparison = compare(run, run)
    assert "Baseline and candidate are the same run" in text_of(view.verdict(comparison))
    assert "complete@3 is the same for every case" in text_of(view.verdict(comparison))
    assert "What differs, and so is compared : none" in text_of(view.contract(comparison))
    assert "No case changed" in text_of(view.details(comparison))
    for figure in (mean_differences, changed_cases):
        assert png(figure(comparison)[0], 30)


def test_facts_say_where_they_were_and_are(worse):
    said = text_of(view.evidence(worse))
    assert "Fact 0 of q1 found at rank 1: q1 › fact/p0 comes at rank 5, outside K = 3: q1 › fact/p0" in said
    assert "not within the first 10 ranks" in said
    moved = text_of(view.moves(worse))
    assert moved.startswith("Relevant chunks that moved: 8")
    assert "q0 q0 › fact/p0 2 1 not there" in moved


def test_a_fact_below_the_threshold_is_said_to_be_there():
    before, after = small_run({"a": [1, 2]}), small_run({"a": [1, 2]}, search={"threshold": 0.9})
    said = text_of(view.evidence(compare(before, after)))
    assert "a › fact/p1 would come at rank 2, but does not score above 0.9: a › fact/p1" in said


def test_every_changed_case_is_linked_to_its_details(worse):
    details = BeautifulSoup(view.details(worse).data, "html.parser")
    anchors = {f"#{one['id']}" for one in details.find_all("details")}
    assert len(anchors) == 8
    for part in (view.cases, view.evidence, view.moves):
        links = {link["href"] for link in BeautifulSoup(part(worse).data, "html.parser").find_all("a")}
        assert links == anchors
    assert "Rankings of q1: passage (grade, score)" in details.get_text()


def test_another_chunking_shows_no_chunk_figure():
    comparison = compare(small_run(MANY), small_run({**MANY, "q3": [7]}, chunking="other-v1"))
    assert "are refused" in text_of(view.verdict(comparison))
    assert "precision@" not in text_of(view.differences(comparison))
    assert "chunks have no ranks that could be compared" in text_of(view.moves(comparison))
    drawn, alt = mean_differences(comparison)
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == [
        "coverage@1", "coverage@3", "complete@1", "complete@3"
    ]  # fmt: skip
    assert "complete -0.083 (-0.250 to +0.000)" in alt
    assert "nDCG" not in changed_cases(comparison)[1]


def test_figures_name_what_changed(worse):
    drawn, alt = changed_cases(worse)
    assert "8 of 12 cases" in alt
    assert "4 same" in alt
    assert drawn.axes[0].get_yticklabels()[0].get_text() == "q0"
    assert len(changed_cases(worse, limit=4)[0].axes[0].get_yticks()) == 4
    for figure in (mean_differences, changed_cases):
        assert png(figure(worse)[0], 30)


def test_nothing_to_compare_is_said():
    run = small_run({}, unsupported={"x": True})
    comparison = compare(run, run)
    assert "No case has a figure in both runs" in text_of(view.verdict(comparison))
    for part in PARTS:
        assert part(comparison).data
    for figure in (mean_differences, changed_cases):
        assert png(figure(comparison)[0], 30)


def test_texts_of_cases_are_escaped():
    texts = {"<b>a": "<script>alert(1)</script>"}
    comparison = compare(small_run({"<b>a": [1]}, texts=texts), small_run({"<b>a": [9]}, texts=texts))
    for part in PARTS:
        shown = part(comparison).data
        assert "<script>" not in shown
        assert "<b>" not in shown


def test_the_baseline_is_the_newest_comparable_run_before():
    other = small_run(MANY, dataset={"version": 2})
    first, second, third = (small_run(MANY) for _ in range(3))
    ordered = sorted((first, second, third), key=lambda run: run.run_id)
    assert baseline_for(ordered[2]).run_id == ordered[1].run_id
    assert baseline_for(ordered[0]).run_id == ordered[0].run_id
    assert baseline_for(other).run_id == other.run_id
    assert baseline_for(ordered[0], ordered[2].run_id).run_id == ordered[2].run_id
