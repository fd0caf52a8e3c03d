"""Criteria of CI held against a run: value, bound, n and verdict of each; figures that mislead are refused."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.comparability import Contract, require_comparable
from evalkit.comparison import case_changes, fact_changes, fact_standing
from evalkit.criteria import FIGURES, Criteria, Figure
from evalkit.errors import CriteriaNotMet, InputError, bullets, counted, refuse, some
from evalkit.measures import EVIDENCE
from evalkit.records import accepted_when
from evalkit.runs import Run

_TOLERANCE = 1e-9  # a mean is a sum of rounded fractions: 0.95 must meet 0.95

_FOREIGN = "should count; the tables of the run do not belong together, evaluate again"


@dataclass(frozen=True)
class Verdict:
    """One criterion held against a run.

    Attributes
    ----------
    name
        Such as ``min complete@3``.
    value, bound
        What was found and what is wanted, as shares or counts.
    relation
        ``>=`` or ``<=``: how the value must stand to the bound.
    n
        Cases that counted.
    passed
        The value keeps the bound.
    detail
        A sentence on where the value comes from.
    """

    name: str
    value: float
    bound: float
    relation: str
    n: int
    passed: bool
    detail: str


@dataclass(frozen=True)
class RegressedCase:
    """A case that is worse than in the baseline, with what it lost in words."""

    case_id: str
    question: str
    detail: str


@dataclass(frozen=True)
class GateReport:
    """All criteria on one run.

    Attributes
    ----------
    run_id, baseline_id
        The runs; no baseline is None.
    dataset
        Name and version of the data set.
    verdicts
        One a criterion, in the order given.
    regressed
        Cases worse than in the baseline, the worst first; empty when no criterion asks for them.
    notes
        Sentences from the comparison with the baseline.
    """

    run_id: str
    baseline_id: str | None
    dataset: str
    verdicts: tuple[Verdict, ...]
    regressed: tuple[RegressedCase, ...]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Every criterion is met."""
        return all(verdict.passed for verdict in self.verdicts)

    def enforce(self) -> None:
        """Do nothing when every criterion is met.

        Raises
        ------
        CriteriaNotMet
            Names every criterion missed with value, bound and n.
        """
        missed = [
            f"{verdict.name}: found {shown(verdict.value)}, wanted {verdict.relation} {shown(verdict.bound)} "
            f"(n = {verdict.n})"
            for verdict in self.verdicts
            if not verdict.passed
        ]
        if missed:
            raise CriteriaNotMet(
                f"run {self.run_id} misses {len(missed)} of {len(self.verdicts)} criteria:{bullets(missed)}"
            )


def shown(value: float) -> str:
    """Write a share with four digits and a count as it is."""
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def gate(run: Run, criteria: Criteria, baseline: Run | None = None) -> GateReport:
    """Hold a run against criteria.

    Parameters
    ----------
    run
        The run that must be good enough.
    criteria
        What it must reach.
    baseline
        The run that it must not fall behind.

    Returns
    -------
    GateReport
        A verdict a criterion. Call `GateReport.enforce` for the exit code.

    Raises
    ------
    InputError
        A criterion needs a baseline and there is none; the runs cannot be compared; a figure that the run does not
        have, or whose mean leaves out cases that should count. All in one text.
    """
    if criteria.needs_baseline and baseline is None:
        raise InputError(
            "max_drop and max_regressed_cases compare with a baseline; give one with --baseline RUN"
        )
    terms = require_comparable(baseline, run) if baseline else None
    k = run.cutoff(criteria.k)
    faults: list[str] = []
    verdicts = [_minimum(run, figure, bound, faults) for figure, bound in criteria.min.items()]
    if criteria.max_false_acceptance is not None:
        verdicts.append(_false_acceptance(run, k, criteria.max_false_acceptance, faults))
    regressed: tuple[RegressedCase, ...] = ()
    if baseline and terms:
        verdicts += [
            _drop(run, baseline, terms, figure, bound, faults) for figure, bound in criteria.max_drop.items()
        ]
        if criteria.max_regressed_cases is not None:
            regressed = _regressed(run, baseline, terms, k, faults)
            verdicts.append(_regressions(run, regressed, k, criteria.max_regressed_cases))
    if criteria.min_cases is not None:
        verdicts.append(_cases(run, verdicts, k, criteria.min_cases))
    if faults:
        refuse(f"run {run.run_id} cannot be judged", list(dict.fromkeys(faults)))
    return GateReport(
        run_id=run.run_id,
        baseline_id=baseline.run_id if baseline else None,
        dataset=f"{run.record.dataset.name} {run.record.dataset.version}",
        verdicts=tuple(verdicts),
        regressed=regressed,
        notes=terms.notes if terms else (),
    )


def _minimum(run: Run, name: str, bound: float, faults: list[str]) -> Verdict:
    figure = Figure.read(name)
    value, n = _mean(run, figure, faults)
    asked = _scored(run, figure.k)
    detail = f"mean over {counted(n, 'case')}"
    if n < asked:
        detail += f"; {counted(asked - n, 'case')} without facts left out"
    return Verdict(f"min {name}", value, bound, ">=", n, value >= bound - _TOLERANCE, detail)


