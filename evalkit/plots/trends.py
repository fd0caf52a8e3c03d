"""Figure of means over runs."""

from typing import Any

import pandas as pd

from evalkit.measures import EVIDENCE, METRIC_LABELS
from evalkit.plots.style import (
    FAINT,
    MARKERS,
    PALETTE,
    Drawn,
    new_figure,
    styled,
    unit_axis,
)

TICKS = 6


@styled()
def metric_trends(table: pd.DataFrame) -> Drawn:
    """Draw each measure over runs, a line a K.

    Parameters
    ----------
    table
        A row a run and K: ``started, run_id, k``, the measures, ``n`` and ``n_facts`` (that of coverage and
        complete), the oldest run first.

    Returns
    -------
    Figure, str
        A small chart a measure, runs at equal distances in their order; a measure without values is left out, a
        run without some K has no point there. The alt text names first and last value at the largest K.
    """
    runs = list(dict.fromkeys(table["run_id"]))
    ks = sorted(set(table["k"]))
    measured = [name for name in METRIC_LABELS if table[name].notna().any()]
    rows = max(1, -(-len(measured) // 2))
    figure, grid = new_figure(9.6, 2.3 * rows + 0.5, rows, 2, sharex=True, sharey=True)
    panels: list[Any] = list(grid.flat)
    texts = []
    for axes, metric in zip(panels, measured, strict=False):
        unit_axis(axes)
        values = table.pivot(index="run_id", columns="k", values=metric).reindex(index=runs, columns=ks)
        for position, k in enumerate(ks):
            axes.plot(
                range(len(runs)),
                values[k],
                color=PALETTE[position % len(PALETTE)],
                marker=MARKERS[position % len(MARKERS)],
                markersize=4.5,
                label=f"K = {k}",
            )
        n = int(table["n_facts" if metric in EVIDENCE else "n"].max())
        axes.set_title(f"{METRIC_LABELS[metric]} (n = {n})", fontsize=10)
        largest = values[ks[-1]].dropna()
        if len(largest):
            texts.append(
                f"{METRIC_LABELS[metric]} (n = {n}) from {largest.iloc[0]:.3f} to {largest.iloc[-1]:.3f}"
            )
    for axes in panels[len(measured) :]:
        axes.set_visible(False)
    started = table.drop_duplicates("run_id").set_index("run_id")["started"]
    step = max(1, -(-len(runs) // TICKS))
    shown = range(0, len(runs), step)
    for axes in panels[: len(measured)]:
        axes.set_xticks(
            list(shown), [f"{started[runs[at]]:%m-%d\n%H:%M}" for at in shown], color=FAINT, fontsize=8
        )
    if measured:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=len(ks))
    return figure, (
        f"Line charts of means over {len(runs)} runs, one a measure and a line a K. "
        f"At K = {ks[-1]}, first to last run: {'; '.join(texts)}."
    )
