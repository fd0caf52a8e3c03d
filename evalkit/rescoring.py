"""Rankings that are there already, of a run or of any other retriever, made into a run of ours."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from evalkit.checks import compare_prefixes, ties_at_cutoff
from evalkit.errors import InputError, counted, some
from evalkit.evaluation import (
    Evaluation,
    dataset_record,
    new_run_id,
    small_corpus,
    subject_counts,
)
from evalkit.exchange import only_chunks, rankings_from_file
from evalkit.provenance import code_record
from evalkit.records import Checks, ModelRecord, RunRecord, SearchRecord, StoreRecord
from evalkit.retrieval import search_filter
from evalkit.review import Labelled, load_labelled
from evalkit.runs import Run, load_run
from evalkit.settings import EvaluateSettings, Retention
from evalkit.tables import make_tables


@dataclass(frozen=True)
class _Source:
    """Rankings and what is known of where they come from."""

    rankings: pd.DataFrame
    deep: pd.DataFrame
    model: ModelRecord
    store: StoreRecord
    search: SearchRecord
    checks: Checks
    notice: str


def score_rankings(
    source: str,
    dataset: str | None = None,
    ks: Sequence[int] | None = None,
    chunking: str | None = None,
    retention: Retention = "full",
) -> Evaluation:
    """Score the rankings of a run or of a file.

    Parameters
    ----------
    source
        ``latest``, a run id or a run folder; or the path of a TREC run or Parquet file.
    dataset
        None takes the one that the run names, or worker-runbooks for a file.
    ks, chunking
        For a file: cutoffs (1, 3 and 5 by default) and chunking version. A run keeps its own.
    retention
        How much of the texts the tables keep.

    Raises
    ------
    InputError
        As `score_run_again` and `score_rankings_file`, and for other K or another chunking than the run's.
    """
    path = Path(source)
    if path.is_file():
        return score_rankings_file(path, dataset or "worker-runbooks", ks or (1, 3, 5), chunking, retention)
    run = load_run(source)
    kept = {"ks": run.record.search.ks, "chunking": run.record.chunking}
    given = {"ks": None if ks is None else tuple(ks), "chunking": chunking}
    if changed := [name for name, value in given.items() if value not in (None, kept[name])]:
        raise InputError(
            f"run {run.run_id} has {', '.join(f'{name} {kept[name]}' for name in changed)}, found "
            f"{', '.join(str(given[name]) for name in changed)}; its rankings are scored as they are, leave these out"
        )
    return score_run_again(run, dataset, retention)


def score_run_again(run: Run, dataset: str | None = None, retention: Retention = "full") -> Evaluation:
    """Score the rankings of a run with the labels as they are now.

    Parameters
    ----------
    run
        A finished run; its K and its rankings are taken as they are.
    dataset
        Name or folder of the data set; None takes the one that the run names.
    retention
        How much of the texts, which come from the corpus, the tables keep.

    Returns
    -------
    Evaluation
        With equal figures where corpus and labels are equal.

    Raises
    ------
    InputError
        Faulty data set or labels, rankings with chunks or questions that the data set has no more, or a question that
        is asked in other words now.
    """
    started = datetime.now(UTC)
    record = run.record
    name = dataset or record.parameters["dataset"]
    subject = load_labelled(name, record.chunking)
    _refuse_other_questions(run, subject)
    checks, notice = record.checks, f"rankings taken from run {run.run_id}; nothing was retrieved anew"
    if dataset_record(subject.dataset).corpus_sha256 != record.dataset.corpus_sha256:
        checks = checks.model_copy(update={"verification": {}})
        notice += (
            "; the documents are others than were searched then: texts are those of now, scores those of then"
        )
    source = _Source(
        run.rankings,
        run.deep,
        record.model,
        record.store,
        record.search,
        checks,
        notice,
    )
    return _evaluation(
        subject, source, retention, started, {**record.parameters, "rankings": run.run_id, "dataset": name}
    )


def _refuse_other_questions(run: Run, subject: Labelled) -> None:
    """Refuse rankings of a question that is asked in other words now."""
    asked = dict(zip(run.questions["case_id"], run.questions["question"], strict=True))
    now = {one.id: one.question for one in subject.dataset.questions}
    other = sorted(name for name, question in now.items() if asked.get(name, question) != question)
    if other:
        raise InputError(
            f"run {run.run_id}: {counted(len(other), 'question')} asked in other words than in data set "
            f"{subject.dataset.name} now: {some(other, 10)}; its rankings answer another question: evaluate anew"
        )


def score_rankings_file(
    path: Path,
    dataset: str,
    ks: Sequence[int],
    chunking: str | None = None,
    retention: Retention = "full",
) -> Evaluation:
    """Score rankings that another retriever made.

    Parameters
    ----------
    path
        TREC run or Parquet file, see `exchange.rankings_from_file`.
    dataset, chunking
        Whose questions and chunks these are.
    ks
        Cutoffs K in ascending order; the ranking at K is the first K of the one ranking.
    retention
        How much of the texts, which come from the corpus, the tables keep.

    Returns
    -------
    Evaluation
        A question without a ranking is a scored zero and named in a notice.

    Raises
    ------
    InputError
        Faulty data set, labels or rankings, a question or chunk that the data set does not have.
    """
    started = datetime.now(UTC)
    EvaluateSettings.checked(dataset=dataset, ks=tuple(ks), chunking=chunking, retention=retention)
    subject = load_labelled(dataset, chunking)
    rankings = rankings_from_file(path, only_chunks(subject.chunks))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    longest = int(rankings["rank"].max()) if len(rankings) else 0
    short = (
        f"; no ranking is longer than {longest}: figures beyond are those at {longest}"
        if longest < ks[-1]
        else ""
    )
    source = _Source(
        pd.concat([rankings[rankings["rank"] <= k].assign(k=k) for k in ks], ignore_index=True),
        rankings,
        ModelRecord(
            embedder="none", model=path.name, digest=f"sha256:{digest}", profile="none", dimension=0, batch=0
        ),
        StoreRecord(kind="file", version="", collection=path.name),
        SearchRecord(
            ks=tuple(ks),
            threshold=None,
            exact=False,
            hnsw_ef=None,
            depth=longest,
            filter=dict(search_filter(subject)),
        ),
        Checks(ties=ties_at_cutoff(rankings, ks, None)),
        f"rankings read from {path.name}; which model and engine made them is not known here" + short,
    )
    parameters: dict[str, object] = {
        "rankings": path.name,
        "dataset": dataset,
        "ks": list(ks),
        "chunking": chunking,
    }
    return _evaluation(subject, source, retention, started, parameters)


def _evaluation(
    subject: Labelled, source: _Source, retention: Retention, started: datetime, parameters: dict[str, object]
) -> Evaluation:
    asked = {one.id for one in subject.dataset.questions}
    ranked = {*source.rankings["case_id"], *source.deep["case_id"]}
    if unknown := sorted(ranked - asked):
        raise InputError(
            f"{counted(len(unknown), 'ranked question')} not in data set {subject.dataset.name}: "
            f"{some(unknown, 10)}; check the ids, or take them out of the rankings"
        )
    notices = [*subject.labels.notices, source.notice]
    if missing := sorted(asked - ranked):
        notices.append(
            f"{len(missing)} of {len(asked)} questions have no ranking and count as empty: {some(missing, 10)}"
        )
    ks = source.search.ks
    notices += small_corpus(ks, subject_counts(subject))
    tables = make_tables(
        subject.dataset,
        subject.chunks,
        subject.labels,
        source.rankings,
        source.deep,
        ks,
        retention,
    )
    record = RunRecord(
        run_id=new_run_id(started),
        started=started,
        finished=datetime.now(UTC),
        dataset=dataset_record(subject.dataset),
        chunking=subject.chunking,
        model=source.model,
        store=source.store,
        search=source.search,
        retention=retention,
        code=code_record(),
        parameters=parameters,
        counts=subject_counts(subject),
        timings={},
        checks=source.checks.model_copy(update={"prefix": compare_prefixes(source.rankings, ks)}),
        notices=tuple(notices),
    )
    return Evaluation(record=record, **vars(tables))
