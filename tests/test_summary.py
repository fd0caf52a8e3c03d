"""What a terminal says of a run."""

from smallruns import small_run

from evalkit.summary import summarize


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
