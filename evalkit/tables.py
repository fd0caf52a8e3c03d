"""Rankings and labels made into the tables of a run."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evalkit.chunking import Chunk
from evalkit.dataset import Dataset
from evalkit.errors import SHOWN, InputError, bullets, counted
from evalkit.evidence import cover, fact_table
from evalkit.labels import Labels
from evalkit.measures import JUDGED, MEASURES
from evalkit.points import Hit
from evalkit.scoring import score_rankings
from evalkit.settings import Retention

SNIPPET = 200
PARTIAL = (JUDGED, "precision_upper")
"""Further columns of the scores under partial judgments: judged share and upper bound of precision at K."""
_KEY = ["document_id", "chunk_id"]
_RANKED = ["case_id", "k", "rank", *_KEY, "score"]
_RANKINGS = (
    "case_id k rank document_id chunk_id chunking_version score grade document_type publication_state text"
).split()
_DEEP = [name for name in _RANKINGS if name not in ("k", "document_type", "publication_state")]


@dataclass(frozen=True)
class Tables:
    """The tables of one run, columns as in ``docs/architecture.md``."""

    rankings: pd.DataFrame
    scores: pd.DataFrame
    questions: pd.DataFrame
    facts: pd.DataFrame
    judgments: pd.DataFrame
    deep: pd.DataFrame


def ranking_table(case_ids: Sequence[str], rankings: Sequence[Sequence[Hit]]) -> pd.DataFrame:
    """Lay rankings out as rows.

    Parameters
    ----------
    case_ids
        One id a ranking.
    rankings
        Hits in returned order; an empty ranking gives no row.

    Returns
    -------
    DataFrame
        ``case_id, rank`` (from 1)``, document_id, chunk_id, score`` (float64 of the engine's float32).
    """
    lengths = [len(ranking) for ranking in rankings]
    hits = [hit for ranking in rankings for hit in ranking]
    ranks = [np.arange(1, n + 1, dtype=np.int64) for n in lengths]
    return pd.DataFrame(
        {
            "case_id": pd.array(np.repeat(np.asarray(case_ids, dtype=object), lengths), dtype="str"),
            "rank": np.concatenate(ranks or [np.empty(0, np.int64)]),
            **{name: _texts([hit.payload.get(name) for hit in hits]) for name in _KEY},
            "score": np.asarray([hit.score for hit in hits], dtype=np.float32).astype(np.float64),
        }
    )


def make_tables(
    dataset: Dataset,
    chunks: Sequence[Chunk],
    labels: Labels,
    rankings: pd.DataFrame,
    deep: pd.DataFrame,
    ks: Sequence[int],
    retention: Retention = "full",
) -> Tables:
    """Judge rankings and score them.

    Parameters
    ----------
    dataset, chunks, labels
        What was asked and what is relevant, under one chunking version; texts and properties come from the chunks.
    rankings
        Columns of `ranking_table` and ``k``; each K has a ranking of its own. Others are not looked at.
    deep
        Columns of `ranking_table`: one deeper ranking a question, for diagnosis.
    ks
        Cutoffs K in ascending order.
    retention
        How much of the texts the tables keep.

    Returns
    -------
    Tables
        Sorted, with fixed dtypes, so that equal inputs give equal bytes.

    Raises
    ------
    InputError
        A ranking holds a chunk that is no eligible chunk of the corpus, or scores that cannot be ranked.
    """
    rankings, deep = rankings[_RANKED], deep.assign(k=0)[_RANKED]
    payloads = _payloads(dataset, chunks, retention, rankings, deep)
    return Tables(
        rankings=_graded(dataset, labels, rankings).merge(
            payloads, how="left", on=_KEY, validate="many_to_one"
        )[_RANKINGS],
        scores=_scores(dataset, labels, rankings, ks),
        questions=_questions(dataset, rankings, ks),
        facts=fact_table(rankings, deep, labels, ks),
        judgments=labels.judgments.sort_values(["case_id", *_KEY], ignore_index=True),
        deep=_graded(dataset, labels, deep).merge(payloads, how="left", on=_KEY, validate="many_to_one")[
            _DEEP
        ],
    )


def _texts(values: Sequence[str | None]) -> "pd.Series[str]":
    return pd.Series(list(values), dtype="str")


def _payloads(
    dataset: Dataset, chunks: Sequence[Chunk], retention: Retention, *rankings: pd.DataFrame
) -> pd.DataFrame:
    """Give the properties of each ranked chunk, and of its text what is kept; refuse one that is not eligible."""
    known = {(chunk.document_id, chunk.chunk_id): chunk for chunk in chunks if dataset.is_eligible(chunk)}
    ranked = pd.concat([table[_KEY].drop_duplicates() for table in rankings]).drop_duplicates()
    places = list(zip(*(ranked[name].to_numpy(object) for name in _KEY), strict=True))
    if unknown := set(places) - known.keys():
        rows = pd.concat([table[["case_id", *_KEY]] for table in rankings]).drop_duplicates()
        named = [
            f"case {case_id}: {document_id} {chunk_id}"
            for case_id, document_id, chunk_id in rows.itertuples(index=False, name=None)
            if (document_id, chunk_id) in unknown
        ]
        raise InputError(
            f"{counted(len(named), 'returned chunk')} not among the eligible ones of data set {dataset.name}, which "
            f"cannot be judged:{bullets(named, SHOWN)}\nindex the data set again, or check whose rankings these are"
        )
    named_chunks = [known[place] for place in places]
    return ranked.assign(
        chunking_version=_texts([chunk.chunking_version for chunk in named_chunks]).array,
        document_type=_texts([chunk.document_type for chunk in named_chunks]).array,
        publication_state=_texts([chunk.publication_state for chunk in named_chunks]).array,
        text=_texts([_retained(chunk.text, retention) for chunk in named_chunks]).array,
    )


def _graded(dataset: Dataset, labels: Labels, rankings: pd.DataFrame) -> pd.DataFrame:
    """Rankings with ``grade``: null for unsupported questions and, under partial judgments, unjudged chunks."""
    grades = labels.judgments[["case_id", *_KEY, "grade"]]
    found = rankings[["case_id", *_KEY]].merge(
        grades, on=["case_id", *_KEY], how="left", validate="many_to_one"
    )
    graded = rankings.assign(grade=found["grade"].astype("Int64").array)
    if dataset.judgments == "complete":
        answerable = graded["case_id"].isin([case.id for case in dataset.cases])
        graded.loc[answerable & graded["grade"].isna(), "grade"] = 0
    return graded.sort_values(["case_id", "k", "rank"], ignore_index=True)


def _scores(dataset: Dataset, labels: Labels, rankings: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    cases = pd.DataFrame(
        {
            "case_id": _texts([case.id for case in dataset.cases]),
            "category": _texts([case.category for case in dataset.cases]),
            "split": _texts([case.split for case in dataset.cases]),
        }
    )
    measures = [*MEASURES, *(PARTIAL if dataset.judgments == "partial" else ())]
    answerable = rankings[rankings["case_id"].isin(cases["case_id"])]
    table = cases.merge(pd.DataFrame({"k": np.asarray(ks, dtype=np.int64)}), how="cross")
    for part in (score_rankings(answerable, labels.judgments, ks), cover(answerable, labels, ks)):
        table = table.merge(part, on=["case_id", "k"], how="left", validate="one_to_one")
    # A case whose facts are all cut by this chunking has no relevant chunk: no chunk metrics, and coverage 0.
    unscored = table["precision"].isna() & table["coverage"].isna()
    if unscored.any():
        missing = ", ".join(sorted(table.loc[unscored, "case_id"].unique()))
        raise InputError(
            f"data set {dataset.name}: no relevant chunk for {missing}; label a chunk or a quote"
        )
    return table.sort_values(["case_id", "k"], ignore_index=True)[
        ["case_id", "category", "split", "k", *measures]
    ]


def _questions(dataset: Dataset, rankings: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    asked = dataset.questions
    questions = pd.DataFrame(
        {
            "case_id": _texts([one.id for one in asked]),
            "question": _texts([one.question for one in asked]),
            "category": _texts([one.category for one in asked]),
            "split": _texts([one.split for one in asked]),
            "answerable": [True] * len(dataset.cases) + [False] * len(dataset.unsupported),
        }
    ).merge(pd.DataFrame({"k": np.asarray(ks, dtype=np.int64)}), how="cross")
    results = (
        rankings.groupby(["case_id", "k"])["score"].agg(result_count="size", top_score="max").reset_index()
    )
    table = questions.merge(results, on=["case_id", "k"], how="left")
    table["result_count"] = table["result_count"].fillna(0).astype("int64")
    table["accepted"] = table["result_count"] > 0
    return table.sort_values(["case_id", "k"], ignore_index=True)


def _retained(text: str, retention: Retention) -> str | None:
    match retention:
        case "full":
            return text
        case "snippet":
            return text[:SNIPPET]
        case "hash":
            return hashlib.sha256(text.encode()).hexdigest()
        case "none":
            return None
