"""Rankings and judgments with ids of any kind, joined once and scored by `evalkit.metrics`.

`score` and `score_run` take dictionaries, ranked lists and tables and import numpy alone, unless the input itself
needs more; `score_rankings` scores the tables of a run of ours, where each K was asked for on its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from evalkit import metrics
from evalkit.columns import column, has_column
from evalkit.errors import InputError
from evalkit.ids import as_ids
from evalkit.joining import JoinReport, hints, query_hints, refuse_other_type, refuse_unjoined
from evalkit.judged import Judged, check_ks, prepare
from evalkit.metrics import METRICS, Gain
from evalkit.places import Places, Standing, Ties, in_blocks
from evalkit.scores import Scores, TieBounds

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.blocks import Block

__all__ = [
    "METRICS",
    "Scores",
    "TieBounds",
    "prepare",
    "score",
    "score_blocks",
    "score_rankings",
    "score_run",
]

_CHUNK = ["document_id", "chunk_id"]


def score(
    run: Any,  # noqa: ANN401 - see score_run
    judgments: Any,  # noqa: ANN401 - see judged.prepare
    ks: Sequence[int] = (1, 3, 5, 10),
    gain: Gain = "exponential",
    ties: Ties = "given",
) -> Scores:
    """Score one run: `prepare` and `score_run` in one step, with their parameters and errors."""
    return score_run(run, prepare(judgments, ks, gain), ties)


def score_run(run: Any, judged: Judged, ties: Ties = "given") -> Scores:  # noqa: ANN401
    """Score a run against prepared judgments.

    Parameters
    ----------
    run
        ``{query: {document: score}}``, ``{query: [document, ...]}`` with the best first, or a pandas DataFrame or
        pyarrow Table with columns for query, document and score (or rank, when there is no score). The score
        decides, higher is better; of equal scores the one given first stands first.
    judged
        From `prepare`.
    ties
        ``given``, or ``trec`` to break equal scores as trec_eval does: as float32, by descending id.

    Returns
    -------
    Scores
        For every query with a relevant document; one without a ranking scores 0 and is reported.

    Raises
    ------
    InputError
        A score that is no number, a document twice in one ranking, ids of another type than in the judgments, a
        missing column, or hardly anything that joins.
    """
    if ties not in ("given", "trec"):
        raise InputError(f"ties must be 'given' or 'trec', found {ties!r}")
    if not isinstance(run, Mapping):
        return score_blocks(_blocks(run), judged, ties)
    from evalkit.mappings import in_lists, in_mappings

    scored = _are(run, Mapping)
    if not scored and not _are(run, list | tuple):
        raise InputError(
            "each ranking must be a dictionary of scores, or each a list of ids; convert the others"
        )
    refuse_other_type("query", judged.numbers, run)
    refuse_other_type("document", judged.documents.number, next(filter(None, run.values()), ()))
    standing = in_mappings(run, judged, ties) if scored else in_lists(run, judged)
    return _scores(judged, standing)


def _are(run: Mapping[Any, Any], kind: Any) -> bool:  # noqa: ANN401 - a type or a union of types
    return all(issubclass(own, kind) for own in set(map(type, run.values())))


def score_blocks(blocks: "Iterable[Block]", judged: Judged, ties: Ties = "given") -> Scores:
    """Score rankings that come in blocks of whole queries; otherwise as `score_run`.

    Parameters
    ----------
    blocks
        As `evalkit.blocks` makes them.
    judged, ties
        As for `score_run`.

    Returns
    -------
    Scores
        As for `score_run`.
    """
    rest = iter(blocks)
    opening = list(islice(rest, 1))
    for block in opening:
        refuse_other_type("query", judged.numbers, block.queries)
        refuse_other_type("document", judged.documents.number, block.documents[:1].tolist())
    return _scores(
        judged, in_blocks(chain(opening, rest), judged.numbers, judged.documents, judged.core.ks, ties)
    )


def _blocks(table: Any) -> "Iterator[Block]":  # noqa: ANN401
    from evalkit.blocks import slices, together

    queries = as_ids(column(table, "query"), "queries of the rankings")
    documents = as_ids(column(table, "document"), "documents of the rankings")
    ranked = not has_column(table, "score")
    numbers = _numbers(column(table, "rank" if ranked else "score"))
    return slices(together(queries, documents, -numbers if ranked else numbers))


def _numbers(scores: Any) -> metrics.Floats:  # noqa: ANN401
    try:
        return np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "the score or rank column holds values that are not numbers; convert it first"
        ) from None


def _scores(judged: Judged, standing: Standing) -> Scores:
    places = standing.places
    found = metrics.find(judged.core, places.query, places.document)
    known = found >= 0
    places = Places(*(part[known] for part in places))
    grade = judged.core.grades[found[known]]
    report = _report(judged, standing, places)
    reachable = np.minimum(np.maximum(standing.depth, 0), judged.counts)
    rows = int(np.maximum(standing.depth, 0).sum())
    refuse_unjoined(
        report,
        int(reachable.sum()),
        rows,
        lambda: hints("document", judged.documents.number.keys(), standing.sample()),
    )
    return Scores(
        queries=tuple(judged.numbers),
        ks=judged.core.ks,
        metrics=metrics.score(judged.core, places.query, places.rank, grade),
        report=report,
        ties=_tie_bounds(judged, standing, places, grade),
    )


def _report(judged: Judged, standing: Standing, places: Places) -> JoinReport:
    queries = tuple(judged.numbers)
    known = set(judged.set_aside)
    n_documents = len(judged.documents.number)
    report = JoinReport(
        queries=len(queries),
        missing=tuple(queries[number] for number in np.flatnonzero(standing.depth < 0).tolist()),
        set_aside=judged.set_aside,
        unknown=tuple(query for query in standing.unscored if query not in known),
        judgments=len(judged.core.keys),
        retrieved=len(places.query),
        never_retrieved=int(np.count_nonzero(np.bincount(places.document, minlength=n_documents) == 0)),
        repeated=judged.repeated,
    )
    return replace(report, hints=query_hints(report)) if report.missing and report.unknown else report


def _tie_bounds(
    judged: Judged, standing: Standing, places: Places, grade: metrics.Ints
) -> tuple[TieBounds, ...]:
    relevant = grade >= 1
    if not standing.crossing.any() and not (places.size[relevant] > 1).any():
        return ()
    query, _, _, first, size = (part[relevant] for part in places)
    order = np.lexsort((-grade[relevant], first, query))
    query, first, size, grade = query[order], first[order], size[order], grade[relevant][order]
    opens = np.append(True, (query[1:] != query[:-1]) | (first[1:] != first[:-1]))[: len(query)]
    before = np.arange(len(query)) - np.flatnonzero(opens)[np.cumsum(opens) - 1]
    best = metrics.score(judged.core, query, first + before, grade)
    worst = metrics.score(judged.core, query, first + size - 1 - before, grade)
    return tuple(
        TieBounds(
            k=k,
            crossing=int(standing.crossing[place]),
            worst={name: float(part[:, place].mean()) for name, part in worst._asdict().items()},
            best={name: float(part[:, place].mean()) for name, part in best._asdict().items()},
        )
        for place, k in enumerate(judged.core.ks)
    )


def score_rankings(
    rankings: "pd.DataFrame", judgments: "pd.DataFrame", ks: Sequence[int], gain: Gain = "exponential"
) -> "pd.DataFrame":
    """Score rankings of chunks, where each K was asked for on its own.

    Parameters
    ----------
    rankings
        One row a case, K and rank: ``case_id, k, rank, document_id, chunk_id``; other columns are ignored. ``rank``
        counts from 1. Rows of cases without judgments (unsupported questions) and of other K are not looked at.
    judgments
        One row a judged chunk of a case: ``case_id, document_id, chunk_id, grade``; where a chunk is judged
        twice the higher grade wins. Its cases are the cases scored.
    ks
        Cutoffs K.
    gain
        ``exponential`` or ``linear``.

    Returns
    -------
    DataFrame
        One row a case and K, sorted so: ``case_id, k, precision, recall, reciprocal_rank, ndcg``, each in [0, 1] and
        0 where nothing was returned; ``judged``, the share of the chunks returned within K that have a judgment,
        NaN where nothing was returned; ``precision_upper``, the precision if every unjudged chunk were relevant
        (``precision`` itself is the lower bound). Empty judgments give an empty table.

    Raises
    ------
    InputError
        K below 1, a grade other than 0, 1 and 2, a case without a relevant chunk, or a chunk twice in one ranking;
        the text names every case concerned.
    """
    import pandas as pd

    check_ks(ks)
    cases = pd.Index(judgments["case_id"].unique()).sort_values()
    faults = _judgment_faults(judgments) + _ranking_faults(rankings)
    if faults:
        raise InputError("rankings cannot be scored:\n- " + "\n- ".join(faults))
    judgments = judgments.sort_values("grade").drop_duplicates(["case_id", *_CHUNK], keep="last")
    judged = metrics.prepare(
        cases.get_indexer(judgments["case_id"]),
        np.arange(len(judgments)),
        judgments["grade"].to_numpy(np.int64),
        n_queries=len(cases),
        ks=ks,
        gain=gain,
    )
    rows = rankings.loc[rankings["case_id"].isin(cases), ["case_id", "k", "rank", *_CHUNK]]
    rows = rows.merge(judgments[["case_id", *_CHUNK, "grade"]], how="left", on=["case_id", *_CHUNK])
    rows = rows.assign(query=cases.get_indexer(rows["case_id"])).sort_values(["query", "rank"])
    return _long_table(cases, [_one_k(judged, column, rows) for column in range(len(ks))])


def _one_k(judged: metrics.Judgments, column: int, rows: "pd.DataFrame") -> "pd.DataFrame":
    import pandas as pd

    k, n = judged.ks[column], judged.n_queries
    rows = rows[(rows["k"] == k) & (rows["rank"] <= k)]
    known = rows[rows["grade"].notna()]
    places = [known[name].to_numpy(np.int64) for name in ("query", "rank", "grade")]
    scores = metrics.score_at(judged, column, *places)
    returned = np.bincount(rows["query"], minlength=n)
    labelled = np.bincount(known["query"], minlength=n)
    share = np.divide(labelled, returned, out=np.full(n, np.nan), where=returned > 0)
    upper = scores.precision + (returned - labelled) / k
    return pd.DataFrame({"k": k, **scores._asdict(), "judged": share, "precision_upper": upper})


def _long_table(cases: "pd.Index[str]", tables: list["pd.DataFrame"]) -> "pd.DataFrame":
    import pandas as pd

    for table in tables:
        table.insert(0, "case_id", cases)
    return pd.concat(tables).sort_values(["case_id", "k"], kind="stable", ignore_index=True)


def _judgment_faults(judgments: "pd.DataFrame") -> list[str]:
    strange = judgments[~judgments["grade"].isin([0, 1, 2])]
    faults = [
        f"case {case!r}: grade {grade!r} on {document!r} {chunk!r}; grades are 2 (answers), 1 (supports), 0 (neither)"
        for case, document, chunk, grade in strange[["case_id", *_CHUNK, "grade"]].itertuples(index=False)
    ]
    relevant = judgments.loc[judgments["grade"] >= 1, "case_id"]
    without = judgments.loc[~judgments["case_id"].isin(relevant), "case_id"].unique()
    return faults + [
        f"case {case!r}: no chunk of grade 1 or 2; label one or take the case out" for case in without
    ]


def _ranking_faults(rankings: "pd.DataFrame") -> list[str]:
    twice = rankings[rankings.duplicated(["case_id", "k", *_CHUNK])]
    return [
        f"case {case!r}: chunk {chunk!r} of {document!r} stands twice in the ranking at K={k}"
        for case, k, document, chunk in twice[["case_id", "k", *_CHUNK]].itertuples(index=False)
    ]
