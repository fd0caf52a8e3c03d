"""HTML about categories: order, counts, intervals, weakest cases."""

import pytest

from evalkit.errors import InputError
from evalkit.views import categories
from tests.htmlparts import changed, eventful_run, rows, text_of
from tests.smallruns import small_run


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


def test_a_category_is_not_called_weaker_when_so_few_cases_cannot_tell(sorted_run):
    said = text_of(categories.category_verdict(sorted_run, 3))
    assert "No category is shown to be weaker than the rest at K = 3" in said
    assert "Farthest below the rest is hard: complete 0.000 [0.000, 0.842] (n = 2)" in said
    assert "the rest 1.000 [0.025, 1.000] (n = 1)" in said
    assert "Difference -1.000, 95 % interval [-1.000, " in said
    assert "Fewer than 10 cases in easy (n = 1), hard (n = 2)" in said


def weak_and_strong(weak: int, strong: int):
    """A run whose weak cases lack their fact at every K, and whose strong ones have it."""
    cases = {f"w{at}": [None] for at in range(weak)} | {f"s{at}": [1] for at in range(strong)}
    run = small_run(cases)
    return changed(run, scores=run.scores.assign(category=run.scores["case_id"].str[0]))


def test_a_category_that_is_weaker_than_the_rest_is_named_with_its_difference():
    said = text_of(categories.category_verdict(weak_and_strong(10, 12), 3))
    assert "Warning: w is weaker than the rest: complete 0.000 at K = 3, against 1.000." in said
    # Clopper-Pearson: 1 - 0.025 ** (1 / 10) = 0.308 and 0.025 ** (1 / 12) = 0.735; sqrt(0.308^2 + 0.265^2) = 0.406.
    assert "0.000 [0.000, 0.308] (n = 10), the rest 1.000 [0.735, 1.000] (n = 12)" in said
    assert "Difference -1.000, 95 % interval [-1.000, -0.594]" in said
    assert "p-value < 0.001, more than chance explains; it allows for having picked the lowest of 2" in said
    assert "Fewer than" not in said


def test_categories_that_are_equal_or_alone_are_not_compared(run):
    same = text_of(categories.category_verdict(weak_and_strong(0, 4), 3))
    assert "There is one category only, s" in same
    none = changed(run, scores=run.scores.iloc[:0])
    assert "nothing to compare" in text_of(categories.category_verdict(none, 3))


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
    assert shown[0][:3] == ["category", "K", "complete"]
    hard = dict(zip(shown[0], shown[2], strict=True))
    assert hard["K"] == "3"
    assert hard["recall"] == "0.250 [0.000, 0.500]"
    assert (hard["n"], hard["n with facts"]) == ("2", "2")
    easy = dict(zip(shown[0], shown[4], strict=True))
    assert easy["complete"] == "1.000 [0.025, 1.000]"
    assert (easy["n"], easy["n with facts"]) == ("2", "1")
    said = text_of(html)
    assert "easy, coverage at K = 1, 3; complete at K = 1, 3: a single case tells next to nothing." in said
    assert "hard, recall at K = 1, 3; coverage at K = 1, 3; precision at K = 3; nDCG at K = 3: only 2" in said


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
