"""HTML about categories: order, counts, intervals, weakest cases."""

import pytest

from evalkit.errors import InputError
from evalkit.views import categories
from tests.htmlparts import changed, eventful_run, rows, text_of


@pytest.fixture
def run():
    return eventful_run()


@pytest.fixture
def sorted_run(run):
    names = {"whole": "easy", "plain": "easy", "late": "hard", "lost": "hard"}
    questions = run.questions.assign(category=run.questions["case_id"].map(names))
    return changed(
        run, scores=run.scores.assign(category=run.scores["case_id"].map(names)), questions=questions
    )


def test_categories_come_weakest_first_with_all_at_the_end(sorted_run):
    assert categories.weakest_categories(sorted_run) == ["hard", "easy"]
    intervals = categories.intervals_by_category(sorted_run)
    assert list(dict.fromkeys(intervals["category"])) == ["hard", "easy", "all questions"]
    said = text_of(categories.category_verdict(intervals, 3))
    assert "hard is the weakest category: complete 0.000 at K = 3" in said
    assert "Fewer than 10 cases in hard (n = 2), easy (n = 1)" in said


def test_category_counts_add_up(sorted_run):
    shown = rows(categories.category_counts(sorted_run), "Questions and facts")
    assert shown[0] == ["category", "answerable", "no split", "facts", "unsupported"]
    assert shown[1:] == [
        ["hard", "2", "2", "3", "0"],
        ["easy", "2", "2", "2", "0"],
        ["(no category)", "0", "0", "0", "2"],
        ["all questions", "4", "4", "5", "2"],
    ]


def test_the_category_table_has_an_interval_beside_each_mean(sorted_run):
    html = categories.category_table(categories.intervals_by_category(sorted_run))
    shown = rows(html, "Means by category and K")
    assert shown[0][:3] == ["category", "K", "precision"]
    hard = dict(zip(shown[0], shown[2], strict=True))
    assert hard["K"] == "3"
    assert hard["recall"] == "0.250 [0.000, 0.500]"
    assert (hard["n"], hard["n with facts"]) == ("2", "2")
    easy = dict(zip(shown[0], shown[4], strict=True))
    assert easy["complete"] == "1.000 [no interval]"
    assert (easy["n"], easy["n with facts"]) == ("2", "1")
    assert "easy: a single case has no interval" in text_of(html)


def test_the_weakest_cases_say_what_they_miss_and_from_which_rank_they_were_complete(sorted_run):
    choice = categories.choose(sorted_run, category="hard")
    assert choice == categories.Choice(3, ["lost", "late"])
    shown = rows(categories.weakest_cases(sorted_run, choice), "The 2 weakest of 4 cases at K = 3")
    assert shown[1][-2:] == ["not within 10", "Fact 0 of lost"]
    assert shown[2][-2:] == ["5", "Fact 1 of late"]


def test_a_choice_that_the_run_does_not_have_is_refused_with_all_reasons(sorted_run):
    with pytest.raises(InputError) as caught:
        categories.choose(sorted_run, k=7, category="medium", limit=0)
    for part in (
        "k: found 7, the run has K of 1, 3",
        "category: found 'medium', the run has easy, hard",
        "cases: found 0",
    ):
        assert part in str(caught.value)
