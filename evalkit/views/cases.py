"""The evidence of each case: its question, its facts, and the passages that came back, with their quotes marked."""

from collections.abc import Collection, Iterator, Sequence

import pandas as pd
from IPython.display import HTML
from markupsafe import Markup

from evalkit.evidence import rank_outside
from evalkit.measures import JUDGED, METRIC_LABELS, MISSING
from evalkit.runs import Run
from evalkit.views.markup import banner, case_anchor, page, render
from evalkit.views.quotes import Quotes, highlight, label_quotes
from evalkit.views.tables import Row, number, rows_of

SHOWN = 100
OPEN_ALL = 20
CHANGED_LABELS = (
    "The labels of the data set are no longer those of this run: only one quote of each fact is marked."
)
GRADES = {2: "2 answers", 1: "1 supports", 0: "0 neither"}

_CASE = """
<details class="ek-case" id="{{ anchor }}"{% if open %} open{% endif %}>
<summary><strong>{{ case }}</strong>{% for word in words %} · {{ word }}{% endfor %}
 <span class="ek-chip {{ 'ek-yes' if good else 'ek-no' }}">{{ outcome }}</span></summary>
<p><strong>Question:</strong> {{ question }}</p>
{% if scores %}<p>{{ scores }}</p>{% endif %}
{% if facts %}<p><strong>Required facts at K = {{ k }}</strong></p>
<ol>{% for fact in facts %}<li><span class="ek-chip {{ 'ek-yes' if fact.found else 'ek-no' }}">
{{- 'found' if fact.found else 'missing' }}</span> {{ fact.text }}<br>{{ fact.place }}
{% if fact.quote %}<br>Quote: “{{ fact.quote }}”{% endif %}</li>{% endfor %}</ol>{% endif %}
{% if ranking %}<div class="ek-scroll" role="region" tabindex="0" aria-label="Ranking of {{ case }}"><table>
<caption>Ranking at K = {{ k }}</caption>
<thead><tr><th scope="col">rank</th><th scope="col">score</th><th scope="col">grade</th>
<th scope="col">passage</th></tr></thead><tbody>
{% for row in ranking %}<tr><th scope="row">{{ row.rank }}</th><td>{{ row.score }}</td>
<td><span class="ek-chip {{ row.tint }}">{{ row.grade }}</span></td>
<td><strong>{{ row.place }}</strong><div class="ek-text"{% if row.long %} tabindex="0"{% endif %}>{{ row.text }}</div>
</td></tr>{% endfor %}</tbody></table></div>
{% else %}<p>Nothing came back at K = {{ k }}{{ reason }}.</p>{% endif %}
{% if outside %}<p><strong>Relevant passages outside K = {{ k }}</strong></p>
<ul>{% for row in outside %}<li><span class="ek-chip">{{ row.grade }}</span> {{ row.place }}: {{ row.rank }}</li>
{% endfor %}</ul>{% endif %}
</details>"""


def weakest_first(scores: pd.DataFrame, k: int) -> list[str]:
    """Order cases from the weakest to the best at one K.

    Parameters
    ----------
    scores
        Scores of a run.
    k
        The cutoff that counts.

    Returns
    -------
    list of str
        Case ids by complete, coverage (recall for a case without facts), recall and nDCG at K, then by their
        means over all K, then by id.
    """
    columns = ["complete", "coverage", "recall", "ndcg"]
    filled = scores.assign(coverage=scores["coverage"].fillna(scores["recall"]))
    filled["complete"] = filled["complete"].fillna((filled["coverage"] >= 1).astype("float64"))
    at_k = filled[filled["k"] == k].set_index("case_id")[columns]
    overall = filled.groupby("case_id")[columns].mean().add_prefix("mean_")
    ordered = at_k.join(overall).reset_index()
    ordered = ordered.sort_values([*columns, *overall.columns, "case_id"])
    return [str(case_id) for case_id in ordered["case_id"]]


def shown_cases(run: Run, limit: int = SHOWN) -> list[str]:
    """Choose the cases whose evidence is shown: the weakest answerable ones at the largest K, then unsupported ones.

    Parameters
    ----------
    run
        A run.
    limit
        Cases of each kind at most, so that a page of thousands of cases can still be opened.
    """
    unsupported = run.questions.loc[~run.questions["answerable"], "case_id"].drop_duplicates()
    weakest = weakest_first(run.scores, run.cutoff())
    return [*weakest[:limit], *(str(case_id) for case_id in unsupported[:limit])]


def case_evidence(run: Run, case_ids: Sequence[str] | None = None, k: int | None = None) -> HTML:
    """Show the evidence of cases, each under the anchor ``case-<id>``.

    Parameters
    ----------
    run
        A run.
    case_ids
        Cases to show, in this order; `shown_cases` by default.
    k
        Cutoff to show; the largest of the run by default.

    Returns
    -------
    HTML
        One foldable part a case: question, facts found and missing, ranking with grades, scores and marked quotes,
        and at which rank a relevant passage came that fell outside K. Parts of answerable cases that miss something
        are open; all of them are, when cases are few. A banner says when cases or texts are left out.
    """
    cutoff = run.cutoff(k)
    chosen = shown_cases(run) if case_ids is None else list(case_ids)
    everything = run.questions["case_id"].nunique()
    parts = []
    if case_ids is None and len(chosen) < everything:
        parts.append(
            banner(
                "note",
                f"{len(chosen)} of {everything} cases are shown, the weakest first.",
                "All are in the run.",
            )
        )
    if notice := retention_notice(run.record.retention):
        parts.append(banner("note", notice))
    quotes, whole = label_quotes(run)
    if not whole:
        parts.append(banner("note", CHANGED_LABELS))
    return page(*parts, *_cases(run, chosen, cutoff, quotes))


