"""A run in a few lines of text, for terminals and logs."""

import pandas as pd

from evalkit import comparison_words as words
from evalkit.comparison import Comparison
from evalkit.errors import some
from evalkit.measures import JUDGED, MEASURES, METRIC_LABELS, MISSING, means
from evalkit.records import accepted_when
from evalkit.runs import Run
from evalkit.statistics import p_text

COLUMNS = {"k": "K", **METRIC_LABELS, JUDGED: "judged", "n": "n", "n_facts": "n facts"}

_NOTHING_KNOWN = "no unsupported question, so nothing is known about false acceptance"


def summarize(run: Run) -> str:
    """Give the headline figures of a run.

    Parameters
    ----------
    run
        A finished run.

    Returns
    -------
    str
        Data set and model, a table of means with their n per K (under partial judgments with the judged share of
        what was returned), cases without all their evidence at the largest K, unsupported questions accepted,
        notices, and where the run lies.
    """
    record = run.record
    largest = run.cutoff()
    lines = [
        f"{record.dataset.name} (version {record.dataset.version}), {record.model.model} ({record.model.embedder}), "
        f"{record.chunking}",
        "",
        *_answerable(run, largest),
        _unsupported(run, largest),
        *record.notices,
        f"run {run.run_id} in {run.folder}",
    ]
    return "\n".join(lines)


def _answerable(run: Run, k: int) -> list[str]:
    if run.scores.empty:
        return ["no answerable question, so there is nothing to score"]
    measures = [*MEASURES, *([JUDGED] if JUDGED in run.scores else [])]
    table = means(run.scores, measures).rename(columns=COLUMNS)
    return [
        table.to_string(index=False, float_format="{:.3f}".format, na_rep=MISSING),
        "",
        _incomplete(run, k),
    ]


def _incomplete(run: Run, k: int) -> str:
    at_k = run.scores[run.scores["k"] == k]
    needed, measure, cases = "required evidence", "complete", "cases with facts"
    if at_k["complete"].isna().all():
        needed, measure, cases = "labelled text", "recall", "cases, none of which has facts"
    scored = at_k[at_k[measure].notna()]
    missing = list(scored.loc[scored[measure] < 1, "case_id"])
    if not missing:
        return f"all {needed} is in the first {k} for {len(scored)} of {len(scored)} {cases}"
    counts = f"{len(missing)} of {len(scored)}"
    return f"{needed} is missing from the first {k} in {counts} cases: {some(missing)}"


def _unsupported(run: Run, k: int) -> str:
    asked = run.questions[(run.questions["k"] == k) & ~run.questions["answerable"]]
    if asked.empty:
        return _NOTHING_KNOWN
    rule = accepted_when(run.record.search.threshold)
    return f"unsupported questions accepted at K={k}: {asked['accepted'].sum()} of {len(asked)} ({rule})"


def describe_comparison(comparison: Comparison) -> str:
    """Give the verdict on two runs, what differs between them, the mean differences, and the cases that changed.

    Parameters
    ----------
    comparison
        From `comparison.compare`.

    Returns
    -------
    str
        Differences are candidate - baseline with 95 % intervals and p of the sign-flip test; wrong decisions (false
        acceptance, false rejection) at the K of the comparison.
    """
    found = words.verdict(comparison)
    decisions = comparison.decisions[comparison.decisions["k"] == comparison.k]
    changed = comparison.cases[~comparison.cases["verdict"].isin(["same", "not compared"])]
    differs = comparison.contract.differs
    parts = [
        f"baseline {comparison.baseline.run_id}, candidate {comparison.candidate.run_id}",
        "",
        found.title,
        *found.sentences,
        "",
        differs.to_string(index=False) if len(differs) else "no setting differs",
        "",
        _differences(comparison.means),
        "",
        f"wrong decisions at K={comparison.k}, as rates",
        _differences(decisions),
        words.acceptance_rules(comparison),
        *([] if "false_acceptance" in set(decisions["metric"]) else [_NOTHING_KNOWN]),
        "",
        f"cases that changed at K={comparison.k}: {len(changed)} of {len(comparison.cases)}",
        *[
            f"  {case_id}: {verdict}"
            for case_id, verdict in zip(changed["case_id"], changed["verdict"], strict=True)
        ],
        *comparison.contract.notes,
    ]
    return "\n".join(parts)


def _differences(table: pd.DataFrame) -> str:
    columns = ["metric", "k", "n", "baseline", "candidate", "difference", "low", "high", "p", "detectable"]
    return table[columns].to_string(
        index=False, float_format="{:.3f}".format, formatters={"p": p_text}, na_rep=MISSING
    )
