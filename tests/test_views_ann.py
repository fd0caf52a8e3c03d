"""What the notebook about search speed shows, on figures written by hand."""

import re

import pandas as pd
import pytest

from evalkit.ann import COLUMNS, Sweep
from evalkit.plots.ann import beam_widths
from evalkit.settings import EvaluateSettings
from evalkit.views import ann


def row(ef, recall, p50, requests=400):
    figures = (recall, 40, 0.8, None, p50, 2 * p50, 3 * p50, p50 / 4, 50, requests)
    return dict(zip(COLUMNS, (ef, *figures), strict=True))


def swept(*rows, approximate=True):
    table = pd.DataFrame(rows).astype({"hnsw_ef": "Int64", "coverage": "float64"})
    return Sweep(table, 10, approximate, 12345, "made", "embedded", "0.9")


MADE = swept(row(None, 1.0, 8.0), row(8, 0.72, 0.5), row(32, 0.992, 0.9), row(128, 1.0, 2.5))


def text(html):
    return re.sub(r"\s+", " ", re.sub(r"<style.*?</style>|<[^>]+>", " ", html.data, flags=re.DOTALL))


def test_the_verdict_names_the_narrowest_beam_that_is_wide_enough():
    said = text(ann.sweep_verdict(MADE))
    assert "hnsw_ef = 32 is the narrowest beam tried that finds 99% of exact search" in said
    assert "It finds 99.2%, half of its requests take at most 0.90 ms" in said
    assert "exact search take at most 8.00 ms" in said
    assert "Only" not in said


def test_a_sweep_that_never_finds_enough_says_so():
    said = text(ann.sweep_verdict(swept(row(None, 1.0, 8.0), row(4, 0.3, 0.1), row(8, 0.72, 0.5))))
    assert "No hnsw_ef up to 8 finds 99% of what exact search finds" in said
    assert "The best finds 72.0% (hnsw_ef = 8)" in said


def test_exact_collections_and_few_requests_are_said():
    flat = swept(row(None, 1.0, 1.0, 45), row(4, 1.0, 1.0, 45), approximate=False)
    said = text(ann.sweep_verdict(flat))
    assert "no approximate index" in said
    assert "Only 45 requests" in said


def test_the_tables_hold_every_figure_and_leave_out_what_there_is_not():
    said = text(ann.sweep_table(MADE))
    for figure in ("exact", "128", "0.992", "0.23", "7.50", "0.800"):
        assert figure in said
    assert "coverage" not in said
    what = text(ann.what_was_measured(MADE, EvaluateSettings.checked(dataset="made <b>")))
    assert "12,345" in what
    assert "400 with one question" in what


@pytest.mark.parametrize("labelled", [True, False])
def test_the_figure_draws_what_there_is(labelled):
    table = MADE.table if labelled else MADE.table.assign(recall=float("nan"))
    figure, alt = beam_widths(table)
    found, times = figure.axes
    assert len(found.lines) == 1 + labelled
    assert list(found.lines[0].get_xdata()) == [8, 32, 128]
    assert list(found.lines[0].get_ydata()) == [0.72, 0.992, 1.0]
    assert len(times.lines) == 5
    assert "Exact search: half of the requests within 8.00 ms" in alt
    assert "hnsw_ef 32: recall 0.992 of exact search, half of the requests within 0.90 ms" in alt
