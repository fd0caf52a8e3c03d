"""Figures of scores and of what was indexed; each function returns the figure and its alt text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from evalkit.measures import METRIC_LABELS
from evalkit.plots.style import (
    BLUE,
    FAINT,
    INK,
    METRIC_STYLES,
    ORANGE,
    Drawn,
    label_ends,
    new_figure,
    styled,
    unit_axis,
)

ASIDE = 0.05  # distance of lines with intervals, in units of the distance of two K
ANALYSED = ("recall", "ndcg", "coverage", "complete")


@styled()
def metrics_over_k(intervals: pd.DataFrame) -> Drawn:
    """Draw every measure over K with its intervals.

    Parameters
    ----------
    intervals
        ``k, metric, mean, low, high, n``, as `intervals.mean_intervals` gives them by K.

    Returns
    -------
    Figure, str
        Lines with a marker and a bar from low to high at each K, side by side, and a label at their end; a measure
        without values is left out and named.
    """
    n = int(intervals["n"].max()) if len(intervals) else 0
    present = intervals[intervals["mean"].notna()]
    measured = [name for name in METRIC_LABELS if (present["metric"] == name).any()]
    table = present.pivot(index="k", columns="metric", values="mean").reset_index()
    figure, grid = new_figure(8.0, 4.4)
    axes = grid[0, 0]
    unit_axis(axes, "mean over cases")
    _lines_over_k(axes, table, measured, present)
    if len(table):
        last = table.iloc[-1]
        ends = [(float(last[name]), f"{METRIC_LABELS[name]} {last[name]:.3f}") for name in measured]
        label_ends(
            axes, len(table) - 1 + ASIDE * len(measured) / 2, ends, [METRIC_STYLES[name] for name in measured]
        )
    missing = [METRIC_LABELS[name] for name in METRIC_LABELS if name not in measured]
    left_out = f"; without values: {', '.join(missing)}" if missing else ""
    axes.set_title(f"Means over K with 95 % intervals (n = {n} cases{left_out})")
    rows = [f"K = {row['k']}: {_spoken(row, measured, 3)}" for row in table.to_dict("records")]
    last = present[present["k"] == present["k"].max()].set_index("metric").reindex(measured)
    bounds = ", ".join(
        f"{METRIC_LABELS[str(name)]} {low:.3f} to {high:.3f}"
        for name, low, high in zip(last.index, last["low"], last["high"], strict=True)
    )
    spoken = "; ".join(rows) + (f". 95 % intervals at the largest K: {bounds}." if bounds else ".")
    return figure, f"Line chart of means over {n} cases by K{left_out}. {spoken}"


@styled()
def categories_over_k(intervals: pd.DataFrame) -> Drawn:
    """Draw one small chart a category with its means over K.

    Parameters
    ----------
    intervals
        ``category, k, metric, mean, n``, as `intervals.mean_intervals` gives them;
        categories are drawn in their order.

    Returns
    -------
    Figure, str
        Charts of the `ANALYSED` measures with shared axes, each with its n; measures without values are left out.
    """
    names = list(dict.fromkeys(intervals["category"]))
    counts = intervals.groupby("category")["n"].max()
    means = intervals.pivot(index=["category", "k"], columns="metric", values="mean").reset_index()
    measured = [name for name in ANALYSED if name in means and means[name].notna().any()]
    columns = min(3, max(1, len(names)))
    rows = max(1, -(-len(names) // columns))
    figure, grid = new_figure(3.1 * columns + 0.6, 2.5 * rows + 0.6, rows, columns, sharex=True, sharey=True)
    texts = []
    panels: list[Any] = list(grid.flat)
    for axes, name in zip(panels, names, strict=False):
        table = means[means["category"] == name].sort_values("k", ignore_index=True)
        unit_axis(axes)
        _lines_over_k(axes, table, measured)
        axes.set_title(f"{name} (n = {counts[name]})", fontsize=10)
        last = table.iloc[-1]
        texts.append(f"{name} (n = {counts[name]}) at K = {last['k']}: {_spoken(last, measured, 2)}")
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(names) - columns) : len(names)]:
        axes.tick_params(labelbottom=True)
    if names and measured:
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(measured))
    return figure, "Small line charts of means over K, one a category. " + "; ".join(texts) + "."


@styled()
def category_intervals(intervals: pd.DataFrame, k: int) -> Drawn:
    """Draw the mean of each category with its interval, a panel for each of the `ANALYSED` measures.

    Parameters
    ----------
    intervals
        ``category, metric, mean, low, high, n`` at one K, as `intervals.mean_intervals` gives them; categories are
        drawn from top to bottom in their order.
    k
        The cutoff, for the title.

    Returns
    -------
    Figure, str
        A point a mean, a bar from low to high, n beside the name of the category.
    """
    present = intervals[intervals["mean"].notna()]
    measured = [name for name in ANALYSED if (present["metric"] == name).any()]
    names = list(dict.fromkeys(intervals["category"]))
    counts: dict[Any, int] = intervals.groupby("category")["n"].max().to_dict()
    height = 0.42 * max(1, len(names)) + 1.3
    figure, grid = new_figure(9.4, height, 1, max(1, len(measured)), sharey=True)
    for axes, metric in zip(grid[0], measured, strict=False):
        rows = present[present["metric"] == metric].set_index("category").reindex(names)
        places = np.arange(len(names))
        style = METRIC_STYLES[metric]
        axes.hlines(places, rows["low"], rows["high"], color=style["color"], linewidth=5, alpha=0.45)
        axes.plot(rows["mean"], places, linestyle="none", **style)
        for place, (name, row) in zip(places, rows.iterrows(), strict=True):
            if pd.notna(row["mean"]):
                own = "" if row["n"] == counts[name] else f" (n = {row['n']:.0f})"
                axes.annotate(
                    f"{row['mean']:.2f}{own}",
                    (row["mean"], place),
                    (0, 7),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                )
        unit_axis(axes, axis="x")
        axes.set_title(METRIC_LABELS[metric])
        axes.set_ylim(len(names) - 0.4, -0.7)
    grid[0, 0].set_yticks(np.arange(len(names)), [f"{name}\nn = {counts[name]}" for name in names])
    figure.supxlabel(f"mean at K = {k} with 95 % interval", fontsize=9, color=FAINT)
    spoken = [
        f"{row['category']} {METRIC_LABELS[row['metric']]} {row['mean']:.2f} "
        f"[{row['low']:.2f}, {row['high']:.2f}] (n = {row['n']})"
        for row in present[present["metric"].isin(measured)].to_dict("records")
    ]
    return figure, f"Means by category at K = {k} with 95 % intervals: " + "; ".join(spoken) + "."


@styled()
def chunk_lengths(words: Sequence[int], eligible: Sequence[bool]) -> Drawn:
    """Draw how long the chunks are.

    Parameters
    ----------
    words
        Words of each chunk.
    eligible
        Whether each may be returned.

    Returns
    -------
    Figure, str
        Histogram of all chunks, eligible ones apart from the others by colour and hatching.
    """
    lengths, allowed = np.asarray(words, dtype=np.int64), np.asarray(eligible, dtype=bool)
    figure, grid = new_figure(8.0, 3.2)
    axes = grid[0, 0]
    if not len(lengths):
        axes.set_title("Length of chunks (n = 0)")
        return figure, "Histogram of chunk lengths: there are no chunks."
    width = max(1, -(-int(np.ptp(lengths) + 1) // 30))
    edges = np.arange(lengths.min(), lengths.max() + width + 1, width) - 0.5
    parts = [lengths[allowed], lengths[~allowed]]
    labels = [f"eligible (n = {len(parts[0])})", f"not eligible (n = {len(parts[1])})"]
    axes.hist(
        parts, edges, stacked=True, color=[BLUE, ORANGE], hatch=["", "///"], edgecolor="white", label=labels
    )
    median = float(np.median(lengths))
    axes.axvline(median, color=INK, linestyle="--", linewidth=1.2)
    axes.annotate(
        f"median {median:g}", (median, 1), (4, -2), xycoords=("data", "axes fraction"),
        textcoords="offset points", va="top",
    )  # fmt: skip
    axes.set_title(f"Length of chunks (n = {len(lengths)})")
    axes.set_xlabel("words in a chunk")
    axes.set_ylabel("chunks")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure, (
        f"Histogram of the words of {len(lengths)} chunks, {int(allowed.sum())} of them eligible: shortest "
        f"{lengths.min()}, median {median:g}, longest {lengths.max()} words."
    )


def _lines_over_k(
    axes: Axes, table: pd.DataFrame, measured: Sequence[str], intervals: pd.DataFrame | None = None
) -> None:
    """Draw lines over evenly spaced K; equal values stay visible.

    Markers shrink from line to line; with intervals the lines stand side by side instead.
    """
    places = np.arange(len(table))
    for index, name in enumerate(measured):
        size = 11.0 - 6.0 * index / max(1, len(measured) - 1)
        at = places.astype(np.float64)
        if intervals is not None:
            size = 6.0
            at += ASIDE * (index - (len(measured) - 1) / 2)
            bounds = intervals[intervals["metric"] == name].set_index("k").reindex(table["k"])
            axes.vlines(
                at, bounds["low"], bounds["high"], color=METRIC_STYLES[name]["color"], linewidth=4, alpha=0.4
            )
        axes.plot(at, table[name], label=METRIC_LABELS[name], markersize=size, **METRIC_STYLES[name])
    axes.set_xticks(places, [f"K = {k}" for k in table["k"]])
    axes.set_xlim(-0.3, max(0.3, len(table) - 0.7))


def _spoken(row: Any, measured: Sequence[str], digits: int) -> str:  # noqa: ANN401 - a table row
    return ", ".join(
        f"{METRIC_LABELS[name]} {row[name]:.{digits}f}" for name in measured if pd.notna(row[name])
    )