def _cases(run: Run, verdicts: Sequence[Verdict], k: int, bound: int) -> Verdict:
    """Count the cases of the figure that counts fewest, unsupported questions aside; without one, the scored ones."""
    counts = [(one.n, one.name) for one in verdicts if not one.name.startswith("max_false_acceptance")]
    n, name = min(counts, default=(_scored(run, k), f"the scores at K = {k}"))
    return Verdict("min_cases", n, bound, ">=", n, n >= bound, f"the fewest cases that count, for {name}")


def _scored(run: Run, k: int) -> int:
    return int((run.scores["k"] == k).sum())


def _drop(run: Run, baseline: Run, terms: Contract, name: str, bound: float, faults: list[str]) -> Verdict:
    figure = Figure.read(name)
    if figure.metric not in terms.metrics:
        faults.append(
            f"max_drop {name}: cannot be compared with the baseline; comparable are {', '.join(terms.metrics)}"
        )
        return Verdict(f"max_drop {name}", math.nan, bound, "<=", 0, False, "")
    value, n = _mean(run, figure, faults)
    before, _ = _mean(baseline, figure, faults)
    drop = before - value
    detail = f"from {before:.4f} in the baseline to {value:.4f}"
    return Verdict(f"max_drop {name}", drop, bound, "<=", n, drop <= bound + _TOLERANCE, detail)


def _false_acceptance(run: Run, k: int, bound: float, faults: list[str]) -> Verdict:
    asked = run.questions[(run.questions["k"] == k) & ~run.questions["answerable"]]
    accepted, n = int(asked["accepted"].sum()), len(asked)
    if not n:
        faults.append(
            f"max_false_acceptance: run {run.run_id} has no unsupported questions, so nothing is known"
        )
    elif n < (wanted := run.record.counts.get("unsupported", n)):
        faults.append(f"max_false_acceptance: only {n} of {wanted} unsupported questions count at K = {k}")
    elif n > wanted:
        found = counted(n, "unsupported question")
        faults.append(f"max_false_acceptance: {found} at K = {k}, {wanted} {_FOREIGN}")
    rate = accepted / n if n else math.nan
    rule = accepted_when(run.record.search.threshold)
    detail = f"{accepted} of {n} unsupported questions accepted at K = {k} ({rule})"
    return Verdict(f"max_false_acceptance@{k}", rate, bound, "<=", n, rate <= bound + _TOLERANCE, detail)


def _regressions(run: Run, regressed: tuple[RegressedCase, ...], k: int, bound: int) -> Verdict:
    n = _scored(run, k)
    detail = "cases with less of their required evidence than in the baseline"
    return Verdict(
        f"max_regressed_cases@{k}", len(regressed), bound, "<=", n, len(regressed) <= bound, detail
    )


def _regressed(
    run: Run, baseline: Run, terms: Contract, k: int, faults: list[str]
) -> tuple[RegressedCase, ...]:
    cases = case_changes(baseline, run, k, terms)
    if blind := cases.loc[cases["verdict"] == "not compared", "case_id"].tolist():
        faults.append(
            f"max_regressed_cases: {counted(len(blind), 'case')} without facts cannot be compared across chunkings "
            f"({some(blind)})"
        )
    facts = fact_changes(baseline, run, k)
    lost = facts[facts["change"] == "lost"].groupby("case_id")
    words = {
        str(case): "; ".join(_lost(fact, run, k) for fact in rows.to_dict("records")) for case, rows in lost
    }
    return tuple(
        RegressedCase(
            str(case["case_id"]),
            str(case["question"]),
            words.get(str(case["case_id"]))
            or f"recall fell from {case['recall_baseline']:.3f} to {case['recall_candidate']:.3f}",
        )
        for case in cases[cases["verdict"] == "worse"].to_dict("records")
    )


def _lost(fact: Mapping[Any, Any], run: Run, k: int) -> str:
    return f"lost: {fact['text']} (was rank {fact['rank_baseline']}, now {fact_standing(fact, 'candidate', run, k)})"


def _mean(run: Run, figure: Figure, faults: list[str]) -> tuple[float, int]:
    """Mean and n of a figure; a fault when it is not there or leaves out cases that should count."""
    at_k = run.scores[run.scores["k"] == figure.k]
    if figure.metric not in at_k or at_k.empty:
        known = [metric for metric in FIGURES if metric in run.scores]
        ks = ", ".join(map(str, run.record.search.ks))
        faults.append(f"{figure}: run {run.run_id} has no such figure; it has {', '.join(known)} at K = {ks}")
        return math.nan, 0
    values = at_k[figure.metric].dropna()
    n, wanted = len(values), _should_count(run, figure)
    if n < wanted or not n:
        faults.append(
            f"{figure}: only {n} of the {wanted} cases that should count have a value in run {run.run_id}"
        )
    elif n > wanted:
        faults.append(f"{figure}: {counted(n, 'case')} with a value, {wanted} {_FOREIGN}")
    return float(values.mean()), n


def _should_count(run: Run, figure: Figure) -> int:
    if figure.metric in EVIDENCE:
        return int(run.facts["case_id"].nunique())
    asked = run.questions[(run.questions["k"] == figure.k) & run.questions["answerable"]]
    return max(len(asked), run.record.counts.get("answerable", 0))
