"""Figure of several chunkings: evidence found against the words of context it costs."""

import pandas as pd

from evalkit.measures import EVIDENCE, METRIC_LABELS
from evalkit.plots.style import INK, MARKERS, PALETTE, Drawn, new_figure, styled, unit_axis


@styled()
def evidence_over_words(summary: pd.DataFrame) -> Drawn:
    """Draw coverage and complete over the mean words of context, a line a chunking and a point a K.

    Parameters
    ----------
    summary
        A row a chunking and K: ``chunking, k, words, coverage, complete, n``, as `chunkings.summarise` gives it.

    Returns
    -------
    Figure, str
        Two panels with K at each point of the first chunking's line and a shared legend; up and to the left is
        better. The alt text holds every point.
    """
    names = list(dict.fromkeys(summary["chunking"]))
    n = int(summary["n"].max()) if len(summary) else 0
    figure, grid = new_figure(9.4, 4.2, 1, len(EVIDENCE), sharey=True, sharex=True)
    for axes, measure in zip(grid[0], EVIDENCE, strict=True):
        for position, name in enumerate(names):
            rows = summary[summary["chunking"] == name].sort_values("words")
            color, marker = PALETTE[position % len(PALETTE)], MARKERS[position % len(MARKERS)]
            axes.plot(rows["words"], rows[measure], color=color, marker=marker, label=name)
            for words, value, k in zip(rows["words"], rows[measure], rows["k"], strict=True):
                below = (0, -13) if position % 2 else (0, 7)
                axes.annotate(
                    str(k),
                    (words, value),
                    below,
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                    color=INK,
                )
        unit_axis(axes, METRIC_LABELS[measure] if measure == EVIDENCE[0] else "")
        axes.set_ylabel("mean over cases" if measure == EVIDENCE[0] else "")
        axes.set_xlim(left=0)
        axes.set_xlabel("words of context (mean); number at a point: K")
        axes.set_title(f"{METRIC_LABELS[measure]} (n = {n} cases)")
    if names:
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    points = [
        f"{row['chunking']}, K = {row['k']}: {row['words']:.0f} words, coverage {row['coverage']:.3f}, "
        f"complete {row['complete']:.3f}"
        for row in summary.to_dict("records")
    ]
    return figure, f"Line chart of evidence found over words of context, {n} cases. " + "; ".join(
        points
    ) + "."
