"""The overview of all runs, ``outputs/index.html``: every run, trends, and notebooks that were run by themselves."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pandas as pd

from evalkit import paths
from evalkit.errors import InputError
from evalkit.layout import embedded, fill, whole_page
from evalkit.measures import METRIC_LABELS, TABLE_ORDER, means
from evalkit.pages import FRONT_PAGE, OVERVIEW, PAGES
from evalkit.plots.trends import metric_trends
from evalkit.records import accepted_when
from evalkit.runs import Run, load_run, run_ids
from evalkit.views.tables import number


def overview_page() -> str:
    """Render the list of all runs with a trend chart a measure over runs that can be compared.

    Returns
    -------
    str
        A whole HTML document. Runs stand newest first, then trends and the pages of notebooks run by themselves; a
        folder that cannot be read is named with the reason.
    """
    runs, damaged = _readable_runs()
    metrics = list(TABLE_ORDER)
    body = fill(
        "overview.html.j2",
        runs=[_row(run, metrics) for run in runs],
        metrics=[METRIC_LABELS[metric] for metric in metrics],
        trends=[
            {"title": trend.title, "details": trend.details, "figure": embedded(*metric_trends(trend.table))}
            for trend in trends(runs)
        ],
        single=_single_pages(),
        damaged=damaged,
    )
    return whole_page(
        title="All runs",
        content=body,
        links=[{"title": "All runs", "href": OVERVIEW, "current": True}],
        footer=f"{len(runs)} runs.",
    )


class Trend(NamedTuple):
    """Runs that differ in nothing that their settings name.

    Attributes
    ----------
    title, details
        Words for what they have in common.
    table
        ``started, run_id, k``, the measures, ``n`` and ``n_facts``, the oldest run first.
    """

    title: str
    details: str
    table: pd.DataFrame


def trends(runs: Iterable[Run]) -> list[Trend]:
    """Gather the means of runs over time.

    Parameters
    ----------
    runs
        Runs in any order.

    Returns
    -------
    list of Trend
        One for each data set, version, cases, labels, model, chunking and search with two runs and an answerable
        question at least.
    """
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda one: one.run_id):
        groups.setdefault(_settings_of(run), []).append(run)
    found = []
    for (title, details), members in groups.items():
        frames = [means(run.scores).assign(run_id=run.run_id, started=run.record.started) for run in members]
        if len(members) > 1 and not all(frame.empty for frame in frames):
            found.append(
                Trend(f"{title}; {len(members)} runs", details, pd.concat(frames, ignore_index=True))
            )
    return found


def _settings_of(run: Run) -> tuple[str, str]:
    """Write what runs of one trend have in common: for its title, and the rest."""
    data, model, search = run.record.dataset, run.record.model, run.record.search
    title = (
        f"{data.name}, version {data.version}; {model.model} ({model.embedder}); {run.record.chunking}; "
        f"accepted by: {accepted_when(search.threshold)}"
    )
    exact = search.exact or run.record.checks.exact_search.get("approximate_index") is False
    beam = "" if search.hnsw_ef is None else f", hnsw_ef {search.hnsw_ef}"
    details = (
        f"Cases {data.cases_sha256[:8]}, labels {data.labels_sha256[:8]}, model digest {model.digest[:15]}, profile "
        f"{model.profile}, {'exact' if exact else 'approximate'} search{beam}."
    )
    return title, details


def _single_pages() -> list[dict[str, str]]:
    """List what `reporting.single_report` left under ``outputs/pages``."""
    found = sorted((paths.outputs() / PAGES).glob("*/*.html"))
    return [
        {
            "name": page.stem,
            "href": page.relative_to(paths.outputs()).as_posix(),
            "made": f"{datetime.fromtimestamp(page.stat().st_mtime, UTC):%Y-%m-%d %H:%M:%S}",
        }
        for page in found
        if page.stem == page.parent.name
    ]


def _readable_runs() -> tuple[list[Run], list[str]]:
    runs, damaged = [], []
    for run_id in run_ids():
        try:
            run = load_run(run_id)
            _ = run.scores
            runs.append(run)
        except InputError as error:
            damaged.append(str(error))
    return runs, damaged


def _row(run: Run, metrics: list[str]) -> dict[str, Any]:
    record, k = run.record, run.cutoff()
    at_k = means(run.scores[run.scores["k"] == k])
    figures: dict[str, Any] = {} if at_k.empty else dict(at_k.iloc[0])
    report = run.folder / "report" / FRONT_PAGE
    return {
        "run_id": run.run_id,
        "href": f"runs/{run.run_id}/report/{FRONT_PAGE}" if report.is_file() else None,
        "started": f"{record.started:%Y-%m-%d %H:%M:%S}",
        "dataset": f"{record.dataset.name}, version {record.dataset.version}",
        "model": f"{record.model.model} ({record.model.embedder})",
        "chunking": record.chunking,
        "accepted": accepted_when(record.search.threshold),
        "k": k,
        "n": int(figures.get("n", 0)),
        "figures": [number(figures.get(metric)) for metric in metrics],
    }
