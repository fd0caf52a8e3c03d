"""Passages that nobody has judged yet."""

from IPython.display import HTML

from evalkit.pooling import Pool
from evalkit.views.markup import banner, page, render
from evalkit.views.tables import table

ROWS = 50


def to_judge(pool: Pool) -> HTML:
    """Show the unjudged passages of all runs, those that most runs returned first, and how to judge them."""
    queue = pool.to_judge
    notes = render("<p>{{ text }}.</p>", text="; ".join(pool.notices))
    if queue.empty:
        return page(banner("good", "Every returned passage of an answerable question is judged."), notes)
    columns = ["case_id", "question", "document_id", "chunk_id", "seen", "best_rank", "text"]
    labels = {"seen": "runs", "best_rank": "best rank"}
    shown = table(queue[columns], f"{len(queue)} unjudged passages", labels=labels, limit=ROWS)
    how = render(
        "<p>To judge them: <code>evalkit labels pool {{ name }} --out to-judge.yaml</code>, fill in the grades, then "
        "<code>evalkit labels merge {{ name }} to-judge.yaml</code>.</p>",
        name=pool.dataset,
    )
    return page(shown, how, notes)


def live_notice() -> HTML:
    """Say what to do when the widget below does not appear, as on a page without a kernel."""
    return page(
        banner(
            "note",
            "Marking sentences needs a running kernel.",
            "If no list of passages follows: open notebooks/write-labels.ipynb in JupyterLab (make lab) and choose "
            "Run, Run All Cells.",
        )
    )
