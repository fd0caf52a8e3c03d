"""HTML about a run: verdict, means, cases, unsupported questions, checks, record."""

import pytest

from evalkit.plots import scores as figures
from evalkit.views import categories, overview
from evalkit.views.cases import case_evidence, shown_cases, weakest_first
from tests.htmlparts import SCRIPT, Tags, changed, eventful_run, rows, soup, text_of
from tests.smallruns import small_run


@pytest.fixture
def run():
    return eventful_run()


def test_views_of_a_run_are_whole_html(run):
    views = [
        overview.verdict(run),
        overview.what_was_run(run),
        overview.verification(run),
        overview.headline(run),
        overview.case_scores(run),
        overview.unsupported_questions(run),
        overview.checks(run),
        overview.provenance(run),
        case_evidence(run),
    ]
    for view in views:
        parser = Tags()
        parser.feed(view.data)
        assert parser.open == []


def test_the_verdict_counts_cases_with_facts_and_names_the_weak_ones(run):
    said = text_of(overview.verdict(run))
    assert (
        "2 of 3 questions lack some of their required facts in the first 3 results: complete 0.333, n = 3"
        in said
    )
    assert "Complete: 1 of 3, 95 % interval 0.008 to 0.906." in said
    assert "Weakest first: lost , late" in said
    assert "Questions without labelled facts, judged by recall: 1." in said
    assert "1 of 2 unsupported questions" in said
    assert "Only 4 answerable questions" in said


def test_the_verdict_without_facts_and_without_faults():
    said = text_of(overview.verdict(small_run({}, relevant={"plain": [2], "other": [1]})))
    assert (
        "All 2 questions have all their relevant passages in the first 3 results: recall 1.000, n = 2" in said
    )


def test_the_verdict_says_what_limits_it(run):
    limited = small_run(
        {"whole": [1]},
        notices=("no labels.lock",),
        retention="hash",
        counts={"facts_lost_to_chunking": 2},
        checks={
            "prefix": {"pairs": 2, "differing": [{"case_id": "whole", "k": 1, "next_k": 3}]},
            "ties": {"1": ["whole"], "3": []},
            "exact_search": {"compared": 1, "identical": 0, "recall": 0.5, "differing": ["whole"]},
        },
    )
    said = text_of(overview.verdict(limited))
    for part in (
        "no labels.lock",
        "quotes whole: 2.",
        "no prefix of the one at the next larger K: 1.",
        "differ from those of exact search: 1.",
        "equal scores cross",
        "SHA-256",
    ):
        assert part in said
    shown = rows(overview.checks(limited), "Checks")
    assert shown[1][1] == "1 of 2 differ: whole"
    assert shown[2][1] == "crossed for whole"
    assert shown[3][1] == "none"
    assert shown[4][1:] == [
        "1 of 1 differ: whole",
        "recall of the returned chunks against exact search: 0.500",
    ]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"search": {"exact": True}}, "exact"),
        (
            {"checks": {"exact_search": {"approximate_index": False}}, "search": {"hnsw_ef": 64}},
            "exact, as the collection has no approximate index, hnsw_ef 64",
        ),
        (
            {"checks": {"exact_search": {"approximate_index": True}}, "search": {"hnsw_ef": 64}},
            "approximate (HNSW), hnsw_ef 64",
        ),
        ({"store": {"kind": "file"}}, "not known here"),
    ],
)
def test_how_was_searched_is_what_the_checks_found(record, said):
    shown = rows(overview.what_was_run(small_run({"a": [1]}, **record)), "What was run")
    assert ["search", said] in shown


def test_the_headline_has_n_beside_every_mean(run):
    shown = rows(overview.headline(run), "Means over")
    named = "K complete coverage recall nDCG MRR precision n"
    assert shown[0] == [*named.split(), "n with facts"]
    # whole finds 1 of 2 at K = 1 and late 1 of 2; lost and plain find nothing.
    assert shown[1] == ["1", "0.000", "0.333", "0.250", "0.500", "0.500", "0.500", "4", "3"]
    assert "cases with labelled facts only" in text_of(overview.headline(run))


def test_the_headline_has_an_interval_beside_each_mean_at_the_largest_k(run):
    shown = rows(overview.headline(run), "Means at K = 3 with intervals")
    assert shown[0] == ["measure", "mean", "95 % interval", "n"]
    # Exact bounds of 1 of 3: 1 - 0.975 ** (1 / 3), and what makes 0 or 1 of 3 as rare as 2.5 %.
    assert shown[1] == ["complete", "0.333", "0.008 to 0.906", "3"]
    assert [row[0] for row in shown[2:]] == ["coverage", "recall", "nDCG", "MRR", "precision"]
    without = rows(overview.headline(small_run({}, relevant={"plain": [2]})), "Means at K = 3")
    assert [row[0] for row in without[1:]] == ["recall", "nDCG", "MRR", "precision"]


