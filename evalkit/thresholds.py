"""Which threshold to take: chosen by a stated rule on one split, frozen, looked at once on the other."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from evalkit.acceptance import Rates, evidence_scores, question_scores, rates_at, sweep
from evalkit.errors import refuse, some
from evalkit.wording import fold

RULES = ("false-acceptance", "costs")


@dataclass(frozen=True)
class Rule:
    """How a threshold is chosen from the ones that decide differently.

    Ties go to the threshold that accepts fewer unsupported questions, then to the lower one.

    Attributes
    ----------
    kind
        ``false-acceptance``: the lowest false rejection among thresholds with at most ``max_false_acceptance``.
        ``costs``: the lowest sum of ``cost_false_acceptance`` x unsupported questions accepted and
        ``cost_false_rejection`` x answerable questions rejected, in the mix of the questions at hand.
    max_false_acceptance
        Highest share of unsupported questions that may be accepted, 0..1.
    cost_false_acceptance, cost_false_rejection
        At least 0, not both 0.
    """

    kind: Literal["false-acceptance", "costs"] = "false-acceptance"
    max_false_acceptance: float = 0.1
    cost_false_acceptance: float = 1.0
    cost_false_rejection: float = 1.0

    def __post_init__(self) -> None:
        faults = []
        if self.kind not in RULES:
            faults.append(f"rule must be one of {', '.join(RULES)}, found {self.kind!r}")
        if not 0 <= self.max_false_acceptance <= 1:
            faults.append(f"max_false_acceptance must be in 0..1, found {self.max_false_acceptance!r}")
        costs = {name: getattr(self, name) for name in ("cost_false_acceptance", "cost_false_rejection")}
        faults += [
            f"{name} must be a number of at least 0, found {cost!r}"
            for name, cost in costs.items()
            if not 0 <= cost < float("inf")
        ]
        if not any(costs.values()):
            faults.append(
                "cost_false_acceptance and cost_false_rejection are both 0; give one of them a cost"
            )
        if faults:
            refuse("rule for the threshold", faults)

    @property
    def text(self) -> str:
        """The rule as a sentence for readers."""
        if self.kind == "costs":
            what = (
                f"the lowest total cost, with {self.cost_false_acceptance:g} for each unsupported question accepted "
                f"and {self.cost_false_rejection:g} for each answerable question rejected"
            )
        else:
            what = (
                "the fewest answerable questions rejected, while at most "
                f"{self.max_false_acceptance:.1%} of the unsupported ones are accepted"
            )
        return f"{what}; ties go to the threshold that accepts fewer unsupported questions, then to the lower one"


@dataclass(frozen=True)
class ThresholdChoice:
    """A threshold, frozen together with how it came about.

    Attributes
    ----------
    threshold
        Accept a question when its top score is above it; None: accept whatever returns a passage.
    at_least, below
        Every threshold from ``at_least`` up to but not including ``below`` decides the same about the questions that
        it was chosen on (-inf and inf where there is no end). The threshold is their middle, rounded to as few
        digits (3 or more) as keep it between them, so that no decision hangs on a rounding.
    rule
        The rule that chose it.
    chosen_on
        ``development``, or ``all questions`` when nothing could be held out.
    k
        Cutoff of the rankings that were looked at.
    """

    threshold: float | None
    at_least: float
    below: float
    rule: Rule
    chosen_on: str
    k: int


@dataclass(frozen=True)
class Exploration:
    """Everything that is known about thresholds at one K of a run.

    Attributes
    ----------
    choice
        The threshold and how it was chosen.
    questions, evidence
        `question_scores` and `evidence_scores` of the questions that the choice could see.
    sweep
        `sweep` over these questions.
    chosen_at
        Rates of the choice on these questions.
    held_out
        Rates of the choice on the held-out questions; None when nothing was held out.
    held_out_questions
        `question_scores` of the held-out questions; empty when nothing was held out.
    why_not_held_out
        Why there is no held-out result; empty when there is one.
    """

    choice: ThresholdChoice
    questions: pd.DataFrame
    evidence: pd.DataFrame
    sweep: pd.DataFrame
    chosen_at: Rates
    held_out: Rates | None
    held_out_questions: pd.DataFrame
    why_not_held_out: str

    @property
    def banner(self) -> str:
        """Words to put over every result when nothing was held out; empty otherwise."""
        if not self.why_not_held_out:
            return ""
        return (
            f"Exploration only: nothing was held out, because {self.why_not_held_out}. The threshold is judged on "
            "the same questions that it was chosen on, so expect worse on new questions."
        )


def choose(
    questions: pd.DataFrame, evidence: pd.DataFrame, rule: Rule, chosen_on: str, k: int
) -> ThresholdChoice:
    """Choose a threshold by a rule.

    Parameters
    ----------
    questions, evidence
        Tables of `question_scores` and `evidence_scores`; the choice sees nothing else.
    rule
        What counts as best.
    chosen_on, k
        Kept with the choice.

    Returns
    -------
    ThresholdChoice
        Without unsupported questions the rule ``false-acceptance`` chooses no threshold at all (None).
    """
    # Rows that decide the same about every question differ in evidence alone: the first one stands for them.
    counts = ["false_acceptances", "false_rejections"]
    table = sweep(questions, evidence).drop_duplicates(counts, ignore_index=True)
    if rule.kind == "costs":
        prices = np.array([rule.cost_false_acceptance, rule.cost_false_rejection])
        ranked = table.assign(loss=table[counts].to_numpy() @ prices)
    else:
        ranked = table.assign(loss=table["false_rejections"])
        ranked = ranked[~(ranked["false_acceptance"] > rule.max_false_acceptance)]
    best = int(ranked.sort_values(["loss", "false_acceptances"], kind="stable").index[0])
    at_least = float(table["threshold"].iloc[best])
    below = float(table["threshold"].iloc[best + 1]) if best + 1 < len(table) else float("inf")
    return ThresholdChoice(_between(at_least, below), at_least, below, rule, chosen_on, k)


def explore(
    questions: pd.DataFrame, rankings: pd.DataFrame, facts: pd.DataFrame, k: int, rule: Rule | None = None
) -> Exploration:
    """Choose a threshold on ``development``, freeze it, and look once at ``held-out``.

    Parameters
    ----------
    questions, rankings, facts
        Tables of a run.
    k
        One of its cutoffs.
    rule
        How the threshold is chosen; by default at most 10 % false acceptance.

    Returns
    -------
    Exploration
        With splits that are missing or overlap, or that lack one kind of question, the choice is made on all
        questions and ``held_out`` is None.

    Raises
    ------
    InputError
        No row at this K.
    """
    asked = question_scores(questions, k)
    needed = evidence_scores(rankings, facts, k)
    reason = why_not_held_out(asked)
    in_development = asked["split"] == "development"
    visible = asked if reason else asked[in_development].reset_index(drop=True)
    unseen = asked.iloc[:0] if reason else asked[~in_development].reset_index(drop=True)
    evidence = needed[needed["case_id"].isin(visible["case_id"])].reset_index(drop=True)
    choice = choose(visible, evidence, rule or Rule(), "all questions" if reason else "development", k)
    held_out = None
    if not reason:
        held_out = rates_at(unseen, needed[needed["case_id"].isin(unseen["case_id"])], choice.threshold)
    return Exploration(
        choice=choice,
        questions=visible,
        evidence=evidence,
        sweep=sweep(visible, evidence),
        chosen_at=rates_at(visible, evidence, choice.threshold),
        held_out=held_out,
        held_out_questions=unseen,
        why_not_held_out=reason,
    )


def why_not_held_out(questions: pd.DataFrame) -> str:
    """Say why the splits do not allow a held-out result.

    Parameters
    ----------
    questions
        Table of `question_scores`.

    Returns
    -------
    str
        Half a sentence; empty when every question is in one of two splits that share no question text (white space
        and case folded) and both hold answerable and unsupported questions.
    """
    without = questions.loc[questions["split"].isna(), "case_id"]
    if len(without) == len(questions):
        return "no question has a split"
    if len(without):
        return f"{len(without)} of {len(questions)} questions have no split ({some(without)})"
    folded = questions["question"].map(lambda text: fold(text).casefold())
    in_splits = questions["split"].groupby(folded).transform("nunique")
    if (in_splits > 1).any():
        return f"the same question stands in both splits ({some(questions.loc[in_splits > 1, 'case_id'])})"
    for split in ("development", "held-out"):
        for answerable, kind in ((True, "answerable"), (False, "unsupported")):
            if not ((questions["split"] == split) & (questions["answerable"] == answerable)).any():
                return f"split {split} has no {kind} question"
    return ""


def _between(at_least: float, below: float) -> float | None:
    if at_least == -np.inf:
        return None
    if below == np.inf:
        return at_least
    middle = (at_least + below) / 2
    for digits in range(3, 10):
        rounded = round(middle, digits)
        if at_least <= np.float32(rounded) < below:
            return rounded
    return at_least
