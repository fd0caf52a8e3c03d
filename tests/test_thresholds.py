"""A threshold chosen on development by a stated rule, and one look at held-out."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.acceptance import accepts, rates_at
from evalkit.errors import InputError
from evalkit.thresholds import Rule, choose, explore, why_not_held_out

NO_FACTS = pd.DataFrame({"case_id": [], "fact": [], "score": []})


def asked(*rows: tuple[str, bool, float, str | None]) -> pd.DataFrame:
    """Table ``questions`` at K = 3 from (case, answerable, score, split)."""
    return pd.DataFrame(
        {
            "case_id": [row[0] for row in rows],
            "question": [f"What is {row[0]}?" for row in rows],
            "category": None,
            "split": pd.array([row[3] for row in rows], dtype="str"),
            "answerable": [row[1] for row in rows],
            "k": 3,
            "result_count": 3,
            "top_score": [float(np.float32(row[2])) for row in rows],
        }
    )


def scored(*rows: tuple[str, bool, float]) -> pd.DataFrame:
    table = asked(*((*row, None) for row in rows)).rename(columns={"top_score": "score"})
    return table[["case_id", "question", "category", "split", "answerable", "score"]]


def tables(questions: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Questions with a ranking of one chunk each, which holds the one fact of an answerable question."""
    rankings = pd.DataFrame(
        {
            "case_id": questions["case_id"], "k": 3, "rank": 1, "document_id": "d", "chunk_id": "body/p0",
            "score": questions["top_score"],
        }
    )  # fmt: skip
    facts = rankings[questions["answerable"]].assign(fact=0, found=True).drop(columns="score")
    return questions, rankings, facts


DEVELOPMENT = (
    ("a", True, 0.9, "development"),
    ("b", True, 0.7, "development"),
    ("c", True, 0.5, "development"),
    ("x", False, 0.6, "development"),
    ("y", False, 0.2, "development"),
)
HELD_OUT = (
    ("d", True, 0.8, "held-out"),
    ("e", True, 0.3, "held-out"),
    ("z", False, 0.95, "held-out"),
    ("w", False, 0.1, "held-out"),
)
OF_DEVELOPMENT = scored(*(row[:3] for row in DEVELOPMENT))


@pytest.mark.parametrize(
    ("rule", "at_least", "below", "threshold"),
    [
        # None of x and y: 0.6 rejects c as well, and no lower threshold rejects x.
        (Rule(max_false_acceptance=0.0), 0.6, 0.7, 0.65),
        # One of two may pass: every threshold from 0.2 rejects y, and 0.5 would reject c.
        (Rule(max_false_acceptance=0.5), 0.2, 0.5, 0.35),
        # Both may pass, but from 0.2 to 0.5 nothing answerable is lost: the tie goes to fewer false acceptances.
        (Rule(max_false_acceptance=1.0), 0.2, 0.5, 0.35),
        # Rejecting x costs c: equal costs tie at 1, and the tie goes to the higher threshold.
        (Rule("costs"), 0.6, 0.7, 0.65),
        (Rule("costs", cost_false_acceptance=1, cost_false_rejection=2), 0.2, 0.5, 0.35),
        (Rule("costs", cost_false_acceptance=3, cost_false_rejection=2), 0.6, 0.7, 0.65),
        # From 0.6 on, no unsupported question passes and rejecting is free: the lowest such threshold.
        (Rule("costs", cost_false_acceptance=1, cost_false_rejection=0), 0.6, 0.7, 0.65),
        (Rule("costs", cost_false_acceptance=0, cost_false_rejection=1), 0.2, 0.5, 0.35),
    ],
)
def test_rules_by_hand(rule, at_least, below, threshold):
    choice = choose(OF_DEVELOPMENT, NO_FACTS, rule, "development", 3)
    assert (choice.at_least, choice.below) == pytest.approx((at_least, below))
    assert choice.threshold == pytest.approx(threshold)
    assert (choice.rule, choice.chosen_on, choice.k) == (rule, "development", 3)


def test_a_threshold_that_must_reject_everything_is_the_highest_score():
    choice = choose(scored(("a", True, 0.4), ("x", False, 0.5)), NO_FACTS, Rule(), "development", 3)
    assert (choice.at_least, choice.below, choice.threshold) == (0.5, math.inf, 0.5)


def test_no_unsupported_question_means_no_threshold():
    choice = choose(scored(("a", True, 0.5)), NO_FACTS, Rule(), "all questions", 3)
    assert choice.threshold is None
    rates = rates_at(scored(("a", True, 0.5)), NO_FACTS, choice.threshold)
    assert math.isnan(rates.false_acceptance.rate)
    assert rates.false_rejection.rate == 0


def test_the_choice_sees_development_only_and_held_out_is_looked_at_once():
    exploration = explore(*tables(asked(*DEVELOPMENT, *HELD_OUT)), 3, Rule(max_false_acceptance=0.0))
    assert exploration.banner == ""
    assert exploration.choice.chosen_on == "development"
    assert exploration.choice.threshold == 0.65
    assert set(exploration.questions["case_id"]) == set("abcxy")
    assert exploration.sweep["n_answerable"].eq(3).all()
    assert exploration.chosen_at.false_rejection[:2] == (1, 3)
    held_out = exploration.held_out
    assert held_out is not None
    assert held_out.threshold == 0.65
    assert held_out.false_acceptance[:3] == (1, 2, 0.5)  # z
    assert held_out.false_acceptance[3:] == pytest.approx((0.012579, 0.987421), abs=1e-6)
    assert held_out.false_rejection[:3] == (1, 2, 0.5)  # e
    assert (held_out.coverage, held_out.complete, held_out.n_facts) == (0.5, 0.5, 2)
    assert set(exploration.held_out_questions["case_id"]) == set("dezw")


