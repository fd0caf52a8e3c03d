"""What is measured: for each tool, how it prepares judgments, how it scores a run, and its means at every K.

Precision, recall, reciprocal rank and nDCG with exponential gain at K = 1, 3, 5, 10, 100. Tools with linear gain
alone get the gains as grades; reciprocal rank at K comes from the whole one where a tool has no cutoff for it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KS = (1, 3, 5, 10, 100)
GAINS = {1: 1, 2: 3, 3: 7}
NAMES = ("precision", "recall", "reciprocal_rank", "ndcg")
Means = dict[str, list[float]]


@dataclass(frozen=True)
class Tool:
    """A tool for one form of input.

    Attributes
    ----------
    prepare
        From judgments to what `score` needs; measured apart, since it is done once for many runs.
    score
        From a run and prepared judgments to means; whatever a tool needs to take the form of input is part of it.
    """

    prepare: Callable[[Any], Any]
    score: Callable[[Any, Any], Means]


def _as_is(qrels: Any) -> Any:
    return qrels


# evalkit


def _means(scores: Any) -> Means:
    means = scores.means()
    return {name: means[name].tolist() for name in NAMES}


def _prepare(qrels: Any) -> Any:
    from evalkit.scoring import prepare

    return prepare(qrels, KS)


def _score(run: Any, judged: Any) -> Means:
    from evalkit.scoring import score_run

    return _means(score_run(run, judged))


def _score_with_all_tables(run: Any, judged: Any) -> Means:
    """Means, and with them the scores of every query and the means of ten categories."""
    from evalkit.scoring import score_run

    scores = score_run(run, judged)
    scores.per_query()
    scores.by_category({query: f"category {place % 10}" for place, query in enumerate(scores.queries)})
    return _means(scores)


def _score_files(run: Path, qrels: Path) -> Means:
    from evalkit.scorefiles import score_run_file

    return _means(score_run_file(run, qrels, KS))


# pytrec_eval


def _evaluator(qrels: dict[str, dict[str, int]]) -> Any:
    import pytrec_eval

    gained = {
        query: {d: GAINS.get(grade, grade) for d, grade in held.items()} for query, held in qrels.items()
    }
    cutoffs = ",".join(map(str, KS))
    wanted = {f"P.{cutoffs}", f"recall.{cutoffs}", "recip_rank", f"ndcg_cut.{cutoffs}"}
    return pytrec_eval.RelevanceEvaluator(gained, wanted), len(qrels)


def _evaluate(run: dict[str, dict[str, float]], prepared: Any) -> Means:
    evaluator, n = prepared
    found = evaluator.evaluate(run).values()

    def mean(name: str) -> list[float]:
        return [sum(one[f"{name}_{k}"] for one in found) / n for k in KS]

    ranks = [one["recip_rank"] for one in found]
    reciprocal = [sum(rank for rank in ranks if rank >= 1 / k - 1e-12) / n for k in KS]
    return dict(zip(NAMES, (mean("P"), mean("recall"), reciprocal, mean("ndcg_cut")), strict=True))


def _evaluate_files(run: Path, qrels: Path) -> Means:
    import pytrec_eval

    with qrels.open() as stream:
        judged = _evaluator(pytrec_eval.parse_qrel(stream))
    with run.open() as stream:
        return _evaluate(pytrec_eval.parse_run(stream), judged)


def _evaluate_lists(run: dict[str, list[str]], prepared: Any) -> Means:
    scored = {
        query: dict(zip(ranking, range(len(ranking), 0, -1), strict=True)) for query, ranking in run.items()
    }
    return _evaluate(scored, prepared)


def nested(frame: Any, value: str) -> dict[str, dict[str, Any]]:
    """Make dictionaries of a DataFrame, with ids as text."""
    made: dict[str, dict[str, Any]] = {}
    queries, documents = (frame[name].astype("str").tolist() for name in ("query_id", "document_id"))
    for query, document, number in zip(queries, documents, frame[value].tolist(), strict=True):
        made.setdefault(query, {})[document] = number
    return made


# ir_measures


def _ir_measures() -> list[list[Any]]:
    from ir_measures import RR, P, R, nDCG

    return [[one @ k for k in KS] for one in (P, R)] + [[RR], [nDCG(gains=GAINS) @ k for k in KS]]


def _ir_evaluator(qrels: Any) -> Any:
    import ir_measures

    return ir_measures.evaluator([measure for column in _ir_measures() for measure in column], qrels)


def _ir_calc(run: Any, evaluator: Any) -> Means:
    found = evaluator.calc_aggregate(run)
    values = [[found[measure] for measure in column] for column in _ir_measures()]
    return {name: column for name, column in zip(NAMES, values, strict=True) if len(column) == len(KS)}


def _ir_files(run: Path, qrels: Path) -> Means:
    import ir_measures

    judged = _ir_evaluator(ir_measures.read_trec_qrels(str(qrels)))
    return _ir_calc(ir_measures.read_trec_run(str(run)), judged)


# ranx


def _ranx_qrels(qrels: Any) -> Any:
    from ranx import Qrels

    return Qrels(qrels)


def _ranx(run: Any, qrels: Any) -> Means:
    from ranx import Run, evaluate

    measures = [f"{name}@{k}" for name in ("precision", "recall", "mrr", "ndcg_burges") for k in KS]
    found = evaluate(qrels, run if isinstance(run, Run) else Run(run), measures)
    values = [float(found[name]) for name in measures]
    return {name: values[len(KS) * place : len(KS) * (place + 1)] for place, name in enumerate(NAMES)}


def _ranx_files(run: Path, qrels: Path) -> Means:
    from ranx import Qrels, Run

    return _ranx(Run.from_file(str(run), kind="trec"), Qrels.from_file(str(qrels), kind="trec"))


EVALKIT = Tool(_prepare, _score)
FRAMES = {
    "evalkit": EVALKIT,
    "pytrec_eval": Tool(
        lambda qrels: _evaluator(nested(qrels, "grade")),
        lambda run, evaluator: _evaluate(nested(run, "score"), evaluator),
    ),
}
TOOLS: dict[str, dict[str, Tool]] = {
    "TREC files": {
        "evalkit": Tool(_as_is, _score_files),
        "pytrec_eval": Tool(_as_is, _evaluate_files),
        "ir_measures": Tool(_as_is, _ir_files),
        "ranx": Tool(_as_is, _ranx_files),
    },
    "dictionaries": {
        "evalkit": EVALKIT,
        "pytrec_eval": Tool(_evaluator, _evaluate),
        "ir_measures": Tool(_ir_evaluator, _ir_calc),
        "ranx": Tool(_ranx_qrels, _ranx),
    },
    "DataFrames, text ids": FRAMES,
    "DataFrames, integer ids": FRAMES,
    "top-100 lists": {"evalkit": EVALKIT, "pytrec_eval": Tool(_evaluator, _evaluate_lists)},
    "per query and category": {"evalkit": Tool(_prepare, _score_with_all_tables), "means alone": EVALKIT},
    "first score": {"evalkit": EVALKIT, "pytrec_eval": Tool(_evaluator, _evaluate)},
}
