"""Two runs compared, in words and tables: verdict, contract, differences, and each case that changed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from IPython.display import HTML
from markupsafe import Markup

from evalkit import comparison_words as words
from evalkit.comparison import Comparison, fact_standing
from evalkit.comparison_words import interval, sentence, signed
from evalkit.measures import MISSING, label
from evalkit.runs import Run
from evalkit.statistics import p_text
from evalkit.views.markup import banner, case_anchor, page, render
from evalkit.views.tables import Row, number, rows_of, table

DETAILED = 60
MOVES = 50
_SAME = ("same", "not compared")

_CASE = """
<details class="ek-case" id="{{ anchor }}"{% if open %} open{% endif %}>
<summary><strong>{{ case }}</strong>{% if category %} · {{ category }}{% endif %}
 <span class="ek-chip {{ tint }}">{{ verdict }}</span></summary>
<p><strong>Question:</strong> {{ question }}</p>
{{ facts }}{{ rankings }}
</details>"""


def verdict(comparison: Comparison) -> HTML:
    """Say whether the candidate finds more or less of the evidence, and whether that can be chance.

    Parameters
    ----------
    comparison
        What `comparison.compare` gave.

    Returns
    -------
    HTML
        A banner on complete (recall, where no case has facts) at the K of the comparison with difference, interval,
        p-value and n; the cases better and worse; what this n could detect; and the notes of the contract.
    """
    found = words.verdict(comparison)
    return page(
        banner(found.kind, found.title, *found.sentences),
        *(banner("warning", note) for note in comparison.contract.notes),
    )


def contract(comparison: Comparison) -> HTML:
    """Show the two runs, what had to be equal, and what differs."""
    runs = {"baseline": comparison.baseline, "candidate": comparison.candidate}
    dataset = comparison.baseline.record.dataset
    ks = ", ".join(map(str, comparison.baseline.record.search.ks))
    equal = (
        f"Equal in both, as it must be: data set {dataset.name} version {dataset.version}, cases "
        f"({dataset.cases_sha256[:12]}), labels ({dataset.labels_sha256[:12]}), K = {ks}."
    )
    frame = pd.DataFrame(
        [
            {"run": name, "run_id": run.run_id, "started": f"{run.record.started:%Y-%m-%d %H:%M:%S} UTC"}
            for name, run in runs.items()
        ]
    )
    return page(
        table(frame, "The runs", labels={"run_id": "run id", "run": ""}, bars=()),
        render("<p>{{ equal }}</p>", equal=equal),
        table(comparison.contract.differs, "What differs, and so is compared", bars=()),
    )


def differences(comparison: Comparison) -> HTML:
    """Show every mean of both runs, its difference with interval and p-value, and what n could detect."""
    return page(_means_table(comparison.means, "Means over answerable cases"), _reading(comparison.means))


def decisions(comparison: Comparison) -> HTML:
    """Show the wrong decisions of both runs: unsupported questions accepted, answerable ones rejected."""
    shown = comparison.decisions[comparison.decisions["k"] == comparison.k]
    caption = f"Wrong decisions at K = {comparison.k}, as rates"
    return page(
        _means_table(shown, caption), render("<p>{{ said }}</p>", said=words.acceptance_rules(comparison))
    )


def cases(comparison: Comparison) -> HTML:
    """Show the cases that changed, the worst first, linked to their details."""
    changed = _changed(comparison)
    metrics = [name for name in ("coverage", "recall", "ndcg") if name in comparison.contract.metrics]
    frame = changed[["case_id", "category", "verdict", "facts_lost", "facts_gained"]].assign(
        **{name: [_arrow(row, name) for row in changed.to_dict("records")] for name in metrics}
    )
    counts = comparison.cases["verdict"].value_counts()
    said = ", ".join(f"{counts[name]} {name}" for name in counts.index)
    caption = f"Cases that changed at K = {comparison.k}: {len(changed)} of {len(comparison.cases)} ({said})"
    labels = {"facts_lost": "facts lost", "facts_gained": "facts gained", "ndcg": "nDCG"}
    return page(table(frame, caption, labels=labels, bars=(), linked=_detailed(comparison)))


def evidence(comparison: Comparison) -> HTML:
    """Show every required fact that was lost or gained, with its rank in both runs, lost ones first."""
    changed = comparison.facts[comparison.facts["change"] != "same"]
    order = {case_id: place for place, case_id in enumerate(comparison.cases["case_id"])}
    changed = changed.assign(place=changed["case_id"].map(order), gained=changed["change"] == "gained")
    changed = changed.sort_values(["gained", "place", "fact"])
    rows = changed.to_dict("records")
    frame = pd.DataFrame(
        {
            "case_id": changed["case_id"],
            "change": changed["change"],
            "fact": changed["text"],
            "baseline": [_place(row, "baseline", comparison) for row in rows],
            "candidate": [_place(row, "candidate", comparison) for row in rows],
        }
    )
    caption = f"Evidence lost and gained at K = {comparison.k}"
    return page(table(frame, caption, bars=(), linked=_detailed(comparison)))


def moves(comparison: Comparison) -> HTML:
    """Show the relevant chunks that moved, the largest falls first."""
    if not comparison.contract.chunks_comparable:
        return page(banner("note", "The chunkings differ, so chunks have no ranks that could be compared."))
    moved = comparison.moves
    frame = moved.assign(chunk_id=moved["document_id"] + " › " + moved["chunk_id"]).drop(
        columns="document_id"
    )
    labels = {"rank_baseline": "rank in baseline", "rank_candidate": "rank in candidate", "chunk_id": "chunk"}
    caption = f"Relevant chunks that moved: {len(moved)}"
    formats = {"rank_baseline": _rank, "rank_candidate": _rank}
    linked = _detailed(comparison)
    return page(table(frame, caption, labels=labels, formats=formats, bars=(), linked=linked, limit=MOVES))


def details(comparison: Comparison) -> HTML:
    """Show of each changed case its question, its facts in both runs, and both rankings side by side."""
    chosen = _changed(comparison).head(DETAILED)
    if chosen.empty:
        return page(banner("note", "No case changed."))
    facts = {str(case): rows for case, rows in comparison.facts.groupby("case_id")}
    rankings = [_rankings(run, comparison.k) for run in (comparison.baseline, comparison.candidate)]
    parts = [
        render(
            _CASE,
            anchor=case_anchor(case["case_id"]),
            case=case["case_id"],
            category=case["category"] if isinstance(case["category"], str) else "",
            open=case["verdict"] in ("worse", "better"),
            verdict=case["verdict"],
            tint={"worse": "ek-no", "better": "ek-yes"}.get(case["verdict"], ""),
            question=case["question"],
            facts=_facts(facts.get(case["case_id"]), case["case_id"], comparison),
            rankings=_side_by_side([ranking.get(case["case_id"]) for ranking in rankings], case["case_id"]),
        )
        for case in chosen.to_dict("records")
    ]
    changed = len(_changed(comparison))
    if changed > len(chosen):
        parts.insert(
            0, banner("note", f"{len(chosen)} of {changed} changed cases are shown, the worst first.")
        )
    return page(*parts)


def _means_table(means: pd.DataFrame, caption: str) -> Markup:
    rows = means.to_dict("records")
    frame = pd.DataFrame(
        {
            "metric": [f"{label(row['metric'])}@{row['k']}" for row in rows],
            "n": means["n"].to_numpy(),
            "baseline": means["baseline"].to_numpy(),
            "candidate": means["candidate"].to_numpy(),
            "difference": [signed(row["difference"]) for row in rows],
            "interval": [interval(row) for row in rows],
            "p": [p_text(row["p"]) for row in rows],
            "detectable": means["detectable"].to_numpy(),
            "better": means["better"].to_numpy(),
            "worse": means["worse"].to_numpy(),
        }
    )
    if means["left_out"].any():
        frame["left_out"] = means["left_out"].to_numpy()
    labels = {
        "metric": "figure",
        "interval": "95 % interval",
        "p": "p",
        "detectable": "detectable from",
        "better": "cases better",
        "worse": "cases worse",
        "left_out": "cases in one run only",
    }
    return table(frame, caption, labels=labels, bars=(), dense=True)


def _reading(means: pd.DataFrame) -> Markup:
    changed = (means["better"] > 0) | (means["worse"] > 0)
    notes = dict.fromkeys(note for note in means.loc[changed, "note"] if note)
    return render(
        "{% if notes %}<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}",
        notes=[sentence(note) for note in notes],
    )


def _changed(comparison: Comparison) -> pd.DataFrame:
    return comparison.cases[~comparison.cases["verdict"].isin(_SAME)]


def _detailed(comparison: Comparison) -> list[str]:
    return [str(case_id) for case_id in _changed(comparison)["case_id"].head(DETAILED)]


def _facts(rows: pd.DataFrame | None, case_id: str, comparison: Comparison) -> Markup:
    if rows is None:
        return Markup("<p>No facts are labelled.</p>")
    records = rows.to_dict("records")
    frame = pd.DataFrame(
        {
            "fact": [row["text"] for row in records],
            "change": [row["change"] for row in records],
            "baseline": [_place(row, "baseline", comparison) for row in records],
            "candidate": [_place(row, "candidate", comparison) for row in records],
        }
    )
    return table(frame, f"Required facts of {case_id}", bars=())


def _rankings(run: Run, k: int) -> dict[str, pd.DataFrame]:
    at_k = run.rankings[run.rankings["k"] == k]
    return {str(case): rows for case, rows in at_k.groupby("case_id")}


def _side_by_side(rankings: Sequence[pd.DataFrame | None], case_id: str) -> Markup:
    hits = [{} if rows is None else {int(row.rank): _hit(row) for row in rows_of(rows)} for rows in rankings]
    ranks = sorted({rank for side in hits for rank in side})
    named = zip(("baseline", "candidate"), hits, strict=True)
    columns = {name: [side.get(rank, MISSING) for rank in ranks] for name, side in named}
    return table(
        pd.DataFrame({"rank": ranks, **columns}), f"Rankings of {case_id}: passage (grade, score)", bars=()
    )


def _hit(row: Row) -> str:
    grade = "unjudged" if pd.isna(row.grade) else f"grade {row.grade}"
    return f"{row.document_id} › {row.chunk_id} ({grade}, {row.score:.4f})"


def _place(row: Mapping[Any, Any], side: str, comparison: Comparison) -> str:
    standing = fact_standing(row, side, getattr(comparison, side), comparison.k)
    if pd.isna(row[f"chunk_id_{side}"]):
        return standing
    return f"{standing}: {row[f'document_id_{side}']} › {row[f'chunk_id_{side}']}"


def _rank(value: Any) -> str:  # noqa: ANN401 - a cell of a table
    return "not there" if pd.isna(value) else str(value)


def _arrow(row: Mapping[Any, Any], metric: str) -> str:
    before, after = (number(row[f"{metric}_{side}"]) for side in ("baseline", "candidate"))
    return before if before == after else f"{before} → {after}"
