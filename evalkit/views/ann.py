"""Approximate search against exact search: verdict, what was measured, the table of a sweep."""

from functools import partial

from IPython.display import HTML
from markupsafe import Markup

from evalkit.ann import Sweep
from evalkit.settings import EvaluateSettings
from evalkit.views.markup import banner, page
from evalkit.views.tables import Row, key_values, number, rows_of, table

ENOUGH = 0.99
"""Share of what exact search finds at which a beam width is called wide enough."""

FEW_REQUESTS = 200
"""Below so many requests the 99th percentile is the time of one or two of them."""

_EXACT = banner(
    "note",
    "Every search here is exact, whatever hnsw_ef says: the collection has no approximate index.",
    "Collections of this size are compared point by point, which takes little time and misses nothing; so the lines "
    "are flat. A server builds its index from some ten thousand passages on, the embedded engine where the "
    "collection is indexed with hnsw_m.",
)


def sweep_verdict(sweep: Sweep) -> HTML:
    """Say which beam width is wide enough, or that every search is exact here."""
    exact, *swept = rows_of(sweep.table)
    parts = [_wide_enough(exact, swept) if sweep.approximate else _EXACT]
    requests = min(row.requests for row in swept)
    if requests < FEW_REQUESTS:
        parts.append(
            banner(
                "warning",
                f"Only {requests} requests a width were timed: the 99th percentile is nearly the slowest of them. "
                "Give more repeats before comparing it.",
            )
        )
    return page(*parts)


def _wide_enough(exact: Row, swept: list[Row]) -> Markup:
    times = f"half of the requests of exact search take at most {exact.p50_ms:.2f} ms"
    enough = next((row for row in swept if row.recall_exact >= ENOUGH), None)
    if enough is None:
        best = max(swept, key=lambda row: row.recall_exact)
        return banner(
            "warning",
            f"No hnsw_ef up to {swept[-1].hnsw_ef} finds {ENOUGH:.0%} of what exact search finds.",
            f"The best finds {best.recall_exact:.1%} (hnsw_ef = {best.hnsw_ef}); {times}. Try wider beams, or "
            "index with a larger hnsw_m and hnsw_ef_construct.",
        )
    return banner(
        "good",
        f"hnsw_ef = {enough.hnsw_ef} is the narrowest beam tried that finds {ENOUGH:.0%} of exact search.",
        f"It finds {enough.recall_exact:.1%}, half of its requests take at most {enough.p50_ms:.2f} ms; {times}.",
    )


def what_was_measured(sweep: Sweep, settings: EvaluateSettings) -> HTML:
    """Show data set, collection, engine and numbers in a table."""
    first = sweep.table.iloc[0]
    rows: dict[str, object] = {
        "data set": settings.dataset,
        "questions": f"{int(first['n']):,}",
        "passages that can be returned": f"{sweep.points:,}",
        "K": sweep.k,
        "model": f"{settings.model} ({settings.embedder})",
        "engine": f"Qdrant {sweep.store} {sweep.store_version}",
        "collection": sweep.collection,
        "approximate index": "yes" if sweep.approximate else "no",
        "requests timed": f"{int(first['requests']):,} with one question for each row of the table",
    }
    return page(key_values(rows, "What was measured"))


def sweep_table(sweep: Sweep) -> HTML:
    """Show recall and latencies of exact search and of each beam width."""
    frame = sweep.table.drop(
        columns=[name for name in ("recall", "coverage") if sweep.table[name].isna().all()]
    )
    frame = frame.assign(hnsw_ef=["exact", *(str(width) for width in frame["hnsw_ef"].iloc[1:])])
    times = ("p50_ms", "p90_ms", "p99_ms", "batch_ms")
    return page(
        table(
            frame,
            f"Recall and time at K = {sweep.k}, by beam width",
            labels={
                "recall_exact": "recall against exact",
                "identical": "rankings equal to exact",
                "recall": "recall against labels",
                "p50_ms": "half within (ms)",
                "p90_ms": "90 % within (ms)",
                "p99_ms": "99 % within (ms)",
                "batch_ms": "in batches (ms a question)",
                "requests": "single requests",
            },
            formats=dict.fromkeys(times, partial(number, digits=2)),
            bars=("recall_exact", "recall", "coverage"),
        )
    )
