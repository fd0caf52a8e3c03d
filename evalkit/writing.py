"""Writing a collection: created anew, or completed when it was interrupted."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from evalkit.chunking import Chunk
from evalkit.contents import INDEXED_FIELDS, differences, foreign, outdated, payload_of, same_source, unowned
from evalkit.embedders import embed_cached
from evalkit.embedding import Embedder, document_prompt
from evalkit.errors import InputError
from evalkit.points import CollectionState, Point, Store
from evalkit.settings import IndexSettings, ServerSettings
from evalkit.vectors import VectorCache

Outcome = Literal["created", "resumed", "unchanged"]


@dataclass(frozen=True)
class Progress:
    """How far the writing is: passages done of all to write, and seconds since it began."""

    done: int
    total: int
    seconds: float

    @property
    def rate(self) -> float:
        """Passages a second; 0 at the start."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds still to go at this rate; None before the first batch is done."""
        return (self.total - self.done) / self.rate if self.rate > 0 else None


@dataclass
class Writing:
    """One writing: where to, what and with what; and what was done so far.

    Attributes
    ----------
    wanted
        Every passage by the id of its point, in the order of the chunk keys (`contents.by_point_id`).
    state
        What the collection says about itself meanwhile (``building``).
    counts
        ``embedded`` (vectors that were nowhere kept before), ``sent`` and ``deleted`` points.
    timings
        Seconds a stage.
    """

    store: Store
    collection: str
    wanted: Mapping[str, Chunk]
    embedder: Embedder
    cache: VectorCache
    settings: IndexSettings
    state: CollectionState
    progress: Callable[[Progress], None]
    counts: dict[str, int] = field(default_factory=lambda: {"embedded": 0, "sent": 0, "deleted": 0})
    timings: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Take the time of a stage."""
        start = time.perf_counter()
        yield
        self.timings[name] = round(time.perf_counter() - start, 3)


def write(job: Writing) -> tuple[Outcome, tuple[str, ...]]:
    """Bring a collection to hold every chunk; it still says ``building`` afterwards, unless it was complete before.

    Returns
    -------
    outcome
        ``unchanged`` when a complete collection of the same fingerprint is there.
    ignored
        A sentence for each layout setting that the engine does not have, or for all on a collection that was there.

    Raises
    ------
    InputError
        The collection holds something else; a prompt cannot be embedded.
    InfrastructureError
        Qdrant or the embedder failed.
    """
    ignored = _create(job)
    if ignored is not None:
        outcome: Outcome = "created"
        missing = list(job.wanted)
    elif _is_complete(job):
        return "unchanged", _unused_layout(job.settings)
    else:
        outcome, ignored = "resumed", _unused_layout(job.settings)
        job.store.write_state(job.collection, job.state)
        missing = _missing(job)
    with job.stage("write"):
        job.store.index_fields(job.collection, INDEXED_FIELDS)
        _send(job, missing)
    with job.stage("finish"):
        job.store.finish(job.collection)
    return outcome, ignored


def _unused_layout(settings: IndexSettings) -> tuple[str, ...]:
    """Say which layout settings had nothing to lay out, as the collection was there."""
    fields = ServerSettings.model_fields
    given = [
        name for name in fields if name != "parallel" and getattr(settings, name) != fields[name].default
    ]
    if not given:
        return ()
    return (
        f"{', '.join(given)}: a layout is given to a new collection only, and this one was there; if it has another, "
        "recreate applies yours",
    )


def _create(job: Writing) -> tuple[str, ...] | None:
    """Create the collection; None when there is one and it is not to be replaced."""
    exists = job.store.exists(job.collection)
    if exists and not job.settings.recreate:
        return None
    if exists:
        _refuse_unowned(job)
    # The first batch shows that the embedder works before anything is dropped, and how long its vectors are.
    dimension = _points(job, list(islice(job.wanted, job.settings.embed_batch)))[0].vector.size
    if exists:
        job.store.drop(job.collection)
    try:
        return job.store.create(job.collection, dimension, job.state, job.settings)
    except InputError:
        if job.settings.recreate or not job.store.exists(job.collection):
            raise
        return None  # another process was faster; what it made is looked at like any that is there


def _refuse_unowned(job: Writing) -> None:
    try:
        state = job.store.read_state(job.collection)
    except InputError:
        return  # a damaged state is ours, and what recreate is for
    if state is None:
        raise unowned(job.collection)


def _is_complete(job: Writing) -> bool:
    """Tell a complete collection of this fingerprint from one to resume; refuse every other."""
    state = _own_state(job)
    if state.state == "building":
        # Counting takes hold of an embedded collection, and so waits for another process that completes it.
        job.store.count(job.collection)
        state = _own_state(job)
    return state.state == "complete"


def _own_state(job: Writing) -> CollectionState:
    state = job.store.read_state(job.collection)
    if state is None:
        raise unowned(job.collection)
    reasons = differences(state.fingerprint, job.state.fingerprint)
    same = same_source(state, job.state)
    if state.state == "building" and same:
        # A corpus that changed since the interruption is no obstacle: what differs is sent, what is gone deleted.
        reasons.pop("corpus", None)
    if same and list(reasons) == ["corpus"]:
        raise outdated(job.store, job.collection, job.wanted, job.settings)
    if reasons:
        raise foreign(job.collection, reasons.values(), job.settings)
    return state


def _missing(job: Writing) -> list[str]:
    """Delete points that no chunk stands for, and give the ids of those that are not stored as they should be."""
    stale, stored = [], set()
    for point in job.store.scroll(job.collection, vectors=False):
        chunk = job.wanted.get(point.id)
        if chunk is None:
            stale.append(point.id)
        elif point.payload == payload_of(chunk):
            stored.add(point.id)
    for start in range(0, len(stale), job.settings.upsert_batch):
        job.store.delete(job.collection, stale[start : start + job.settings.upsert_batch])
    job.counts["deleted"] = len(stale)
    return [id_ for id_ in job.wanted if id_ not in stored]


def _points(job: Writing, ids: Sequence[str]) -> list[Point]:
    chunks = [job.wanted[id_] for id_ in ids]
    prompts = [document_prompt(job.embedder.identity.profile, chunk) for chunk in chunks]
    vectors, embedded = embed_cached(job.embedder, job.cache, prompts)
    job.counts["embedded"] += embedded
    return [
        Point(id_, vector, payload_of(chunk)) for id_, chunk, vector in zip(ids, chunks, vectors, strict=True)
    ]


def _send(job: Writing, ids: Sequence[str]) -> None:
    """Embed and write batch by batch."""
    start = time.perf_counter()
    size = job.settings.upsert_batch
    batches = (_points(job, ids[first : first + size]) for first in range(0, len(ids), size))
    # The embedded engine holds the interpreter while it writes: threads would gain nothing.
    sent = (
        _in_parallel(job, batches) if job.store.kind == "server" else (_upsert(job, one) for one in batches)
    )
    for number in sent:
        job.counts["sent"] += number
        job.progress(Progress(job.counts["sent"], len(ids), time.perf_counter() - start))


def _upsert(job: Writing, points: list[Point]) -> int:
    job.store.upsert(job.collection, points)
    return len(points)


def _in_parallel(job: Writing, batches: Iterator[list[Point]]) -> Iterator[int]:
    """Embed the next batch while `parallel` others are on their way; gives the points of each that has arrived."""
    workers = job.settings.parallel
    with ThreadPoolExecutor(workers) as pool:
        pending: set[Future[int]] = set()
        for batch in batches:
            if len(pending) >= workers:
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield sum(future.result() for future in finished)
            pending.add(pool.submit(_upsert, job, batch))
        yield from (future.result() for future in wait(pending).done)
