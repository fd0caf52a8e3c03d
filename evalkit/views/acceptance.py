"""Thresholds in words and tables: the choice, what it does, the whole sweep, and what it decides wrongly."""

import numpy as np
import pandas as pd
from IPython.display import HTML
from markupsafe import Markup

from evalkit.acceptance import Proportion, Rates, rates_at, wrongly_decided
from evalkit.intervals import FEW
from evalkit.measures import MISSING
from evalkit.records import accepted_when
from evalkit.runs import Run
from evalkit.thresholds import Exploration, ThresholdChoice
from evalkit.views.cases import case_evidence
from evalkit.views.markup import banner, page, render
from evalkit.views.tables import ROWS, key_values, number, table

DETAILED = 60
"""Questions whose evidence is shown."""


def verdict(exploration: Exploration, run: Run) -> HTML:
    """Say what the chosen threshold does on held-out questions, or that nothing was held out.

    Parameters
    ----------
    exploration
        What `thresholds.explore` gave.
    run
        The run that it explores.

    Returns
    -------
    HTML
        The result on held-out, with counts, rates and bounds, or the banner that nothing was held out; then a banner
        for each limit: few questions, a rule that does not hold on held-out, a run with a threshold of its own.
    """
    if exploration.held_out is None:
        parts = [banner("warning", exploration.banner, _sentence(exploration.chosen_at))]
    else:
        parts = [_held_out_banner(exploration, exploration.held_out)]
    return page(*parts, *(banner("warning", limit) for limit in _limits(exploration, run)))


def choice(exploration: Exploration) -> HTML:
    """Show the chosen threshold and how it was chosen."""
    chosen = exploration.choice
    rows: dict[str, object] = {
        "threshold": accepted_when(chosen.threshold),
        "chosen on": f"{chosen.chosen_on}: {_counted(exploration.questions)}",
        "rule": chosen.rule.text,
        "equal choices": _equal_choices(chosen),
        "looked at once": MISSING
        if exploration.held_out is None
        else f"held-out: {_counted(exploration.held_out_questions)}",
        "K": chosen.k,
    }
    return page(key_values(rows, "The choice"))


def rates(exploration: Exploration) -> HTML:
    """Show counts, rates, bounds and evidence without a threshold and with the chosen one."""
    on = exploration.choice.chosen_on
    without = rates_at(exploration.questions, exploration.evidence, None)
    lines = [(f"no further threshold, {on}", without), (f"chosen threshold, {on}", exploration.chosen_at)]
    if exploration.held_out is not None:
        lines.append(("chosen threshold, held-out", exploration.held_out))
    frame = pd.DataFrame([_rates_row(name, found) for name, found in lines])
    labels = {
        "threshold": "questions accepted by",
        "false_acceptance": "unsupported accepted",
        "false_rejection": "answerable rejected",
    }
    return page(table(frame, "What the threshold does", labels=labels, bars=()))


def whole_sweep(exploration: Exploration, limit: int = ROWS) -> HTML:
    """Show every threshold at which something changes; long sweeps are thinned evenly, which the caption says."""
    sweep = exploration.sweep
    kept = np.unique(np.linspace(0, len(sweep) - 1, min(limit, len(sweep))).round().astype(int))
    rows = sweep.iloc[kept].reset_index(drop=True)
    frame = pd.DataFrame(
        {
            "threshold": ["none" if value == -np.inf else number(value, 5) for value in rows["threshold"]],
            "false_acceptances": rows["false_acceptances"],
            "false_acceptance": _with_bounds(rows, "false_acceptance"),
            "false_rejections": rows["false_rejections"],
            "false_rejection": _with_bounds(rows, "false_rejection"),
            **{name: rows[name] for name in ("coverage", "complete", "answered", "risk_incomplete")},
        }
    )
    first = sweep.iloc[0]
    counted = f"{first['n_unsupported']:.0f} unsupported, {first['n_answerable']:.0f} answerable questions"
    thinned = "" if len(kept) == len(sweep) else f"; {len(kept)} of {len(sweep)} rows"
    labels = {
        "threshold": "score above",
        "false_acceptances": "unsupported accepted",
        "false_acceptance": "rate [95 % bounds]",
        "false_rejections": "answerable rejected",
        "false_rejection": "rate [95 % bounds]",
        "answered": "share accepted",
        "risk_incomplete": "risk among accepted",
    }
    caption = f"All thresholds on {exploration.choice.chosen_on} ({counted}{thinned})"
    shown = table(frame, caption, labels=labels, bars=())
    folded = "<details><summary>Show the table: {{ n }} thresholds</summary>{{ shown }}</details>"
    return page(render(folded, n=len(frame), shown=shown))