@given(st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=4))
@settings(max_examples=8, deadline=None)
def test_held_out_scores_never_move_the_choice(scores):
    moved = [
        (case, kind, score, split) for (case, kind, _, split), score in zip(HELD_OUT, scores, strict=True)
    ]
    assert (
        explore(*tables(asked(*DEVELOPMENT, *moved)), 3).choice
        == explore(*tables(asked(*DEVELOPMENT, *HELD_OUT)), 3).choice
    )


@pytest.mark.parametrize(
    ("questions", "reason"),
    [
        (asked(("a", True, 0.5, None), ("x", False, 0.4, None)), "no question has a split"),
        (asked(*DEVELOPMENT, *HELD_OUT, ("n", True, 0.5, None)), r"1 of 10 questions have no split \(n\)"),
        (asked(*DEVELOPMENT), "split held-out has no answerable question"),
        (asked(*DEVELOPMENT, *HELD_OUT[:2]), "split held-out has no unsupported question"),
        (
            asked(*DEVELOPMENT, *HELD_OUT).replace({"question": {"What is z?": " what IS  a? "}}),
            r"the same question stands in both splits \(a, z\)",
        ),
    ],
)
def test_without_proper_splits_it_is_exploration_and_says_so(questions, reason):
    exploration = explore(*tables(questions), 3)
    assert exploration.held_out is None
    assert exploration.held_out_questions.empty
    assert exploration.choice.chosen_on == "all questions"
    assert len(exploration.questions) == len(questions)
    assert "Exploration only: nothing was held out" in exploration.banner
    assert re.search(reason, exploration.banner)


def test_two_accepted_of_two_leave_bounds_from_016_to_1():
    questions = asked(("a", True, 0.1, None), ("x", False, 0.5, None), ("y", False, 0.4, None))
    exploration = explore(*tables(questions), 3, Rule(max_false_acceptance=1.0))
    assert exploration.choice.threshold is None
    assert exploration.chosen_at.false_acceptance == (2, 2, 1.0, pytest.approx(0.15811, abs=1e-5), 1.0)


@given(st.lists(st.tuples(st.booleans(), st.floats(-1, 1, width=32)), min_size=1, max_size=10))
@settings(max_examples=25, deadline=None)
def test_a_chosen_threshold_keeps_its_rule_and_no_other_does_better(rows):
    questions = scored(*((f"q{i}", answerable, score) for i, (answerable, score) in enumerate(rows)))
    limit = 0.25
    choice = choose(questions, NO_FACTS, Rule(max_false_acceptance=limit), "development", 3)
    chosen = rates_at(questions, NO_FACTS, choice.threshold)
    assert not chosen.false_acceptance.rate > limit
    for other in [None, *questions["score"]]:
        rates = rates_at(questions, NO_FACTS, other)
        if not rates.false_acceptance.rate > limit:
            assert chosen.false_rejection.counted <= rates.false_rejection.counted
            if chosen.false_rejection.counted == rates.false_rejection.counted:
                assert chosen.false_acceptance.counted <= rates.false_acceptance.counted
    ends = [choice.threshold, None if choice.at_least == -math.inf else choice.at_least]
    decisions = [accepts(questions["score"], end).tolist() for end in ends]
    assert decisions[0] == decisions[1]


@pytest.mark.parametrize(
    ("faulty", "named"),
    [
        ({"kind": "youden"}, "rule must be one of false-acceptance, costs, found 'youden'"),
        ({"max_false_acceptance": 10.0}, r"max_false_acceptance must be in 0\.\.1, found 10\.0"),
        ({"max_false_acceptance": float("nan")}, "max_false_acceptance"),
        ({"cost_false_rejection": -1.0}, "cost_false_rejection must be a number of at least 0"),
        ({"cost_false_acceptance": 0.0, "cost_false_rejection": 0.0}, "both 0"),
    ],
)
def test_faulty_rules_are_refused(faulty, named):
    with pytest.raises(InputError, match=named):
        Rule(**faulty)


def test_all_faults_of_a_rule_come_at_once():
    with pytest.raises(InputError, match=r"(?s)youden.*max_false_acceptance.*cost_false_acceptance"):
        Rule(kind="youden", max_false_acceptance=2, cost_false_acceptance=math.inf)


def test_platform_runbooks_have_a_held_out_half_and_worker_runbooks_do_not(example_runs):
    from evalkit.runs import load_run

    platform = load_run(example_runs["platform-runbooks"])
    exploration = explore(platform.questions, platform.rankings, platform.facts, 5)
    assert exploration.held_out is not None
    assert exploration.held_out.false_acceptance.n == 21
    assert exploration.held_out.false_rejection.n == 45
    worker = load_run(example_runs["worker-runbooks"])
    exploration = explore(worker.questions, worker.rankings, worker.facts, 5)
    assert "no question has a split" in exploration.banner
    assert why_not_held_out(exploration.questions)
    everything = rates_at(exploration.questions, exploration.evidence, None)
    assert everything.false_acceptance == (2, 2, 1.0, pytest.approx(0.15811, abs=1e-5), 1.0)
    assert (everything.coverage, everything.complete) == (1.0, 1.0)
