"""Several chunkings side by side: which finds more evidence for the same words, and what each cuts apart."""

import pandas as pd
from IPython.display import HTML

from evalkit.chunkings import Evaluations, changed_cases, lost_facts
from evalkit.intervals import FEW
from evalkit.records import accepted_when
from evalkit.statistics import ALPHA, p_text
from evalkit.views.markup import banner, page, render
from evalkit.views.tables import Row, key_values, number, rows_of, table


def chunkings_verdict(paired: pd.DataFrame, lost: pd.DataFrame, baseline: str) -> HTML:
    """Say whether a chunking finds more complete evidence than the first for the same words.

    Parameters
    ----------
    paired
        As `chunkings.pair_at_equal_words` gives it.
    lost
        As `chunkings.lost_facts` gives it.
    baseline
        The first chunking.
    """
    complete = paired[paired["measure"] == "complete"]
    sentences = [_sentence(row, baseline) for row in rows_of(complete)]
    shown = complete[complete["p"] <= ALPHA]
    if shown.empty:
        title = "No chunking is shown to find more complete evidence than another for the same words."
    else:
        named = "; ".join(
            f"{row.chunking if row.difference > 0 else baseline} at {row.budget} words"
            for row in rows_of(shown)
        )
        title = f"More complete evidence for the same words: {named}."
    parts = [banner("good" if len(shown) else "note", title, *sentences)]
    if len(lost):
        counts = ", ".join(f"{name}: {count}" for name, count in lost["chunking"].value_counts().items())
        parts.append(
            banner("warning", f"Facts cut apart by a chunk border, which no search can find: {counts}.")
        )
    n = int(complete["n"].min()) if len(complete) else 0
    if n < FEW:
        parts.append(
            banner("warning", f"Only {n} questions have facts: differences of one question decide here.")
        )
    if complete["short"].any():
        short = complete[complete["short"] > 0]
        named = "; ".join(f"{row.short} at {row.budget} words" for row in rows_of(short))
        parts.append(
            banner(
                "warning",
                f"The largest K ended some rankings before the budget did ({named}): give larger ks.",
            )
        )
    return page(*parts)


def what_was_compared(evaluations: Evaluations) -> HTML:
    """Show what all chunkings share, and the size of the chunks of each."""
    record = next(iter(evaluations.values())).record
    rows: dict[str, object] = {
        "data set": f"{record.dataset.name}, version {record.dataset.version}",
        "questions": f"{record.counts['answerable']} answerable, {record.counts['facts']} facts",
        "model": f"{record.model.model} ({record.model.embedder}), profile {record.model.profile}",
        "engine": f"Qdrant {record.store.kind} {record.store.version}",
        "K": ", ".join(str(k) for k in record.search.ks),
        "questions accepted by": accepted_when(record.search.threshold),
    }
    for chunking, evaluation in evaluations.items():
        counts = evaluation.record.counts
        rows[chunking] = f"{counts['chunks']} chunks, {counts['eligible_chunks']} of them eligible"
    return page(key_values(rows, "What was compared"))


def evidence_by_words(summary: pd.DataFrame) -> HTML:
    """Show coverage and complete of each chunking and K with the words they cost."""
    return page(
        table(
            summary[["chunking", "k", "words", "complete", "coverage", "n", "facts", "lost"]],
            "Means over the questions with facts, by chunking and K",
            labels={"words": "words of context (mean)", "facts": "facts", "lost": "facts lost to chunking"},
            formats={"words": lambda value: number(value, 0)},
        )
    )


def chunkings_paired(paired: pd.DataFrame, baseline: str) -> HTML:
    """Show the paired differences from the first chunking at equal words."""
    return page(
        table(
            paired[
                "budget chunking measure baseline mean difference low high p better worse short n".split()
            ],
            f"At equal words of context, compared with {baseline} question by question",
            labels={
                "budget": "words",
                "low": "95 % from",
                "high": "95 % to",
                "short": "ended by K",
                "better": "questions better",
                "worse": "questions worse",
            },
            bars=(),
        )
    )


def chunkings_changed(cases: pd.DataFrame, budgets: list[int]) -> HTML:
    """Show the questions whose coverage differs between the chunkings, a table a budget."""
    parts = []
    for budget in budgets:
        changed = changed_cases(cases, budget)
        caption = (
            f"Coverage of the {len(changed)} questions that differ at {budget} words; difference from "
            f"{changed.columns[2]}"
        )
        parts.append(table(changed, caption, bars=(), formats={"difference": lambda value: f"{value:+.2f}"}))
    return page(*parts)


def chunkings_lost(evaluations: Evaluations) -> HTML:
    """List the facts that a chunking cuts apart."""
    lost = lost_facts(evaluations)
    if lost.empty:
        return page(
            render("<p>No chunking cuts a quote apart: every fact stands whole in some chunk of each.</p>")
        )
    frame = lost[["case_id", "chunking", "text", "quote"]]
    caption = f"{len(lost)} facts of which a chunking holds no quote whole"
    return page(table(frame, caption, labels={"text": "fact"}))


def _sentence(row: Row, baseline: str) -> str:
    chance = "could be chance" if row.p > ALPHA else "is more than chance"
    return (
        f"At {row.budget} words {row.chunking} has all facts of {row.mean:.1%} of {row.n} questions, "
        f"{baseline} of {row.baseline:.1%}: difference {row.difference:+.3f} "
        f"[{row.low:+.3f}, {row.high:+.3f}], p-value {p_text(row.p)}, which {chance}."
    )
