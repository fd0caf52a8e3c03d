"""The loop: every question at every K against one collection, judged, scored and described."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from evalkit.checks import compare_prefixes, compare_with_exact, ties_at_cutoff
from evalkit.collector import collector_spared, give_back_memory
from evalkit.dataset import Dataset
from evalkit.embedders import embed_cached, open_embedder
from evalkit.embedding import Embedder, query_prompt
from evalkit.errors import counted
from evalkit.indexing import open_for_evaluation
from evalkit.provenance import code_record
from evalkit.records import Checks, DatasetRecord, ModelRecord, RunRecord, SearchRecord, StoreRecord
from evalkit.retrieval import Retrieved, diagnostic_depth, retrieve_rankings, search_filter
from evalkit.review import Labelled, load_labelled
from evalkit.settings import EvaluateSettings
from evalkit.stores import open_store
from evalkit.tables import Tables, make_tables
from evalkit.transport import Deadline
from evalkit.vectors import VectorCache

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Evaluation(Tables):
    """One finished evaluation, not yet on disk: its tables and its record."""

    record: RunRecord


class _Stages:
    """Seconds a stage, with the deadline looked at before each."""

    def __init__(self, deadline: Deadline, progress: Progress) -> None:
        self.seconds: dict[str, float] = {}
        self._deadline = deadline
        self._progress = progress

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self._deadline.check(name)
        self._progress(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)


def evaluate(settings: EvaluateSettings, progress: Progress = lambda _: None) -> Evaluation:
    """Ask every question of a data set at every K and score the rankings. Writes nothing but new query vectors.

    Parameters
    ----------
    settings
        Data set, model, collection, cutoffs and search parameters.
    progress
        Called with the name of each stage as it begins.

    Returns
    -------
    Evaluation
        Record and tables; `runs.write_run` stores them.

    Raises
    ------
    InputError
        Faulty data set or labels, a collection that is incomplete or holds something else, a prompt without a
        recorded vector, a returned chunk outside the filter or the corpus.
    InfrastructureError
        Qdrant or Ollama failed or was too slow, or the deadline passed.
    """
    started = datetime.now(UTC)
    deadline = Deadline(settings.deadline)
    stages = _Stages(deadline, progress)
    with stages("labels"):
        subject = load_labelled(settings.dataset, settings.chunking)
        questions = {one.id: one.question for one in subject.dataset.questions}
        described, sizes = dataset_record(subject.dataset), subject_counts(subject)
        # From here on the chunks are enough: the bodies are half of what a large data set takes.
        subject = replace(subject, dataset=replace(subject.dataset, documents=()))
        give_back_memory()
    with (
        open_embedder(settings, deadline) as embedder,
        VectorCache() as cache,
        open_store(deadline) as store,
        collector_spared(),
    ):
        with stages("verification"):
            opened = open_for_evaluation(store, settings, subject.dataset, subject.chunks, embedder, cache)
        with stages("embedding"):
            vectors, embedded = _question_vectors(embedder, cache, questions)
        with stages("retrieval"):
            found = retrieve_rankings(store, opened, subject, list(questions), vectors, settings)
        counts = {**embedder.counts, **store.counts, "questions_embedded": embedded}
        model = _model_record(embedder, vectors.shape[1])
        warnings = tuple(embedder.identity.warnings)
        engine = StoreRecord(
            kind=store.kind, version=store.version, collection=opened.collection, details=opened.details
        )
    with stages("scoring"):
        tables = make_tables(
            subject.dataset,
            subject.chunks,
            subject.labels,
            found.rankings,
            found.deep,
            settings.ks,
            settings.retention,
        )
        checks = _checks(found, settings, opened.checked)
    record = RunRecord(
        run_id=new_run_id(started),
        started=started,
        finished=datetime.now(UTC),
        dataset=described,
        chunking=subject.chunking,
        model=model,
        store=engine,
        search=SearchRecord(
            ks=settings.ks,
            threshold=settings.threshold,
            exact=settings.exact,
            hnsw_ef=settings.hnsw_ef,
            depth=diagnostic_depth(settings),
            filter=dict(search_filter(subject)),
        ),
        retention=settings.retention,
        code=code_record(),
        parameters=settings.model_dump(mode="json"),
        counts={**sizes, **counts},
        timings=stages.seconds,
        checks=checks,
        notices=(
            *subject.labels.notices,
            *opened.notices,
            *warnings,
            *small_corpus(settings.ks, sizes),
        ),
    )
    return Evaluation(record=record, **vars(tables))


def new_run_id(started: datetime) -> str:
    """Make a run id: UTC time to the millisecond and a short random part."""
    return f"{started:%Y%m%dT%H%M%S}{started.microsecond // 1000:03d}Z-{secrets.token_hex(3)}"


def dataset_record(dataset: Dataset) -> DatasetRecord:
    """Describe a data set by name, version and three hashes."""
    return DatasetRecord(
        name=dataset.name,
        version=dataset.version,
        judgments=dataset.judgments,
        corpus_sha256=dataset.corpus_sha256,
        cases_sha256=dataset.cases_sha256,
        labels_sha256=dataset.labels_sha256,
    )


def subject_counts(subject: Labelled) -> dict[str, int]:
    """Count documents, chunks, eligible chunks, answerable and unsupported questions, facts and lost facts."""
    facts = subject.labels.facts
    return {
        "documents": len(subject.dataset.documents),
        "chunks": len(subject.chunks),
        "eligible_chunks": sum(subject.dataset.is_eligible(chunk) for chunk in subject.chunks),
        "answerable": len(subject.dataset.cases),
        "unsupported": len(subject.dataset.unsupported),
        "facts": len(facts),
        "facts_lost_to_chunking": int(facts["lost"].sum()),
    }


def small_corpus(ks: Sequence[int], counts: Mapping[str, int]) -> Iterator[str]:
    """Say that the largest K takes in half of the eligible chunks at least, so that scores there mean little."""
    eligible = counts["eligible_chunks"]
    if 2 * ks[-1] >= eligible:
        held = "half of the corpus or more" if ks[-1] < eligible else "the whole corpus"
        yield (
            f"K = {ks[-1]} of {counted(eligible, 'eligible passage')}: a ranking holds {held}; "
            "read the scores of smaller K"
        )


def _question_vectors(
    embedder: Embedder, cache: VectorCache, questions: dict[str, str]
) -> tuple[NDArray[np.float32], int]:
    profile = embedder.identity.profile
    prompts = [query_prompt(profile, name, question) for name, question in questions.items()]
    return embed_cached(embedder, cache, prompts)


def _checks(found: Retrieved, settings: EvaluateSettings, verified: dict[str, int]) -> Checks:
    largest = found.rankings[found.rankings["k"] == settings.ks[-1]]
    return Checks(
        verification=verified,
        prefix=compare_prefixes(found.rankings, settings.ks),
        ties=ties_at_cutoff(found.deep, settings.ks, settings.threshold),
        exact_search={}
        if settings.exact
        else {**compare_with_exact(largest, found.exact), "approximate_index": found.approximate},
    )


def _model_record(embedder: Embedder, dimension: int) -> ModelRecord:
    identity = embedder.identity
    return ModelRecord(
        embedder=identity.embedder,
        model=identity.model,
        digest=identity.digest,
        profile=identity.profile,
        dimension=dimension,
        batch=embedder.batch_size,
        server_version=identity.server_version,
        notes=identity.notes,
    )
