"""What a comparison of two runs says in sentences, the same on pages and in terminals."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import pandas as pd

from evalkit.comparison import Comparison
from evalkit.measures import METRIC_LABELS, MISSING
from evalkit.records import accepted_when
from evalkit.statistics import ALPHA, least_changed_cases, p_text


class Verdict(NamedTuple):
    """Whether the candidate finds more or less of the evidence: how good that is, a title, and sentences on it."""

    kind: Literal["good", "warning", "note"]
    title: str
    sentences: tuple[str, ...]


def verdict(comparison: Comparison) -> Verdict:
    """Judge by complete (recall, where no case has facts) at the K of the comparison.

    Parameters
    ----------
    comparison
        What `comparison.compare` gave.

    Returns
    -------
    Verdict
        Difference with interval, p-value and n; the cases better and worse; what this n could detect. Not good
        where the candidate accepts more unsupported questions.
    """
    row = _headline(comparison)
    if row is None:
        return Verdict("warning", "No case has a figure in both runs, so there is nothing to compare.", ())
    kind, title = _title(row)
    figures = (
        f"Difference {signed(row['difference'])}, 95 % interval {interval(row)}, p-value {p_text(row['p'])}, "
        f"n = {row['n']}."
    )
    counts = comparison.cases["verdict"].value_counts()
    lost, gained = (int((comparison.facts["change"] == change).sum()) for change in ("lost", "gained"))
    found = (
        f"{counts.get('worse', 0)} cases have less of their evidence, {counts.get('better', 0)} have more; "
        f"{lost} facts lost, {gained} gained."
    )
    note = sentence(row["note"]) if row["better"] or row["worse"] else ""
    sentences = [f"{figures} {found}", f"{_power(row)} {note}".strip()]
    if more := _more_accepted(comparison):
        kind = "warning" if kind == "good" else kind
        sentences.append(more)
    return Verdict(kind, title, tuple(sentences))


def acceptance_rules(comparison: Comparison) -> str:
    """Say by which rule each run accepts a question, and which way a difference of wrong decisions is worse."""
    rules = [
        accepted_when(run.record.search.threshold) for run in (comparison.baseline, comparison.candidate)
    ]
    return (
        f"Accepted in the baseline: {rules[0]}; in the candidate: {rules[1]}. A positive difference is worse."
    )


def interval(row: Mapping[Any, Any]) -> str:
    """Write the bounds of a difference, missing ones as a dash."""
    return MISSING if pd.isna(row["low"]) else f"[{signed(row['low'])}, {signed(row['high'])}]"


def signed(value: float) -> str:
    """Write a difference with its sign, a missing one as a dash."""
    if pd.isna(value):
        return MISSING
    return "0.000" if abs(value) < 0.0005 else f"{value:+.3f}"


def sentence(note: str) -> str:
    """Make a sentence of a note."""
    return f"{note[:1].upper()}{note[1:]}." if note else ""


def _headline(comparison: Comparison) -> dict[Any, Any] | None:
    at_k = comparison.means[(comparison.means["k"] == comparison.k) & (comparison.means["n"] > 0)]
    for metric in ("complete", "recall"):
        rows = at_k[at_k["metric"] == metric].to_dict("records")
        if rows:
            return rows[0]
    return None


def _more_accepted(comparison: Comparison) -> str:
    """Say that more unsupported questions are accepted; empty when they are not, or there are none."""
    rows = comparison.decisions
    rows = rows[
        (rows["metric"] == "false_acceptance") & (rows["k"] == comparison.k) & (rows["difference"] > 0)
    ]
    return "".join(
        f"But more unsupported questions are accepted: {row['baseline']:.3f} → {row['candidate']:.3f} of {row['n']}, "
        f"p-value {p_text(row['p'])}."
        for row in rows.to_dict("records")
    )


def _title(row: Mapping[Any, Any]) -> tuple[Literal["good", "warning", "note"], str]:
    name, change = f"{METRIC_LABELS[row['metric']]}@{row['k']}", row["difference"]
    if not row["better"] and not row["worse"]:
        return "note", f"{name} is the same for every case: {row['baseline']:.3f} in both runs."
    told_apart = row["p"] <= ALPHA
    word = "the same" if change == 0 else "higher" if change > 0 else "lower"
    surety = "more than chance explains" if told_apart else "which can be chance"
    values = f"{row['baseline']:.3f} → {row['candidate']:.3f}"
    kind: Literal["good", "warning"] = "good" if change > 0 else "warning"
    return kind if told_apart else "note", f"{name} is {word} in the candidate, {surety}: {values}."


def _power(row: Mapping[Any, Any]) -> str:
    least = least_changed_cases()
    if row["n"] < least:
        return f"With n = {row['n']} nothing can be told from chance: at least {least} cases would have to change."
    if pd.isna(row["detectable"]):
        return f"Of the {row['n']} cases at least {least} must change in one direction before chance is unlikely."
    return f"With this n and spread, a true difference of less than {row['detectable']:.3f} is easily missed."
