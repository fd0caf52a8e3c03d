"""Figures of two runs compared: differences of means with their intervals, and the cases that changed."""

import numpy as np
import pandas as pd

from evalkit.comparison import Comparison
from evalkit.errors import some
from evalkit.measures import label
from evalkit.plots.style import BLUE, FAINT, GREY, INK, METRIC_STYLES, RED, Drawn, new_figure, styled

CASES = 40


@styled()
def mean_differences(comparison: Comparison) -> Drawn:
    """Draw the difference of every mean at every K with its 95 % interval.

    Parameters
    ----------
    comparison
        What `comparison.compare` gave.

    Returns
    -------
    Figure, str
        A row a measure and K: a point, and a bar from low to high where there is an interval; right of the line at 0
        the candidate is better.
    """
    table = comparison.means[comparison.means["difference"].notna()].reset_index(drop=True)
    figure, grid = new_figure(8.0, 0.27 * max(3, len(table)) + 1.1)
    axes = grid[0, 0]
    places = np.arange(len(table))
    axes.axvline(0, color=INK, linewidth=1.2)
    for place, row in zip(places, table.to_dict("records"), strict=True):
        style = METRIC_STYLES.get(row["metric"], {"color": GREY, "marker": "o"})
        axes.hlines(place, row["low"], row["high"], color=style["color"], linewidth=5, alpha=0.45)
        axes.plot(row["difference"], place, linestyle="none", **style)
    axes.set_yticks(places, [f"{label(row['metric'])}@{row['k']}" for row in table.to_dict("records")])
    axes.set_ylim(max(1, len(table)) - 0.4, -0.6)
    reach = np.abs(table[["low", "high", "difference"]].to_numpy(dtype=np.float64))
    widest = 1.12 * max([0.01, *reach[np.isfinite(reach)]])
    axes.set_xlim(-widest, widest)
    axes.set_xlabel("candidate worse  ←  difference of means  →  candidate better")
    axes.set_title(f"Candidate minus baseline, 95 % intervals (n = {_ns(table)})")
    at_k = table[table["k"] == comparison.k]
    words = [
        f"{label(row['metric'])} {row['difference']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})"
        for row in at_k.to_dict("records")
    ]
    return figure, (
        f"Differences of means with 95 % intervals, {len(table)} measures and K. At K = {comparison.k}: "
        + ("; ".join(words) or "none")
        + "."
    )


@styled()
def changed_cases(comparison: Comparison, limit: int = CASES) -> Drawn:
    """Draw what changed for each case, the worst at the top.

    Parameters
    ----------
    comparison
        What `comparison.compare` gave.
    limit
        Cases at most: as many of the worst as of the best when there are more.

    Returns
    -------
    Figure, str
        A bar a case for its difference of coverage (recall for a case without facts), a marker for that of nDCG where
        chunks are compared.
    """
    cases = comparison.cases[~comparison.cases["verdict"].isin(["same", "not compared"])]
    shown = cases if len(cases) <= limit else pd.concat([cases.head(limit // 2), cases.tail(limit // 2)])
    evidence = shown["coverage_difference"]
    if comparison.contract.chunks_comparable:
        evidence = evidence.fillna(shown["recall_difference"])
    figure, grid = new_figure(8.0, 0.27 * max(3, len(shown)) + 1.3)
    axes = grid[0, 0]
    places = np.arange(len(shown))
    colors = [RED if value < 0 else BLUE for value in evidence]
    axes.axvline(0, color=INK, linewidth=1.2)
    axes.barh(places, evidence, color=colors, height=0.62, alpha=0.75, label="required evidence (coverage)")
    if comparison.contract.chunks_comparable:
        axes.plot(shown["ndcg_difference"], places, "D", color=INK, markersize=4.5, label="nDCG")
    axes.set_yticks(places, list(shown["case_id"]), fontsize=8)
    axes.set_ylim(max(1, len(shown)) - 0.4, -0.6)
    axes.set_xlim(-1.05, 1.05)
    axes.set_xlabel("candidate worse  ←  difference of the case  →  candidate better")
    axes.set_title(
        f"Cases that changed at K = {comparison.k} ({len(cases)} of {len(comparison.cases)})", pad=24
    )
    if len(shown):
        axes.legend(
            loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=2, borderaxespad=0.0, labelcolor=INK
        )
    else:
        axes.text(0, 0, "no case changed", ha="center", color=FAINT)
    counts = comparison.cases["verdict"].value_counts()
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    worst = some(cases.loc[cases["verdict"] == "worse", "case_id"])
    return figure, (
        f"Bars of the difference of required evidence for the {len(cases)} of {len(comparison.cases)} cases that "
        f"changed at K = {comparison.k}: {words}. Worst: {worst}."
    )


def _ns(table: pd.DataFrame) -> str:
    counts = sorted(table["n"].unique())
    return " to ".join(str(n) for n in dict.fromkeys([counts[0], counts[-1]])) if counts else "0"
