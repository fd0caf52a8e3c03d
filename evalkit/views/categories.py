"""Categories of questions: how many there are, how they fare, and which cases are the weakest."""

from dataclasses import dataclass

import pandas as pd
from IPython.display import HTML
from markupsafe import Markup

from evalkit.errors import refuse
from evalkit.measures import MEASURES, MISSING
from evalkit.runs import Run
from evalkit.statistics import FEW, mean_intervals
from evalkit.views.cases import weakest_first
from evalkit.views.markup import banner, page, render
from evalkit.views.tables import Row, count, number, table

ALL = "all questions"
NONE = "(no category)"
WEAKEST = 30


@dataclass(frozen=True)
class Choice:
    """What of a run is looked at: one cutoff, and cases from the weakest to the best."""

    k: int
    cases: list[str]


def choose(run: Run, k: int | None = None, category: str | None = None, limit: int = 100) -> Choice:
    """Choose a cutoff and the weakest answerable cases.

    Parameters
    ----------
    run
        A run.
    k
        A cutoff of the run; its largest by default.
    category
        Only the cases of this category; all by default.
    limit
        Cases at most.

    Raises
    ------
    InputError
        A cutoff or category that the run does not have, or a limit below 1; all of them in one text.
    """
    cutoff = run.cutoff() if k is None else k
    categories = run.scores["category"].astype("object").fillna(NONE)
    faults = []
    if cutoff not in run.record.search.ks:
        faults.append(f"k: found {k}, the run has K of {', '.join(map(str, run.record.search.ks))}")
    if category is not None and category not in set(categories):
        faults.append(
            f"category: found {category!r}, the run has {', '.join(sorted(set(categories))) or 'none'}"
        )
    if limit < 1:
        faults.append(f"cases: found {limit}, wanted at least 1")
    if faults:
        refuse(f"run {run.run_id} cannot be shown like this", faults)
    chosen = run.scores if category is None else run.scores[categories == category]
    return Choice(cutoff, weakest_first(chosen, cutoff)[:limit])


def intervals_by_category(run: Run) -> pd.DataFrame:
    """Average every measure by category and K, with intervals.

    Parameters
    ----------
    run
        A run.

    Returns
    -------
    DataFrame
        ``category, k, metric, mean, low, high, n, note``: the categories from the weakest to the best by complete
        (recall, where no case has facts) at the largest K, then all questions together.
    """
    scores = run.scores.assign(category=run.scores["category"].astype("object").fillna(NONE))
    measures = list(MEASURES)
    parts = [
        mean_intervals(scores, ("category", "k"), measures),
        mean_intervals(scores.assign(category=ALL), ("category", "k"), measures),
    ]
    order = {name: place for place, name in enumerate([*weakest_categories(run), ALL])}
    return pd.concat(parts, ignore_index=True).sort_values(
        ["category", "k"], key=lambda values: values.map(order) if values.name == "category" else values,
        kind="stable", ignore_index=True,
    )  # fmt: skip


def weakest_categories(run: Run) -> list[str]:
    """Order categories from the weakest to the best by complete, coverage, recall and nDCG at the largest K."""
    at_k = run.scores[run.scores["k"] == run.cutoff()]
    at_k = at_k.assign(category=at_k["category"].astype("object").fillna(NONE))
    table_of = at_k.groupby("category")[["complete", "coverage", "recall", "ndcg"]].mean()
    table_of["complete"] = table_of["complete"].fillna(table_of["recall"])
    return [str(name) for name in table_of.sort_values(["complete", "coverage", "recall", "ndcg"]).index]


def category_verdict(intervals: pd.DataFrame, k: int) -> HTML:
    """Say which category is the weakest at one K, how sure that is, and whether the categories differ at all."""
    named = intervals[(intervals["k"] == k) & (intervals["category"] != ALL)]
    if named.empty:
        return page(banner("warning", "No answerable question was asked, so there is nothing to compare."))
    metric = "complete" if (named["metric"] == "complete").any() and named["mean"].notna().all() else "recall"
    rows = named[named["metric"] == metric].sort_values(["mean", "category"])
    worst, best = rows.iloc[0], rows.iloc[-1]
    if worst["mean"] == best["mean"]:
        title = f"All {len(rows)} categories have the same {metric} at K = {k}: {number(worst['mean'])}."
        detail = f"Together n = {int(rows['n'].sum())}."
    else:
        title = f"{worst['category']} is the weakest category: {metric} {number(worst['mean'])} at K = {k}."
        detail = (
            f"Its 95 % interval is {_bounds(worst)} with n = {worst['n']}; the best, {best['category']}, has "
            f"{number(best['mean'])}, {_bounds(best)} with n = {best['n']}."
        )
    few = ", ".join(f"{row['category']} (n = {row['n']})" for _, row in rows[rows["n"] < FEW].iterrows())
    limit = (
        f"Fewer than {FEW} cases in {few}: one case moves such a mean by more than a tenth, "
        "and its interval is a rough hint, likely too narrow."
    )
    return page(
        banner("good" if worst["mean"] == 1 else "note", title, detail),
        banner("warning", limit) if few else Markup(""),
    )


