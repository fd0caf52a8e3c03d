"""What all figures share: colours, markers, names of the measures, and showing a figure with its alt text.

Figures are made without pyplot: no state is left behind, and a figure never appears twice in a notebook.
Colours are those of Petroff's six-colour sequence; a marker and a direct label always stand beside a colour.
"""

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy
from numpy.typing import NDArray

BLUE, ORANGE, RED, PURPLE, GREY, VIOLET = "#5790fc", "#f89c20", "#e42536", "#964a8b", "#9c9ca1", "#7a21dd"
PALETTE = (BLUE, ORANGE, RED, PURPLE, VIOLET, GREY)
MARKERS = ("o", "s", "^", "D", "v", "X")
INK = "#22262b"
FAINT = "#6b7076"
LABEL_GAP = 0.06  # smallest distance of two labels at the ends of lines, in units of a 0..1 axis

Drawn = tuple[Figure, str]
"""A figure and its alt text."""

METRIC_STYLES: dict[str, dict[str, Any]] = {
    "precision": {"color": GREY, "marker": "o"},
    "recall": {"color": ORANGE, "marker": "s"},
    "reciprocal_rank": {"color": PURPLE, "marker": "^"},
    "ndcg": {"color": BLUE, "marker": "D"},
    "coverage": {"color": VIOLET, "marker": "v"},
    "complete": {"color": RED, "marker": "X"},
}
"""Colour and marker of each measure, the same in every figure."""

_RC: Any = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e5e8",
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "font.size": 10,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "legend.frameon": False,
    "text.parse_math": False,  # a category such as "$5 or $10" is no formula
}


@contextmanager
def styled() -> Iterator[None]:
    """Apply the shared style while a figure is drawn; also a decorator (``@styled()``)."""
    with mpl.rc_context(_RC):
        yield


def new_figure(
    width: float = 8.0,
    height: float = 4.2,
    rows: int = 1,
    columns: int = 1,
    **subplots: Any,  # noqa: ANN401 - passed on to Figure.subplots
) -> tuple[Figure, NDArray[np.object_]]:
    """Make a figure with a grid of axes.

    Parameters
    ----------
    width, height
        Inches of the whole figure.
    rows, columns
        The grid, each at least 1.
    **subplots
        Passed on to ``Figure.subplots``, such as ``sharey=True``.

    Returns
    -------
    Figure, array of Axes
        The array is always two-dimensional, ``(rows, columns)``.
    """
    with styled():
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **subplots)
    return figure, axes


def unit_axis(axes: Axes, label: str = "", axis: str = "y") -> None:
    """Give an axis the full range 0..1 with a little room, so that markers at 0 and 1 are whole."""
    ticks = np.linspace(0, 1, 6)
    if axis == "y":
        axes.set_ylim(-0.04, 1.04)
        axes.set_yticks(ticks)
        axes.set_ylabel(label)
    else:
        axes.set_xlim(-0.04, 1.04)
        axes.set_xticks(ticks)
        axes.set_xlabel(label)


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Move values apart, so that labels at them do not overlap.

    Parameters
    ----------
    values
        Positions wanted, in any order, none NaN.
    gap
        Smallest distance allowed between two of them, above 0.

    Returns
    -------
    list of float
        Positions in the order of ``values``, at least ``gap`` apart, as near to the wanted ones as a
        block of touching labels around their own mean gives. Empty for no values.
    """
    order = sorted(range(len(values)), key=lambda index: values[index])
    blocks: list[list[int]] = []
    centres: list[float] = []
    for index in order:
        blocks.append([index])
        centres.append(values[index])
        while len(blocks) > 1 and centres[-1] - centres[-2] < gap * (len(blocks[-1]) + len(blocks[-2])) / 2:
            merged = blocks[-2] + blocks[-1]
            blocks[-2:] = [merged]
            centres[-2:] = [sum(values[one] for one in merged) / len(merged)]
    placed = [0.0] * len(values)
    for block, centre in zip(blocks, centres, strict=True):
        for position, index in enumerate(block):
            placed[index] = centre + gap * (position - (len(block) - 1) / 2)
    return placed


def label_ends(
    axes: Axes,
    x: float,
    ends: Sequence[tuple[float, str]],
    styles: Sequence[Mapping[str, Any]],
) -> None:
    """Write labels to the right of where lines end, apart from each other.

    Parameters
    ----------
    axes
        Axes with the lines; the y range should be set before.
    x
        Where the lines end, in data units.
    ends
        ``(y, text)`` of each line.
    styles
        Colour and marker of each line, repeated before its label, since labels may stand away from their lines.
    """
    figure = axes.get_figure(root=True)
    marks, words = (offset_copy(axes.transData, fig=figure, x=points, units="points") for points in (16, 24))
    for (_, text), y, style in zip(ends, spread([y for y, _ in ends], LABEL_GAP), styles, strict=True):
        axes.add_artist(Line2D([x], [y], linestyle="none", transform=marks, clip_on=False, **style))
        axes.text(x, y, text, transform=words, va="center", color=INK, clip_on=False)


def png(figure: Figure, dpi: int = 144) -> bytes:
    """Render a figure to PNG bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def show(figure: Figure, alt: str) -> None:
    """Show a figure in a notebook, with a text for those who do not see it.

    Parameters
    ----------
    figure
        What to show; drawn at twice the resolution of the page.
    alt
        What the figure says, with its main numbers, not only what kind it is; goes to the ``alt`` metadata of
        the image and is the plain-text form of the output.
    """
    image = base64.b64encode(png(figure)).decode("ascii")
    metadata = {"alt": alt, "width": round(figure.get_figwidth() * 96)}
    display({"image/png": image, "text/plain": alt}, raw=True, metadata={"image/png": metadata})  # type: ignore[no-untyped-call]
