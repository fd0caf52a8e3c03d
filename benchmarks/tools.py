"""What is measured: for each tool and form of input, a function that gives means at every K.

Precision, recall, reciprocal rank and nDCG with exponential gain at K = 1, 3, 5, 10, 100. Tools with linear gain
alone get the gains as grades; reciprocal rank at K comes from the whole one where a tool has no cutoff for it.
"""

from collections.abc import Callable
from typing import Any

KS = (1, 3, 5, 10, 100)
GAINS = {1: 1, 2: 3, 3: 7}
NAMES = ("precision", "recall", "reciprocal_rank", "ndcg")
Means = dict[str, list[float]]


def ours(run: Any, qrels: Any) -> Means:
    from evalkit.scoring import score

    means = score(run, qrels, KS).means()
    return {name: means[name].tolist() for name in NAMES}


def ours_files(run: str, qrels: str) -> Means:
    from pathlib import Path

    from evalkit.scorefiles import score_run_file

    means = score_run_file(Path(run), Path(qrels), KS).means()
    return {name: means[name].tolist() for name in NAMES}


def ours_all_tables(run: Any, qrels: Any) -> Means:
    """Means, and with them the scores of every query and the means of ten categories."""
    from evalkit.scoring import score

    scores = score(run, qrels, KS)
    scores.per_query()
    scores.by_category({query: f"category {place % 10}" for place, query in enumerate(scores.queries)})
    means = scores.means()
    return {name: means[name].tolist() for name in NAMES}


def pytrec_eval_dicts(run: Any, qrels: Any) -> Means:
    import pytrec_eval

    gained = {query: {d: GAINS.get(grade, grade) for d, grade in held.items()} for query, held in qrels.items()}
    cutoffs = ",".join(map(str, KS))
    wanted = {f"P.{cutoffs}", f"recall.{cutoffs}", "recip_rank", f"ndcg_cut.{cutoffs}"}
    found = pytrec_eval.RelevanceEvaluator(gained, wanted).evaluate(run).values()

    def mean(name: str) -> list[float]:
        return [sum(one[f"{name}_{k}"] for one in found) / len(qrels) for k in KS]

    ranks = [one["recip_rank"] for one in found]
    reciprocal = [sum(rank for rank in ranks if rank >= 1 / k - 1e-12) / len(qrels) for k in KS]
    return dict(zip(NAMES, (mean("P"), mean("recall"), reciprocal, mean("ndcg_cut")), strict=True))


def pytrec_eval_files(run: str, qrels: str) -> Means:
    import pytrec_eval

    with open(qrels) as stream:
        judged = pytrec_eval.parse_qrel(stream)
    with open(run) as stream:
        return pytrec_eval_dicts(pytrec_eval.parse_run(stream), judged)


def pytrec_eval_frames(run: Any, qrels: Any) -> Means:
    """By way of dictionaries, which is all that it takes."""
    return pytrec_eval_dicts(_nested(run, "score"), _nested(qrels, "grade"))


def _nested(frame: Any, value: str) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    columns = (frame[name].tolist() for name in ("query_id", "document_id", value))
    for query, document, number in zip(*columns, strict=True):
        nested.setdefault(str(query), {})[str(document)] = number
    return nested


def pytrec_eval_lists(run: Any, qrels: Any) -> Means:
    """By way of dictionaries with scores made from the ranks."""
    scored = {query: dict(zip(ranking, range(len(ranking), 0, -1), strict=True)) for query, ranking in run.items()}
    return pytrec_eval_dicts(scored, qrels)


def ir_measures_dicts(run: Any, qrels: Any) -> Means:
    import ir_measures
    from ir_measures import RR, P, R, nDCG

    measures = [[one @ k for k in KS] for one in (P, R)] + [[RR], [nDCG(gains=GAINS) @ k for k in KS]]
    found = ir_measures.calc_aggregate([measure for column in measures for measure in column], qrels, run)
    values = [[found[measure] for measure in column] for column in measures]
    return {name: column for name, column in zip(NAMES, values, strict=True) if len(column) == len(KS)}


def ir_measures_files(run: str, qrels: str) -> Means:
    import ir_measures

    return ir_measures_dicts(ir_measures.read_trec_run(run), ir_measures.read_trec_qrels(qrels))


RANX = [f"{name}@{k}" for name in ("precision", "recall", "mrr", "ndcg_burges") for k in KS]


def ranx_dicts(run: Any, qrels: Any) -> Means:
    from ranx import Qrels, Run

    return _ranx(Qrels(qrels), Run(run))


def ranx_files(run: str, qrels: str) -> Means:
    from ranx import Qrels, Run

    return _ranx(Qrels.from_file(qrels, kind="trec"), Run.from_file(run, kind="trec"))


def _ranx(qrels: Any, run: Any) -> Means:
    from ranx import evaluate

    found = evaluate(qrels, run, RANX)
    values = [float(found[name]) for name in RANX]
    return {name: values[5 * place : 5 * place + 5] for place, name in enumerate(NAMES)}


TOOLS: dict[str, dict[str, Callable[[Any, Any], Means]]] = {
    "files": {
        "evalkit": ours_files,
        "pytrec_eval": pytrec_eval_files,
        "ir_measures": ir_measures_files,
        "ranx": ranx_files,
    },
    "dictionaries": {
        "evalkit": ours,
        "pytrec_eval": pytrec_eval_dicts,
        "ir_measures": ir_measures_dicts,
        "ranx": ranx_dicts,
    },
    "DataFrames, text ids": {"evalkit": ours, "pytrec_eval": pytrec_eval_frames},
    "DataFrames, integer ids": {"evalkit": ours, "pytrec_eval": pytrec_eval_frames},
    "top-100 lists": {"evalkit": ours, "pytrec_eval": pytrec_eval_lists},
    "all tables": {"evalkit": ours_all_tables, "means alone": ours},
}
