"""Figures: style, labels that do not overlap, texts for those who do not see them."""

import base64

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from evalkit.intervals import mean_intervals
from evalkit.measures import MEASURES, METRIC_LABELS
from evalkit.plots import scores as figures
from evalkit.plots.style import (
    INK,
    METRIC_STYLES,
    label_ends,
    new_figure,
    show,
    spread,
    unit_axis,
)

values = st.lists(st.floats(0, 1), max_size=12)


def a_table() -> pd.DataFrame:
    """Two categories at K = 1 and 3; the second has no facts."""
    rows = [
        ("a1", "alpha", 1, 1.0, 0.5, 1.0, 1.0, 0.5, 0.0),
        ("a2", "alpha", 1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        ("b1", "beta", 1, 1.0, 1.0, 1.0, 1.0, None, None),
        ("a1", "alpha", 3, 0.5, 1.0, 1.0, 0.9, 1.0, 1.0),
        ("a2", "alpha", 3, 0.25, 0.5, 0.5, 0.4, 0.5, 0.0),
        ("b1", "beta", 3, 0.3, 1.0, 1.0, 1.0, None, None),
    ]
    return pd.DataFrame(rows, columns=["case_id", "category", "k", *MEASURES])


@given(values, st.floats(0.01, 0.3))
def test_spread_keeps_the_gap_and_the_order(wanted, gap):
    placed = spread(wanted, gap)
    order = np.argsort(wanted, kind="stable")
    distances = np.diff(np.asarray(placed)[order])
    assert (distances >= gap - 1e-9).all()
    assert len(placed) == len(wanted)


@given(values, st.floats(0.01, 0.3))
def test_spread_leaves_alone_what_is_far_enough_apart(wanted, gap):
    if len(wanted) < 2 or np.diff(np.sort(wanted)).min() >= gap:
        assert spread(wanted, gap) == pytest.approx(wanted)


def test_spread_centres_a_block_on_what_was_wanted():
    assert spread([1.0, 1.0, 1.0], 0.1) == pytest.approx([0.9, 1.0, 1.1])
    assert spread([], 0.1) == []


def test_each_measure_has_its_own_colour_and_marker():
    assert set(METRIC_STYLES) == set(METRIC_LABELS) == set(MEASURES)
    assert len({style["color"] for style in METRIC_STYLES.values()}) == len(MEASURES)
    assert len({style["marker"] for style in METRIC_STYLES.values()}) == len(MEASURES)


def test_labels_at_the_end_of_lines_do_not_overlap_and_are_whole():
    figure, grid = new_figure()
    axes = grid[0, 0]
    axes.plot([0, 1], [0.2, 1.0])
    unit_axis(axes)
    label_ends(
        axes,
        1,
        [(1.0, "one"), (1.0, "two"), (0.99, "three"), (0.2, "four")],
        list(METRIC_STYLES.values())[:4],
    )
    figure.draw_without_rendering()  # places everything
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(one.overlaps(other) for index, one in enumerate(boxes) for other in boxes[index + 1 :])
    assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
    assert {text.get_color() for text in axes.texts} == {INK}


def test_a_figure_is_shown_once_as_image_with_its_text():
    publisher = CapturingDisplayPublisher()
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    before, shell.display_pub = shell.display_pub, publisher
    try:
        show(new_figure(4, 2)[0], "Nothing is drawn, n = 0.")
    finally:
        shell.display_pub = before
        InteractiveShell.clear_instance()
    (output,) = publisher.outputs
    assert base64.b64decode(output["data"]["image/png"]).startswith(b"\x89PNG")
    assert output["data"]["text/plain"] == "Nothing is drawn, n = 0."
    assert output["metadata"]["image/png"] == {"alt": "Nothing is drawn, n = 0.", "width": 384}


def test_metrics_over_k_draws_each_mean_and_says_it():
    figure, alt = figures.metrics_over_k(mean_intervals(a_table(), ["k"], MEASURES))
    (axes,) = figure.axes
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert lines["recall"] == pytest.approx([0.5, 2.5 / 3])
    assert lines["complete"] == pytest.approx([0.0, 0.5])
    assert "n = 3" in axes.get_title(loc="left")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["K = 1", "K = 3"]
    assert {text.get_text() for text in axes.texts} >= {"recall 0.833", "MRR 0.833", "complete 0.500"}
    assert "3 cases" in alt
    assert "K = 3: precision 0.350, recall 0.833" in alt


def test_metrics_over_k_draws_each_interval_beside_the_others():
    figure, alt = figures.metrics_over_k(mean_intervals(a_table(), ["k"], MEASURES))
    (axes,) = figure.axes
    bars = {}
    for line, bounds in zip(axes.lines, axes.collections, strict=False):
        bars[line.get_label()] = [np.asarray(bar) for bar in bounds.get_segments()]
        assert [bar[0, 0] for bar in bars[line.get_label()]] == pytest.approx(list(line.get_xdata()))
    # Complete is 0 and 1 at K = 3: the exact bounds of 1 of 2 are 1 - 0.975 ** 0.5 and 0.975 ** 0.5.
    assert bars["complete"][1][:, 1] == pytest.approx([1 - 0.975**0.5, 0.975**0.5])
    at_3 = [bar[1][0, 0] for bar in bars.values()]
    assert len(set(at_3)) == len(MEASURES)
    assert "95 % intervals at the largest K: precision" in alt
    assert "complete 0.013 to 0.987" in alt


def test_metrics_over_k_names_measures_without_values():
    table = a_table().query("category == 'beta'")
    figure, alt = figures.metrics_over_k(mean_intervals(table, ["k"], MEASURES))
    assert "without values: coverage, complete" in alt
    assert "without values: coverage, complete" in figure.axes[0].get_title(loc="left")


def test_metrics_over_k_without_cases_is_an_empty_figure():
    _, alt = figures.metrics_over_k(mean_intervals(a_table().iloc[:0], ["k"], MEASURES))
    assert "0 cases" in alt


def test_categories_over_k_has_a_chart_each_with_n():
    intervals = mean_intervals(a_table(), ("category", "k"), MEASURES)
    figure, alt = figures.categories_over_k(intervals)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert titles == ["alpha (n = 2)", "beta (n = 1)"]
    alpha = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert alpha["coverage"] == pytest.approx([0.25, 0.75])
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim() == (-0.04, 1.04)
    assert "alpha (n = 2) at K = 3: recall 0.75" in alt
    assert "beta (n = 1) at K = 3: recall 1.00, nDCG 1.00." in alt


def test_category_intervals_draw_the_bounds_and_leave_out_what_is_not_there():
    intervals = mean_intervals(a_table().query("k == 3"), ("category",), MEASURES)
    figure, alt = figures.category_intervals(intervals, 3)
    recall = figure.axes[0]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["recall", "nDCG", "coverage", "complete"]
    assert [label.get_text() for label in recall.get_yticklabels()] == ["alpha\nn = 2", "beta\nn = 1"]
    (bounds, *_) = [collection.get_segments() for collection in recall.collections]
    assert np.asarray(bounds[0])[:, 0] == pytest.approx([0.5, 1.0])
    assert "alpha recall 0.75 [0.50, 1.00] (n = 2)" in alt
    assert "beta recall 1.00 [0.03, 1.00] (n = 1)" in alt  # 0.025 to 1: a single case tells next to nothing
    assert "beta coverage" not in alt
    assert recall.get_xlim() == (-0.04, 1.04)


@pytest.mark.parametrize(
    "category",
    [
        "a_{b $^$",
        pytest.param("$5 or $10", marks=pytest.mark.thorough),
        pytest.param("$$x$$", marks=pytest.mark.thorough),
    ],
)
def test_categories_are_no_formulas(category):
    intervals = mean_intervals(
        a_table().replace({"category": {"alpha": category}}), ("category", "k"), MEASURES
    )
    bounds, _ = figures.category_intervals(intervals[intervals["k"] == 3], 3)
    bounds.draw_without_rendering()
    label = next(text for text in bounds.axes[0].get_yticklabels() if category in text.get_text())
    assert not label.get_parse_math()
    panels, _ = figures.categories_over_k(intervals)
    panels.draw_without_rendering()
    assert any(category in axes.get_title(loc="left") for axes in panels.axes)


def test_chunk_lengths_counts_every_chunk_once():
    figure, alt = figures.chunk_lengths([5, 5, 80, 41], [True, True, False, True])
    heights = [patch.get_height() for container in figure.axes[0].containers for patch in container]
    assert sum(heights) == 4
    assert "4 chunks, 3 of them eligible: shortest 5, median 23, longest 80 words" in alt
    assert "n = 4" in figure.axes[0].get_title(loc="left")


def test_chunk_lengths_of_nothing_and_of_one_length():
    assert "no chunks" in figures.chunk_lengths([], [])[1]
    figure, _ = figures.chunk_lengths([7, 7, 7], [True, False, True])
    assert sum(patch.get_height() for container in figure.axes[0].containers for patch in container) == 3