def wrong_decisions(exploration: Exploration) -> HTML:
    """Show the questions that the chosen threshold decides wrongly, the clearest errors first."""
    linked = wrong_cases(exploration)
    parts = [_wrong(exploration.questions, exploration, exploration.choice.chosen_on, linked)]
    if exploration.held_out is not None:
        parts.append(_wrong(exploration.held_out_questions, exploration, "held-out", linked))
    return page(*parts)


def wrong_cases(exploration: Exploration) -> list[str]:
    """Name the wrongly decided questions whose evidence is shown."""
    found = pd.concat(
        [
            wrongly_decided(questions, exploration.choice.threshold)
            for questions in (exploration.questions, exploration.held_out_questions)
        ]
    )
    return [str(case_id) for case_id in found["case_id"][:DETAILED]]


def wrong_evidence(exploration: Exploration, run: Run) -> HTML:
    """Show question, facts and ranking of the wrongly decided questions."""
    chosen = wrong_cases(exploration)
    if not chosen:
        return page(banner("good", "The chosen threshold decides every question rightly."))
    return case_evidence(run, chosen, exploration.choice.k)


def _held_out_banner(exploration: Exploration, found: Rates) -> Markup:
    rule = exploration.choice.rule
    title = f"On held-out questions, {accepted_when(found.threshold)} gives: {_sentence(found)}"
    if rule.kind == "costs":
        return banner("note", title)
    limit, rate = rule.max_false_acceptance, found.false_acceptance
    if rate.rate > limit:
        return banner(
            "bad",
            f"False acceptance exceeds the limit of {limit:.1%} on held-out questions.",
            title,
        )
    sure = rate.high <= limit
    surety = (
        "" if sure else f"With n = {rate.n} it cannot be ruled out that it is as high as {rate.high:.1%}."
    )
    return banner("good" if sure else "note", title, *([surety] if surety else []))


def _limits(exploration: Exploration, run: Run) -> list[str]:
    limits = []
    if not exploration.chosen_at.false_acceptance.n:
        limits.append(
            "There are no unsupported questions, so false acceptance is unknown: add some to the data set."
        )
    seen = {exploration.choice.chosen_on: exploration.chosen_at}
    if exploration.held_out is not None:
        seen["held-out"] = exploration.held_out
    for name, found in seen.items():
        counts = {"unsupported": found.false_acceptance.n, "answerable": found.false_rejection.n}
        few = [f"{n} {kind}" for kind, n in counts.items() if 0 < n < FEW]
        if few:
            limits.append(
                f"Only {' and '.join(few)} questions in {name}: the bounds say how little that shows."
            )
    if (own := run.record.search.threshold) is not None:
        limits.append(
            f"The run kept only hits above {own:g}, so lower thresholds cannot be explored: evaluate without one."
        )
    return limits


def _sentence(found: Rates) -> str:
    acceptance, rejection = found.false_acceptance, found.false_rejection
    return (
        f"{_proportion(acceptance)} unsupported questions accepted, {_proportion(rejection)} answerable ones "
        f"rejected, complete evidence above the threshold for {number(found.complete)} of the {found.n_facts} cases "
        "with facts."
    )


def _proportion(found: Proportion) -> str:
    if not found.n:
        return "0 of 0"
    return f"{found.counted} of {found.n} ({found.rate:.1%}, 95 % bounds {found.low:.1%} to {found.high:.1%})"


def _rates_row(name: str, found: Rates) -> dict[str, object]:
    return {
        "which": name,
        "threshold": accepted_when(found.threshold),
        "false_acceptance": _proportion(found.false_acceptance),
        "false_rejection": _proportion(found.false_rejection),
        "coverage": found.coverage,
        "complete": found.complete,
        "n_facts": found.n_facts,
    }


def _wrong(questions: pd.DataFrame, exploration: Exploration, name: str, linked: list[str]) -> Markup:
    wrong = wrongly_decided(questions, exploration.choice.threshold)
    frame = wrong[["case_id", "question", "category", "score", "error"]]
    return table(
        frame,
        f"Wrongly decided on {name}: {len(wrong)} of {len(questions)} questions",
        labels={"score": "top score"},
        formats={"score": lambda value: number(value, 4)},
        bars=(),
        linked=linked,
    )


def _with_bounds(rows: pd.DataFrame, rate: str) -> list[str]:
    ends = zip(rows[rate], rows[f"{rate}_low"], rows[f"{rate}_high"], strict=True)
    return [f"{number(value)} [{number(low)}, {number(high)}]" for value, low, high in ends]


def _equal_choices(chosen: ThresholdChoice) -> str:
    ends = []
    if np.isfinite(chosen.at_least):
        ends.append(f"from {chosen.at_least:.6g} on")
    if np.isfinite(chosen.below):
        ends.append(f"below {chosen.below:.6g}")
    return f"every threshold {' and '.join(ends)} decides the same about these questions" if ends else "all"


def _counted(questions: pd.DataFrame) -> str:
    answerable = int(questions["answerable"].sum())
    return f"{answerable} answerable and {len(questions) - answerable} unsupported questions"
