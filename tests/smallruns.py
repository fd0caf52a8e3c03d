"""Runs written by hand: who needs which facts, and at which rank each came."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pandas as pd

from evalkit.evaluation import Evaluation, new_run_id
from evalkit.evidence import cover, fact_table
from evalkit.labels import Labels
from evalkit.metrics import METRICS
from evalkit.records import RunRecord
from evalkit.runs import Run, load_run, write_run
from evalkit.scoring import score_rankings

DEPTH = 10
Ranks = Sequence[int | None]

RECORD: dict[str, Any] = {
    "run_id": "",
    "started": datetime(2026, 1, 1, tzinfo=UTC),
    "finished": datetime(2026, 1, 1, tzinfo=UTC),
    "dataset": {
        "name": "small", "version": 1, "judgments": "complete",
        "corpus_sha256": "c" * 64, "cases_sha256": "a" * 64, "labels_sha256": "b" * 64,
    },
    "chunking": "paragraphs-v1",
    "model": {"embedder": "recorded", "model": "m", "digest": "d" * 64, "profile": "p", "dimension": 8, "batch": 4},
    "store": {"kind": "embedded", "version": "1", "collection": "c"},
    "search": {
        "ks": (1, 3), "threshold": None, "exact": False, "hnsw_ef": None, "depth": DEPTH,
        "filter": {"chunking_version": ("paragraphs-v1",)},
    },
    "retention": "full",
    "code": {"revision": "1" * 40, "dirty": False, "python": "3.11.2", "packages": {"numpy": "2.0.0"}},
    "parameters": {"dataset": "small"},
    "counts": {},
    "timings": {},
    "checks": {},
}  # fmt: skip


def small_run(
    facts: Mapping[str, Ranks],
    *,
    relevant: Mapping[str, Ranks] | None = None,
    unsupported: Mapping[str, bool] | None = None,
    texts: Mapping[str, str] | None = None,
    **changes: Any,
) -> Run:
    """Write a run.

    Parameters
    ----------
    facts
        Case id -> for each of its required facts the rank at which its one chunk comes (None: not within 10).
    relevant
        Cases without facts: case id -> rank of each relevant chunk.
    unsupported
        Unsupported questions: case id -> accepted.
    texts
        Questions that shall not be made from the case id.
    changes
        Parts of the record, such as ``chunking="x"`` or ``search={"ks": (1, 5)}``.
    """
    record = RunRecord.model_validate(_merged(RECORD, changes) | {"run_id": new_run_id(datetime.now(UTC))})
    cases = [facts, relevant or {}, unsupported or {}, texts or {}]
    tables = _tables(json.dumps([*cases, record.search.ks, record.search.threshold, record.chunking]))
    return write_run(Evaluation(record=record, **tables))


@cache
def _tables(given: str) -> dict[str, pd.DataFrame]:
    """Tables of a run, made once for all tests that want the same ones."""
    facts, relevant, unsupported, texts, ks, threshold, chunking = json.loads(given)
    cases = {**facts, **relevant}
    accepted = [case for case, is_accepted in unsupported.items() if is_accepted]
    deep = _deep({**cases, **{case: [] for case in accepted}}, chunking)
    above = deep[deep["score"] > (-1.0 if threshold is None else threshold)]
    rankings = pd.concat([above[above["rank"] <= k].assign(k=k) for k in ks], ignore_index=True)
    labels = _labels(facts, relevant)
    grades = labels.judgments[["case_id", "document_id", "chunk_id", "grade"]].astype({"grade": "Int64"})
    scores = score_rankings(rankings[rankings["case_id"].isin(cases)], labels.judgments, ks)
    covered = cover(rankings[rankings["case_id"].isin(cases)], labels, ks)
    scores = scores[["case_id", "k", *METRICS]].merge(covered, on=["case_id", "k"], how="outer")
    named = {"category": "all", "split": pd.array([None] * len(scores), dtype="str")}
    return {
        "rankings": rankings.merge(grades, how="left").sort_values(
            ["case_id", "k", "rank"], ignore_index=True
        ),
        "scores": scores.assign(**named).sort_values(["case_id", "k"], ignore_index=True),
        "questions": _questions(list(cases), unsupported, texts, rankings, ks),
        "facts": fact_table(rankings, deep, labels, ks),
        "judgments": labels.judgments,
        "deep": deep.merge(grades, how="left"),
    }


def without_hashes(run: Run) -> Run:
    """The run as it was stored before the hashes of its tables were kept."""
    path = run.folder / "run.json"
    record = json.loads(path.read_text())
    del record["tables_sha256"]
    path.write_text(json.dumps(record))
    return load_run(run.folder)


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **base,
        **{
            name: _merged(base[name], value) if isinstance(value, Mapping) and name in base else value
            for name, value in changes.items()
        },
    }


def _deep(asked: Mapping[str, Ranks], chunking: str) -> pd.DataFrame:
    """For each case a ranking in which its facts stand at their ranks, and other passages at the others."""
    rows = []
    for case, ranks in asked.items():
        held = {rank: f"fact/p{index}" for index, rank in enumerate(ranks)}
        rows += [(case, rank, held.get(rank, f"other/p{rank}")) for rank in range(1, DEPTH + 1)]
    table = pd.DataFrame(rows, columns=["case_id", "rank", "chunk_id"])
    table = table.astype({"case_id": "str", "rank": "int64", "chunk_id": "str"})
    return pd.DataFrame(
        {
            "case_id": table["case_id"],
            "rank": table["rank"],
            "document_id": table["case_id"],
            "chunk_id": table["chunk_id"],
            "chunking_version": pd.Series(chunking, table.index, dtype="str"),
            "score": (1 - table["rank"] / 16).astype("float32").astype("float64"),
            "document_type": pd.Series("runbook", table.index, dtype="str"),
            "publication_state": pd.Series("published", table.index, dtype="str"),
            "text": "Passage " + table["rank"].astype("str"),
        }
    )


def _labels(facts: Mapping[str, Ranks], relevant: Mapping[str, Ranks]) -> Labels:
    places = [
        (case, index, 0, case, f"fact/p{index}", f"quote {index} of {case}")
        for case, ranks in facts.items()
        for index in range(len(ranks))
    ]
    judged = [
        (case, case, f"fact/p{index}", 2)
        for case, ranks in (*facts.items(), *relevant.items())
        for index in range(len(ranks))
    ]
    needed = [(case, index, f"Fact {index} of {case}", quote, False) for case, index, *_, quote in places]
    columns = ["case_id", "fact", "quote", "document_id", "chunk_id", "text"]
    return Labels(
        judgments=pd.DataFrame(judged, columns=["case_id", "document_id", "chunk_id", "grade"]),
        facts=pd.DataFrame(needed, columns=["case_id", "fact", "text", "first_quote", "lost"]),
        places=pd.DataFrame(places, columns=columns),
        notices=(),
    )


def _questions(
    cases: Sequence[str],
    unsupported: Mapping[str, bool],
    texts: Mapping[str, str],
    rankings: pd.DataFrame,
    ks: Sequence[int],
) -> pd.DataFrame:
    asked = [*cases, *unsupported]
    questions = pd.DataFrame(
        {
            "case_id": asked,
            "question": [texts.get(case, f"What about {case}?") for case in asked],
            "category": "all",
            "split": pd.array([None] * len(asked), dtype="str"),
            "answerable": [case in cases for case in asked],
        }
    ).merge(pd.DataFrame({"k": list(ks)}), how="cross")
    results = (
        rankings.groupby(["case_id", "k"])["score"].agg(result_count="size", top_score="max").reset_index()
    )
    table = questions.merge(results, on=["case_id", "k"], how="left")
    table["result_count"] = table["result_count"].fillna(0).astype("int64")
    return table.assign(accepted=table["result_count"] > 0).sort_values(["case_id", "k"], ignore_index=True)
