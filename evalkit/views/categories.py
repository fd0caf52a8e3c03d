"""Categories of questions: how many there are, how they fare, and which cases are the weakest."""

from dataclasses import dataclass

import pandas as pd
from IPython.display import HTML
from markupsafe import Markup

from evalkit.errors import refuse
from evalkit.intervals import FEW, Interval, difference_of_means, mean_interval, mean_intervals
from evalkit.measures import MEASURES, MISSING, TABLE_ORDER, label
from evalkit.runs import Run
from evalkit.statistics import ALPHA, lowest_group, p_text
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


def category_verdict(run: Run, k: int) -> HTML:
    """Say which category is weaker than the rest at one K, by how much, and when the questions cannot tell."""
    scores = run.scores[run.scores["k"] == k]
    scores = scores.assign(category=scores["category"].astype("object").fillna(NONE))
    if scores.empty:
        return page(banner("warning", "No answerable question was asked, so there is nothing to compare."))
    metric = "complete" if scores.groupby("category")["complete"].count().all() else "recall"
    scores = scores[scores[metric].notna()]
    sizes = scores["category"].value_counts().sort_index()
    few = ", ".join(f"{name} (n = {n})" for name, n in sizes.items() if n < FEW)
    limit = f"Fewer than {FEW} cases in {few}: one case moves such a mean by more than a tenth."
    return page(
        _against_the_rest(scores, metric, k),
        banner("warning", limit) if few else Markup(""),
    )


def _against_the_rest(scores: pd.DataFrame, metric: str, k: int) -> Markup:
    means = scores.groupby("category")[metric].mean()
    values = scores[metric].to_numpy(dtype="float64")
    if means.nunique() == 1:
        title = f"All categories have the same {metric} at K = {k}: {number(means.iloc[0])}."
        if len(means) == 1:
            title = f"There is one category only, {means.index[0]}, so there is nothing to compare."
        return banner("good" if (values == 1).all() else "note", title, f"Together n = {len(values)}.")
    name, p = lowest_group(values, list(scores["category"]))
    inside = (scores["category"] == name).to_numpy()
    own, rest = mean_interval(values[inside]), mean_interval(values[~inside])
    apart = difference_of_means(own, rest)
    title = f"{name} is weaker than the rest: {metric} {number(own.mean)} at K = {k}, against {number(rest.mean)}."
    surety = "more than chance explains"
    if p > ALPHA:
        title = f"No category is shown to be weaker than the rest at K = {k}."
        surety = "which can be chance"
    figures = (
        f"Farthest below the rest is {name}: {metric} {_mean_of(own)}, the rest {_mean_of(rest)}. "
        f"Difference {apart.mean:+.3f}, 95 % interval [{apart.low:+.3f}, {apart.high:+.3f}]."
    )
    test = (
        f"p-value {p_text(p)}, {surety}; it allows for having picked the lowest of {len(means)} categories."
    )
    return banner("warning" if p <= ALPHA else "note", title, figures, test)


def _mean_of(interval: Interval) -> str:
    return f"{number(interval.mean)} [{number(interval.low)}, {number(interval.high)}] (n = {interval.n})"


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
        columns=list(TABLE_ORDER)
    )
    counts = cells.pivot(index=["category", "k"], columns="metric", values="n").reindex(
        columns=list(TABLE_ORDER)
    )
    wide["n"], wide["n_facts"] = counts["recall"], counts["coverage"]
    wide = wide.reindex(pd.MultiIndex.from_frame(intervals[["category", "k"]].drop_duplicates()))
    caption = "Means by category and K: mean [95 % interval]"
    return page(table(wide.reset_index(), caption, bars=()), _notes(intervals))


def weakest_cases(run: Run, choice: Choice) -> HTML:
    """Show the weakest of the chosen cases, what they miss, and from which rank on they would be complete."""
    k, order = choice.k, choice.cases[:WEAKEST]
    at_k = run.scores[run.scores["k"] == k].set_index("case_id").reindex(order)
    facts = run.facts[run.facts["k"] == k]
    missing = facts[~facts["found"]].groupby("case_id")["text"].agg("\n".join)
    frame = at_k[["complete", "coverage", "recall", "ndcg", "category"]].assign(
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


def _notes(intervals: pd.DataFrame) -> Markup:
    """List what limits the intervals, each note once a category, with the means that it concerns."""
    noted = intervals[(intervals["note"] != "") & (intervals["n"] > 0)]
    lines = []
    for (category, note), rows in noted.groupby(["category", "note"], sort=False):
        concerned = "; ".join(
            f"{label(str(metric))} at K = {', '.join(map(str, of_metric['k']))}"
            for metric, of_metric in rows.groupby("metric", sort=False)
        )
        lines.append(f"{category}, {concerned}: {note}.")
    return render(
        "{% if lines %}<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>{% endif %}",
        lines=lines,
    )


def _with_bounds(row: Row) -> str:
    if pd.isna(row["mean"]):
        return MISSING
    return f"{number(row['mean'])}\n[{number(row['low'])},\u00a0{number(row['high'])}]"