def test_partial_judgments_show_what_was_judged_and_the_bound_of_precision(run):
    grades = run.rankings["grade"].fillna(0).where(run.rankings["rank"] != 3)  # all judged but rank 3
    judged = run.scores["k"].map({1: 1.0, 3: 2 / 3})
    partial = changed(
        run, rankings=run.rankings.assign(grade=grades), scores=run.scores.assign(judged=judged)
    )
    head, at_1, at_3 = rows(overview.headline(partial), "Means over")
    bound, share = head.index("precision at most (unjudged all relevant)"), head.index("judged@K")
    precision = head.index("precision")
    assert bound == precision + 1
    assert (at_1[precision], at_1[bound], at_1[share]) == ("0.500", "0.500", "1.000")
    # Hits at K = 3: 2 + 1 + 0 + 1 of 12; with the four unjudged ones 8 of 12.
    assert (at_3[precision], at_3[bound], at_3[share]) == ("0.333", "0.667", "0.667")


def test_the_weakest_case_comes_first_and_leads_to_its_evidence(run):
    assert weakest_first(run.scores, 3) == ["lost", "late", "plain", "whole"]
    shown = rows(overview.case_scores(run), "Scores of each case (n = 4)")
    assert [row[0] for row in shown[2:]] == ["lost", "late", "plain", "whole"]
    assert shown[0] == ["case", "K = 1", "K = 3", ""]
    at_1, at_3 = "0.00 0.50 0.50 1.00 1.00 1.00", "0.00 0.50 0.50 0.61 1.00 0.33"
    assert shown[3][1:] == [*f"{at_1} {at_3}".split(), "all"]
    links = {link["href"][1:] for link in soup(overview.case_scores(run))("a")}
    there = {part["id"] for part in soup(case_evidence(run))("details")}
    assert links == {"case-lost", "case-late", "case-plain", "case-whole"}
    assert links <= there


def test_the_weakest_cases_of_each_kind_are_shown(run):
    assert shown_cases(run, 1) == ["lost", "refused"]


def test_unsupported_questions_stand_apart_with_their_scores(run):
    shown = rows(overview.unsupported_questions(run), "Unsupported questions (n = 2)")
    assert shown[2][:5] == ["taken", "What about taken?", "1", "0.9375", "yes"]
    assert shown[3] == ["refused", "What about refused?", "0", "–", "no", "0", "–", "no"]
    none = overview.unsupported_questions(small_run({"whole": [1]}))
    assert "no unsupported questions" in text_of(none)


def test_the_record_is_shown_whole_and_escaped():
    run = small_run(
        {"whole": [1]},
        parameters={"dataset": SCRIPT},
        store={"collection": SCRIPT, "details": {SCRIPT: SCRIPT}},
    )
    for view in (overview.what_was_run(run), overview.provenance(run)):
        assert "<script" not in view.data
        assert SCRIPT in soup(view).get_text()
    said = text_of(overview.provenance(run))
    for part in ("a" * 64, "b" * 64, "c" * 64, "d" * 64, "1" * 40, "numpy 2.0.0"):
        assert part in said


def test_a_run_without_answerable_questions_is_shown_too(run):
    none = {name: getattr(run, name).iloc[:0] for name in ("scores", "facts", "judgments")}
    questions = run.questions[~run.questions["answerable"]]
    empty = changed(run, questions=questions, **none)
    assert "No answerable question was asked" in text_of(overview.verdict(empty))
    assert "none." in text_of(overview.headline(empty))
    assert "none." in text_of(overview.case_scores(empty))
    assert {part["id"] for part in soup(case_evidence(empty))("details")} == {"case-taken", "case-refused"}
    intervals, choice = categories.intervals_by_category(empty), categories.choose(empty)
    assert choice == categories.Choice(3, [])
    assert "nothing to compare" in text_of(categories.category_verdict(empty, 3))
    assert "none." in text_of(categories.category_table(intervals))
    assert "none." in text_of(categories.weakest_cases(empty, choice))
    assert rows(categories.category_counts(empty), "Questions and facts")[-1] == [
        "all questions",
        "0",
        "0",
        "2",
    ]
    assert figures.category_intervals(intervals, 3)[1].startswith("Means by category at K = 3")
    assert figures.categories_over_k(intervals)[1].startswith("Small line charts")