def category_counts(run: Run) -> HTML:
    """Show how many questions and facts each category has, by split, and the unsupported questions beside them."""
    questions = run.questions.drop_duplicates("case_id")
    questions = questions.assign(
        category=questions["category"].astype("object").fillna(NONE),
        kind=questions["split"].astype("object").fillna("no split"),
    )
    answerable, unsupported = questions[questions["answerable"]], questions[~questions["answerable"]]
    splits = answerable.groupby(["category", "kind"]).size().unstack(fill_value=0)
    facts = run.facts.drop_duplicates(["case_id", "fact"]).merge(
        answerable[["case_id", "category"]], on="case_id"
    )
    frame = pd.DataFrame(
        {
            "answerable": answerable.groupby("category").size(),
            **{str(split): splits[split] for split in splits},
            "facts": facts.groupby("category").size(),
            "unsupported": unsupported.groupby("category").size(),
        }
    ).fillna(0)
    order = [
        *weakest_categories(run),
        *(name for name in frame.index if name not in set(answerable["category"])),
    ]
    frame = frame.astype("int64").reindex(order)
    frame.loc[ALL] = frame.sum()
    return page(
        table(frame.rename_axis("category").reset_index(), "Questions and facts by category", bars=())
    )


def category_table(intervals: pd.DataFrame) -> HTML:
    """Show the means of `intervals_by_category` with their intervals, a row a category and K."""
    cells = intervals.assign(cell=[_with_bounds(row) for row in intervals.to_dict("records")])
    wide = cells.pivot(index=["category", "k"], columns="metric", values="cell").reindex(
        columns=list(MEASURES)
    )
    counts = cells.pivot(index=["category", "k"], columns="metric", values="n").reindex(
        columns=list(MEASURES)
    )
    wide["n"], wide["n_facts"] = counts["recall"], counts["coverage"]
    wide = wide.reindex(pd.MultiIndex.from_frame(intervals[["category", "k"]].drop_duplicates()))
    notes = intervals[(intervals["note"] != "") & (intervals["metric"].isin(["recall", "complete"]))]
    lines = dict.fromkeys(f"{row['category']}: {row['note']}" for row in notes.to_dict("records"))
    said = render("<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>", lines=lines)
    caption = "Means by category and K: mean [95 % interval]"
    return page(table(wide.reset_index(), caption, bars=()), said if lines else Markup(""))


def weakest_cases(run: Run, choice: Choice) -> HTML:
    """Show the weakest of the chosen cases, what they miss, and from which rank on they would be complete."""
    k, order = choice.k, choice.cases[:WEAKEST]
    at_k = run.scores[run.scores["k"] == k].set_index("case_id").reindex(order)
    facts = run.facts[run.facts["k"] == k]
    missing = facts[~facts["found"]].groupby("case_id")["text"].agg("\n".join)
    frame = at_k[["category", "recall", "ndcg", "coverage", "complete"]].assign(
        complete_from=[
            _complete_from(facts[facts["case_id"] == case_id], run.record.search.depth) for case_id in order
        ],
        missing=missing.reindex(order).fillna("none"),
    )
    reached = "all facts from rank" + (
        "" if run.record.search.threshold is None else " (without the threshold)"
    )
    shown = table(
        frame.reset_index(),
        f"The {len(order)} weakest of {run.scores['case_id'].nunique()} cases at K = {k}",
        labels={"complete_from": reached, "missing": "missing facts"},
        bars=(),
        linked=choice.cases,
    )
    return page(shown)


def _complete_from(facts: pd.DataFrame, depth: int) -> str:
    if facts.empty:
        return MISSING
    if facts["lost"].any():
        return "never: lost to chunking"
    ranks = facts["rank"]
    return f"not within {depth}" if ranks.isna().any() else count(ranks.max())


def _with_bounds(row: Row) -> str:
    return MISSING if pd.isna(row["mean"]) else f"{number(row['mean'])}\n{_bounds(row)}"


def _bounds(row: Row) -> str:
    low, high = row["low"], row["high"]
    return "[no interval]" if pd.isna(low) else f"[{number(low)},\u00a0{number(high)}]"
