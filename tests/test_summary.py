"""What a terminal says of a run."""

from smallruns import small_run

from evalkit.comparison import compare
from evalkit.summary import describe_comparison, summarize
from evalkit.views import comparison as view
from tests.htmlparts import text_of


def test_the_judged_share_stands_beside_the_scores_of_partial_judgments():
    run = small_run({"a": [1, 4], "b": [1]})
    assert "judged" not in summarize(run).splitlines()[2]
    run.__dict__["scores"] = run.scores.assign(judged=[1.0, 0.5, 0.5, 0.25])
    header, at_1, at_3 = summarize(run).splitlines()[2:5]
    assert header.split()[-4:] == ["judged", "n", "n", "facts"]
    assert at_1.split()[-3:] == ["0.750", "2", "2"]
    assert at_3.split()[-3:] == ["0.375", "2", "2"]


def test_cases_without_facts_are_told_by_their_labelled_passages():
    run = small_run({}, relevant={"found": [1, 2], "half": [2, 9]})
    assert "labelled text is missing from the first 3 in 1 of 2 cases: half" in summarize(run)
    assert "with facts" not in summarize(run)


def test_facts_decide_where_some_cases_have_them():
    run = small_run({"found": [1], "lost": [9]}, relevant={"half": [2, 9]})
    assert "required evidence is missing from the first 3 in 1 of 2 cases: lost" in summarize(run)


def test_without_a_kind_of_question_nothing_is_claimed_of_it():
    text = summarize(small_run({}, unsupported={"u": True}))
    assert "no answerable question" in text
    assert "DataFrame" not in text
    assert "accepted at K=3: 1 of 1" in text
    assert "no unsupported question, so nothing is known about false acceptance" in summarize(
        small_run({"a": [1]})
    )


def test_a_comparison_in_a_terminal_says_what_the_page_says():
    ranks = {f"q{index}": [1] for index in range(12)}
    worse = {case: [5] if index < 8 else [1] for index, case in enumerate(ranks)}
    before = small_run(ranks, unsupported={"x": True, "y": False})
    after = small_run(worse, unsupported={"x": False, "y": False}, search={"threshold": 0.5})
    comparison = compare(before, after)
    said = describe_comparison(comparison)
    assert "complete@3 is lower in the candidate, more than chance explains: 1.000 → 0.333." in said
    assert "8 cases have less of their evidence, 0 have more; 8 facts lost, 0 gained." in said
    sentences = said.split("\n\n")[1].splitlines()
    assert len(sentences) == 3
    page = text_of(view.verdict(comparison))
    assert all(sentence in page for sentence in sentences)
    rates = said.split("wrong decisions at K=3, as rates\n")[1].splitlines()
    # One of two unsupported questions was accepted, and is not any more; no answerable one was or is rejected.
    assert rates[1].split()[:6] == ["false_acceptance", "3", "2", "0.500", "0.000", "-0.500"]
    assert rates[2].split()[:6] == ["false_rejection", "3", "12", "0.000", "0.000", "0.000"]
    assert rates[3] in text_of(view.decisions(comparison))
    assert rates[3].startswith("Accepted in the baseline: anything returned; in the candidate: score > 0.5.")


def test_a_comparison_without_unsupported_questions_has_no_rate_of_them():
    said = describe_comparison(compare(small_run({"a": [1]}), small_run({"a": [5]})))
    assert "false_acceptance" not in said
    assert "no unsupported question, so nothing is known about false acceptance" in said