def retention_notice(retention: str) -> str:
    """Say what of the retrieved texts a run kept, when that is not everything."""
    return {
        "snippet": "This run kept the first 200 characters of each text; a quote further on cannot be marked.",
        "hash": "This run kept the SHA-256 of each text instead of the text, so no quote can be marked.",
        "none": "This run kept no texts of passages, so no quote can be marked.",
    }.get(retention, "")


def _cases(run: Run, chosen: Collection[str], k: int, quotes: Quotes) -> Iterator[Markup]:
    questions = _by_case(run.questions, chosen, k)
    scores, facts = _by_case(run.scores, chosen, k), _by_case(run.facts, chosen, k)
    rankings = _by_case(run.rankings, chosen, k)
    outside = _by_case(_relevant_outside(run, k), chosen)
    depth = run.record.search.depth
    for case_id in chosen:
        asked = questions[case_id].iloc[0]
        score = scores[case_id].iloc[0] if case_id in scores else None
        rows = rankings.get(case_id, run.rankings.iloc[:0])
        needed = facts.get(case_id, run.facts.iloc[:0])
        outcome, good = _outcome(score, needed, len(rows))
        yield render(
            _CASE,
            anchor=case_anchor(case_id),
            case=case_id,
            open=score is not None and (not good or len(chosen) <= OPEN_ALL),
            words=[word for word in (asked["category"], asked["split"]) if isinstance(word, str)],
            good=good,
            outcome=outcome,
            question=asked["question"],
            scores="" if score is None else _score_sentence(score, k),
            k=k,
            facts=[_fact(row, k, depth, run.record.search.threshold) for row in rows_of(needed)],
            ranking=[_ranked(row, quotes, run.record.retention, score is not None) for row in rows_of(rows)],
            reason="" if run.record.search.threshold is None else f" above {run.record.search.threshold}",
            outside=[_outside(row, depth) for row in rows_of(outside[case_id])] if case_id in outside else [],
        )


def _by_case(table: pd.DataFrame, chosen: Collection[str], k: int | None = None) -> dict[str, pd.DataFrame]:
    kept = table[table["case_id"].isin(list(chosen))]
    if k is not None:
        kept = kept[kept["k"] == k]
    return {str(case_id): rows for case_id, rows in kept.groupby("case_id", sort=False)}


def _outcome(score: Row, facts: pd.DataFrame, results: int) -> tuple[str, bool]:
    if score is None:
        return ("unsupported, refused", True) if results == 0 else (f"unsupported, {results} results", False)
    if facts.empty:
        return f"recall {number(score['recall'])}, no facts labelled", bool(score["recall"] == 1)
    found = int(facts["found"].sum())
    return f"{found} of {len(facts)} facts found", found == len(facts)


def _score_sentence(score: Row, k: int) -> str:
    named = {**METRIC_LABELS, "reciprocal_rank": "reciprocal rank", JUDGED: JUDGED}
    values = [f"{label} {number(score[name])}" for name, label in named.items() if name in score.index]
    return f"At K = {k}: {', '.join(values)}."


def _place(row: Row) -> str:
    return f"{row.document_id} › {row.chunk_id}"


def _fact(row: Row, k: int, depth: int, threshold: float | None) -> dict[str, object]:
    if row.lost:
        place = "Lost to chunking: no chunk holds one of its quotes whole."
    elif row.found:
        place = f"Rank {row.rank}: {_place(row)}"
    else:
        place = f"{_place(row)}: {rank_outside(row.rank, k, depth, threshold)}"
    quote = row.quote if isinstance(row.quote, str) else ""
    return {"found": row.found, "text": row.text, "place": place, "quote": quote}


def _ranked(row: Row, quotes: Quotes, retention: str, answerable: bool) -> dict[str, object]:
    unjudged = "unjudged" if answerable else MISSING
    grade = unjudged if pd.isna(row.grade) else GRADES[int(row.grade)]
    text = row.text if isinstance(row.text, str) else ""
    return {
        "rank": row.rank,
        "score": number(row.score, 4),
        "grade": grade,
        "tint": "ek-yes" if grade[0] in "12" else "",
        "place": _place(row),
        "text": _passage(text, quotes.get((row.case_id, row.document_id), ()), retention),
        "long": len(text) > 1_000,
    }


def _passage(text: str, quotes: Sequence[tuple[str, str]], retention: str) -> Markup:
    if retention == "none":
        return Markup("(text not kept)")
    if retention == "hash":
        return render("SHA-256 <code>{{ text }}</code>", text=text)
    return highlight(text, quotes) + ("…" if retention == "snippet" and len(text) >= 200 else "")


def _relevant_outside(run: Run, k: int) -> pd.DataFrame:
    """Relevant chunks that the ranking at K does not hold, with rank and score of the diagnostic ranking."""
    key = ["case_id", "document_id", "chunk_id"]
    relevant = run.judgments[run.judgments["grade"] > 0]
    at_k = run.rankings.loc[run.rankings["k"] == k, key]
    missing = relevant.merge(at_k.assign(held=True), on=key, how="left")
    missing = missing[missing["held"].isna()].drop(columns="held")
    below = missing.merge(run.deep[[*key, "rank", "score"]], on=key, how="left")
    return below.sort_values(["case_id", "rank", "document_id", "chunk_id"], na_position="last")


def _outside(row: Row, depth: int) -> dict[str, object]:
    rank = f"not within the first {depth} ranks"
    if pd.notna(row.rank):
        rank = f"rank {int(row.rank)}, score {number(row.score, 4)}"
    return {"grade": GRADES[int(row.grade)], "place": _place(row), "rank": rank}
