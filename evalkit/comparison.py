"""Two runs of the same questions: mean differences with what chance explains, and every case that changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalkit.comparability import Contract, contract, require_comparable
from evalkit.evidence import rank_outside
from evalkit.intervals import mean_interval
from evalkit.runs import Run, list_runs, load_run
from evalkit.statistics import detectable_difference, sign_flip_test

VERDICTS = ("worse", "ranks lower", "not compared", "same", "ranks higher", "better")
MEANS = (
    "metric k n left_out baseline candidate difference low high p method detectable better worse equal note"
).split()
ERRORS = ("false_acceptance", "false_rejection")
_SIDES = ("_baseline", "_candidate")
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Comparison:
    """A candidate against a baseline.

    Attributes
    ----------
    baseline, candidate
        The runs.
    k
        Cutoff of the tables of cases.
    contract
        What differs, and what may be compared.
    means, decisions, cases, facts, moves
        Tables of `mean_differences`, `decision_differences`, `case_changes`, `fact_changes` and `rank_moves`.
    """

    baseline: Run
    candidate: Run
    k: int
    contract: Contract
    means: pd.DataFrame
    decisions: pd.DataFrame
    cases: pd.DataFrame
    facts: pd.DataFrame
    moves: pd.DataFrame


def compare(baseline: Run, candidate: Run, k: int | None = None) -> Comparison:
    """Compare two runs.

    Parameters
    ----------
    baseline, candidate
        Runs of the same cases, labels and K.
    k
        Cutoff at which cases are compared; the largest of the runs by default.

    Returns
    -------
    Comparison
        Figures at every K, cases at one.

    Raises
    ------
    InputError
        The runs cannot be compared (all reasons at once), or have no such K.
    """
    terms = require_comparable(baseline, candidate)
    cutoff = baseline.cutoff(k)
    return Comparison(
        baseline=baseline,
        candidate=candidate,
        k=cutoff,
        contract=terms,
        means=mean_differences(baseline, candidate, terms),
        decisions=decision_differences(baseline, candidate),
        cases=case_changes(baseline, candidate, cutoff, terms),
        facts=fact_changes(baseline, candidate, cutoff),
        moves=rank_moves(baseline, candidate, cutoff, terms),
    )


def baseline_for(candidate: Run, ref: str | None = None) -> Run:
    """Find the run to compare with.

    Parameters
    ----------
    candidate
        The run that is judged.
    ref
        A run as `runs.load_run` takes it; None looks for the newest comparable run before the candidate.

    Returns
    -------
    Run
        Without such a run the candidate itself, which differs in nothing and which the contract says.

    Raises
    ------
    InputError
        No such run.
    """
    if ref is not None:
        return load_run(ref)
    known = list_runs()
    before = known[(known["dataset"] == candidate.record.dataset.name) & (known["run_id"] < candidate.run_id)]
    for run_id in before["run_id"]:
        run = load_run(run_id)
        if not contract(run, candidate).reasons:
            return run
    return candidate


def mean_differences(baseline: Run, candidate: Run, terms: Contract) -> pd.DataFrame:
    """Compare the macro means over answerable cases, pairing case by case.

    Parameters
    ----------
    baseline, candidate
        Comparable runs.
    terms
        Their contract.

    Returns
    -------
    DataFrame
        A row a metric and K: ``metric, k, n`` (cases with a value in both runs), ``left_out`` (cases with a value in
        one run only), ``baseline, candidate, difference`` (means, candidate minus baseline), ``low, high`` (95 %
        interval of the difference, see `intervals.mean_interval`), ``p, method`` (sign-flip test), ``detectable``
        (`statistics.detectable_difference`), ``better, worse, equal`` (cases), ``note`` (words on the interval). NaN
        where n is 0 or too small.
    """
    pairs = _pairs(baseline.scores, candidate.scores, ["case_id", "k"])
    rows = []
    for metric in terms.metrics:
        for k, cases in pairs.groupby("k"):
            old, new = (cases[metric + side].to_numpy(dtype=np.float64, na_value=np.nan) for side in _SIDES)
            rows.append((metric, k, *_paired(old, new)))
    return pd.DataFrame(rows, columns=MEANS)


def decision_differences(baseline: Run, candidate: Run) -> pd.DataFrame:
    """Compare wrong decisions of acceptance: unsupported questions accepted, answerable ones rejected.

    Parameters
    ----------
    baseline, candidate
        Comparable runs; each decides by its own threshold (without one, whatever returns a passage is accepted).

    Returns
    -------
    DataFrame
        Columns as of `mean_differences`, with ``metric`` ``false_acceptance`` or ``false_rejection``: rates, so that
        a positive difference is worse.
    """
    key = ["case_id", "k", "answerable"]
    pairs = _pairs(baseline.questions[[*key, "accepted"]], candidate.questions[[*key, "accepted"]], key)
    rows = []
    for metric, answerable in zip(ERRORS, (False, True), strict=True):
        for k, asked in pairs[pairs["answerable"] == answerable].groupby("k"):
            old, new = (
                (asked["accepted" + side] != answerable).to_numpy(dtype=np.float64) for side in _SIDES
            )
            rows.append((metric, k, *_paired(old, new, lower_is_better=True)))
    return pd.DataFrame(rows, columns=MEANS)


def fact_changes(baseline: Run, candidate: Run, k: int) -> pd.DataFrame:
    """Pair the required facts of every case at one K.

    Returns
    -------
    DataFrame
        A row a fact: ``case_id, fact, text, change`` (``lost``, ``gained`` or ``same``), and of each run
        ``found_*, rank_*, document_id_*, chunk_id_*, quote_*`` with ``baseline`` or ``candidate`` at the end. Ranks
        are null where neither the first K nor the diagnostic ranking holds the fact.
    """
    columns = ["case_id", "fact", "text", "found", "rank", "document_id", "chunk_id", "quote"]
    tables = [run.facts.loc[run.facts["k"] == k, columns] for run in (baseline, candidate)]
    pairs = _pairs(tables[0], tables[1].drop(columns="text"), ["case_id", "fact"])
    before, after = (
        pairs["found" + side].astype("boolean").fillna(value=False).astype(bool) for side in _SIDES
    )
    change = np.select([before & ~after, ~before & after], ["lost", "gained"], "same")
    pairs.insert(3, "change", pd.Series(change, dtype="str"))
    return pairs


def case_changes(baseline: Run, candidate: Run, k: int, terms: Contract) -> pd.DataFrame:
    """Say of every answerable case whether the candidate brings more or less of its evidence, the worst first.

    A case is ``worse`` when the candidate lost one of its required facts, ``better`` when it gained one and lost
    none; a case without facts is judged by recall instead, or ``not compared`` when chunks cannot be. With the
    same evidence, a change of nDCG makes it ``ranks lower`` or ``ranks higher``.

    Parameters
    ----------
    baseline, candidate
        Comparable runs.
    k
        Cutoff.
    terms
        Their contract.

    Returns
    -------
    DataFrame
        ``case_id, question, category, verdict`` (one of `VERDICTS`), ``facts_lost,
        facts_gained`` (counts) and ``<metric>_baseline, <metric>_candidate, <metric>_difference`` of the metrics
        compared; sorted by verdict, facts lost, differences of coverage (recall without facts) and nDCG, case.
    """
    columns = ["case_id", *terms.metrics]
    before, after = (run.scores.loc[run.scores["k"] == k, columns] for run in (baseline, candidate))
    pairs = _pairs(before, after, ["case_id"])
    for metric in terms.metrics:
        pairs[f"{metric}_difference"] = _difference(pairs, metric)
    asked = baseline.questions.loc[baseline.questions["k"] == k, ["case_id", "question", "category"]]
    cases = asked.merge(pairs, on="case_id")
    changes = fact_changes(baseline, candidate, k).groupby(["case_id", "change"]).size().unstack(fill_value=0)
    for change in ("gained", "lost"):
        counted = changes[change] if change in changes else pd.Series(dtype="int64")
        cases.insert(3, f"facts_{change}", cases["case_id"].map(counted).fillna(0).astype("int64"))
    evidence = cases["coverage_difference"]
    ranking = pd.Series(np.nan, index=cases.index)
    if terms.chunks_comparable:
        evidence = evidence.fillna(cases["recall_difference"])
        ranking = cases["ndcg_difference"]
    cases.insert(3, "verdict", _verdicts(cases, evidence, ranking))
    return _worst_first(cases, evidence, ranking)


def fact_standing(fact: Mapping[Any, Any], side: str, run: Run, k: int) -> str:
    """Say where a fact stands in one of the two runs.

    Parameters
    ----------
    fact
        A row of `fact_changes`.
    side
        ``baseline`` or ``candidate``.
    run
        The run of that side.
    k
        Cutoff of the row.
    """
    if fact[f"found_{side}"]:
        return f"found at rank {fact[f'rank_{side}']}"
    if pd.isna(fact[f"chunk_id_{side}"]):
        return "lost to chunking"
    search = run.record.search
    return rank_outside(fact[f"rank_{side}"], k, search.depth, search.threshold)


def rank_moves(baseline: Run, candidate: Run, k: int, terms: Contract) -> pd.DataFrame:
    """Follow every relevant chunk from its rank in the baseline to its rank in the candidate.

    Parameters
    ----------
    baseline, candidate
        Comparable runs.
    k
        Cutoff; a rank up to K is the one of the scored ranking, a rank beyond it comes from the diagnostic one.
    terms
        Their contract.

    Returns
    -------
    DataFrame
        ``case_id, document_id, chunk_id, grade, rank_baseline, rank_candidate`` (Int64; null beyond the diagnostic
        depth) of the chunks that moved, the largest falls first. Empty when chunks cannot be compared.
    """
    place = ["case_id", "document_id", "chunk_id"]
    moved = [*place, "grade", "rank_baseline", "rank_candidate"]
    if not terms.chunks_comparable:
        return pd.DataFrame(columns=moved)
    judged = pd.concat([run.judgments[run.judgments["grade"] > 0] for run in (baseline, candidate)])
    table = judged.sort_values("grade").drop_duplicates(place, keep="last")[[*place, "grade"]]
    for run, side in zip((baseline, candidate), _SIDES, strict=True):
        scored = run.rankings.loc[run.rankings["k"] == k, [*place, "rank"]]
        below = run.deep.loc[run.deep["rank"] > k, [*place, "rank"]]
        ranks = pd.concat([scored, below]).drop_duplicates(place).astype({"rank": "Int64"})
        table = table.merge(ranks.rename(columns={"rank": f"rank{side}"}), on=place, how="left")
    beyond = max(run.record.search.depth for run in (baseline, candidate)) + k + 1
    before, after = (table[f"rank{side}"].fillna(beyond).astype("int64") for side in _SIDES)
    table = table.assign(fall=after - before)[before != after]
    return table.sort_values(["fall", *place], ascending=[False, True, True, True], ignore_index=True)[moved]


def _pairs(baseline: pd.DataFrame, candidate: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    return baseline.merge(candidate, on=key, how="outer", suffixes=_SIDES, validate="one_to_one", sort=True)


def _difference(pairs: pd.DataFrame, metric: str) -> pd.Series:
    return pairs[f"{metric}_candidate"].astype("float64") - pairs[f"{metric}_baseline"].astype("float64")


def _paired(old: np.ndarray, new: np.ndarray, *, lower_is_better: bool = False) -> tuple[object, ...]:
    present = ~np.isnan(old) & ~np.isnan(new)
    left_out = int((np.isnan(old) != np.isnan(new)).sum())
    before, after = old[present], new[present]
    change = after - before
    change[np.abs(change) < _TOLERANCE] = 0.0
    interval = mean_interval(change, bounds=(-1, 1))
    test = sign_flip_test(change)
    rose, fell = int((change > 0).sum()), int((change < 0).sum())
    better, worse = (fell, rose) if lower_is_better else (rose, fell)
    means = (float(values.mean()) if len(values) else float("nan") for values in (before, after))
    return (
        *(len(change), left_out, *means),
        *(interval.mean, interval.low, interval.high),
        *(test.p, test.method, detectable_difference(change)),
        *(better, worse, len(change) - better - worse, interval.note),
    )


def _verdicts(cases: pd.DataFrame, evidence: pd.Series, ranking: pd.Series) -> pd.Series:
    worse = (cases["facts_lost"] > 0) | (evidence < -_TOLERANCE)
    better = (cases["facts_gained"] > 0) | (evidence > _TOLERANCE)
    chosen = np.select(
        [worse, better, ranking < -_TOLERANCE, ranking > _TOLERANCE, evidence.notna()],
        ["worse", "better", "ranks lower", "ranks higher", "same"],
        "not compared",
    )
    return pd.Series(chosen, index=cases.index, dtype="str")


def _worst_first(cases: pd.DataFrame, evidence: pd.Series, ranking: pd.Series) -> pd.DataFrame:
    order = pd.DataFrame(
        {
            "verdict": cases["verdict"].map({name: place for place, name in enumerate(VERDICTS)}),
            "lost": -cases["facts_lost"],
            "evidence": evidence.fillna(0).round(9),
            "ranking": ranking.fillna(0).round(9),
            "case_id": cases["case_id"],
        }
    )
    return cases.loc[order.sort_values(list(order.columns)).index].reset_index(drop=True)
