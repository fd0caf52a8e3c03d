"""Figure of a sweep over hnsw_ef: what a wider beam finds, and what it takes in time."""

from typing import Any

import pandas as pd

from evalkit.plots.style import BLUE, FAINT, GREY, ORANGE, PURPLE, RED, Drawn, new_figure, styled, unit_axis

_FOUND = {
    "recall_exact": ("against exact search", {"color": BLUE, "marker": "o"}),
    "recall": ("against the labels", {"color": ORANGE, "marker": "s"}),
}
_TIMES = {
    "p50_ms": ("half within", {"color": BLUE, "marker": "o"}),
    "p90_ms": ("90 % within", {"color": PURPLE, "marker": "^"}),
    "p99_ms": ("99 % within", {"color": RED, "marker": "D"}),
    "batch_ms": ("in batches", {"color": GREY, "marker": "X"}),
}


@styled()
def beam_widths(table: pd.DataFrame) -> Drawn:
    """Draw recall and latency over the beam width, with exact search as a dashed line.

    Parameters
    ----------
    table
        As `ann.Sweep.table`: the first row is exact search.

    Returns
    -------
    Figure, str
        Two panels over a logarithmic axis of beam widths; recall against the labels is left out without labels. The
        alt text holds recall and median latency of every width.
    """
    exact, swept = table.iloc[0], table.iloc[1:]
    widths = swept["hnsw_ef"].astype("int64").tolist()
    figure, grid = new_figure(9.6, 3.9, 1, 2)
    found, times = grid[0]
    for axes, lines in ((found, _FOUND), (times, _TIMES)):
        for name, (text, style) in lines.items():
            if swept[name].notna().any():
                axes.plot(widths, swept[name], label=text, **style)
        axes.set_xscale("log", base=2)
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.minorticks_off()
        axes.set_xlabel("hnsw_ef (candidates of the approximate search)")
    unit_axis(found, "recall")
    found.set_title(f"Found (n = {int(exact['n'])} questions)")
    times.axhline(exact["p50_ms"], color=FAINT, linestyle="--", label="exact, half within")
    times.set_ylim(bottom=0)
    times.set_ylabel("milliseconds a question")
    times.set_title("Time of a request")
    _legends(found, times)
    points = [
        f"hnsw_ef {width}: recall {row['recall_exact']:.3f} of exact search, half of the requests within "
        f"{row['p50_ms']:.2f} ms"
        for width, row in zip(widths, swept.to_dict("records"), strict=True)
    ]
    return figure, (
        f"Line charts of recall and latency over hnsw_ef, {int(exact['n'])} questions. Exact search: half of the "
        f"requests within {exact['p50_ms']:.2f} ms. {'; '.join(points)}."
    )


def _legends(*panels: Any) -> None:  # noqa: ANN401 - matplotlib axes
    for axes in panels:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9)
