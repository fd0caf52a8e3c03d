"""May two runs be compared, in which figures, and what differs between them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evalkit.errors import refuse, some
from evalkit.measures import EVIDENCE, JUDGED, MEASURES
from evalkit.records import RunRecord
from evalkit.runs import Run


@dataclass(frozen=True)
class Contract:
    """What holds between two runs.

    Attributes
    ----------
    reasons
        Why they cannot be compared at all; empty when they can.
    metrics
        Columns of the scores that may be compared: with another chunking ``coverage`` and ``complete`` alone, since
        chunk-based metrics count other things then. ``judged`` is among them under partial judgments.
    differs
        ``setting, baseline, candidate`` (text): what was not the same, and so is what is compared.
    notes
        Sentences that a reader of the comparison must see.
    """

    reasons: tuple[str, ...]
    metrics: tuple[str, ...]
    differs: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def chunks_comparable(self) -> bool:
        """Both runs rank the same kind of chunks."""
        return MEASURES[0] in self.metrics


def contract(baseline: Run, candidate: Run) -> Contract:
    """Hold two runs against each other.

    Parameters
    ----------
    baseline, candidate
        Any two runs; the same one twice is allowed.

    Returns
    -------
    Contract
        With all reasons against a comparison at once.
    """
    before, after = baseline.record, candidate.record
    same_chunks = before.chunking == after.chunking
    judged = (JUDGED,) if JUDGED in baseline.scores and JUDGED in candidate.scores else ()
    return Contract(
        reasons=tuple(_reasons(baseline, candidate)),
        metrics=(*MEASURES, *judged) if same_chunks else EVIDENCE,
        differs=_differs(before, after),
        notes=tuple(_notes(baseline, candidate)),
    )


def require_comparable(baseline: Run, candidate: Run) -> Contract:
    """Give the contract of two comparable runs.

    Raises
    ------
    InputError
        The runs cannot be compared; the text lists every reason.
    """
    terms = contract(baseline, candidate)
    if terms.reasons:
        refuse(
            f"runs {baseline.run_id} and {candidate.run_id} cannot be compared",
            terms.reasons,
            "evaluate one of them again, so that data set, labels and K are the same",
        )
    return terms


def _reasons(baseline: Run, candidate: Run) -> Iterator[str]:
    before, after = baseline.record, candidate.record
    old, new = before.dataset, after.dataset
    if old.name != new.name:
        yield f"data set: baseline {old.name}, candidate {new.name}"
    elif str(old.version) != str(new.version):
        yield f"version of data set {old.name}: baseline {old.version}, candidate {new.version}"
    if old.cases_sha256 != new.cases_sha256:
        yield f"cases: other questions, hash {old.cases_sha256[:12]} against {new.cases_sha256[:12]}"
    if old.labels_sha256 != new.labels_sha256:
        yield f"labels: another truth, hash {old.labels_sha256[:12]} against {new.labels_sha256[:12]}"
    if old.judgments != new.judgments:
        yield f"judgments: baseline {old.judgments}, candidate {new.judgments}"
    if before.search.ks != after.search.ks:
        yield f"K: baseline {list(before.search.ks)}, candidate {list(after.search.ks)}"
    elif old.cases_sha256 == new.cases_sha256:
        yield from _missing_questions(baseline.questions, candidate.questions)


def _missing_questions(baseline: pd.DataFrame, candidate: pd.DataFrame) -> Iterator[str]:
    key = ["case_id", "k", "answerable"]
    merged = baseline[key].merge(candidate[key], on=key, how="outer", indicator=True)
    for side, run in (("left_only", "candidate"), ("right_only", "baseline")):
        missing = merged.loc[merged["_merge"] == side, "case_id"].unique().tolist()
        if missing:
            yield f"{run} lacks the results of questions: {some(missing)}"


def _notes(baseline: Run, candidate: Run) -> Iterator[str]:
    before, after = baseline.record, candidate.record
    if baseline.run_id == candidate.run_id:
        yield "Baseline and candidate are the same run: every difference is 0."
    if before.chunking != after.chunking:
        yield (
            f"The chunkings differ ({before.chunking}, {after.chunking}): precision, recall, MRR and nDCG count "
            "other chunks and are refused; coverage and complete ask for the same facts and are compared."
        )
    elif changed := _changed_truth(baseline.judgments, candidate.judgments):
        yield (
            f"The corpus changed, and with it the relevant chunks of {some(changed)}: part of the difference of "
            "their chunk metrics comes from the labels, not from the ranking."
        )
    dirty = [name for name, record in (("baseline", before), ("candidate", after)) if record.code.dirty]
    if dirty:
        yield (
            f"The code had uncommitted changes ({' and '.join(dirty)}), so its revision does not say all of what ran."
        )
    if before.dataset.judgments == after.dataset.judgments == "partial":
        yield (
            "Judgments are partial: an unjudged chunk counts as not relevant, which is hard on a run that finds "
            "other passages than the pooled ones. Read every difference beside the one of judged@K."
        )


def _changed_truth(baseline: pd.DataFrame, candidate: pd.DataFrame) -> list[str]:
    key = ["case_id", "document_id", "chunk_id", "grade"]
    merged = baseline[key].merge(candidate[key], on=key, how="outer", indicator=True)
    return sorted(merged.loc[(merged["_merge"] != "both") & (merged["grade"] > 0), "case_id"].unique())


def _differs(before: RunRecord, after: RunRecord) -> pd.DataFrame:
    old, new = _settings(before), _settings(after)
    names = [*old, *(name for name in new if name not in old)]
    rows = [
        (name, old.get(name, "–"), new.get(name, "–")) for name in names if old.get(name) != new.get(name)
    ]
    return pd.DataFrame(rows, columns=["setting", "baseline", "candidate"], dtype="str")


def _settings(record: RunRecord) -> dict[str, str]:
    model, store, search, code = record.model, record.store, record.search, record.code
    named: dict[str, object] = {
        "corpus": record.dataset.corpus_sha256[:12],
        "chunking": record.chunking,
        "embedder": model.embedder,
        "model": model.model,
        "model digest": model.digest[:19],
        "prompt profile": model.profile,
        "dimension": model.dimension,
        "embedding batch": model.batch,
        "embedding server": model.server_version,
        "store": f"{store.kind} {store.version}",
        "collection": store.collection,
        "threshold": search.threshold,
        "exact search": search.exact,
        "hnsw_ef": search.hnsw_ef,
        "filter": _filter(search.filter),
        "diagnostic depth": search.depth,
        "texts kept": record.retention,
        "code revision": code.revision and code.revision[:12],
        "uncommitted changes": code.dirty,
        "python": code.python,
    }
    named |= {f"package {name}": version for name, version in sorted(code.packages.items())}
    return {name: _words(value) for name, value in named.items()}


def _filter(allowed: Mapping[str, Sequence[str]]) -> str:
    """Write the filter without the chunking version, which has a line of its own."""
    fields = sorted(field for field in allowed if field != "chunking_version")
    return "; ".join(f"{field}: {', '.join(allowed[field])}" for field in fields)


def _words(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return str(value)
