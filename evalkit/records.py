"""The run record: what a run says about itself in ``run.json``."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from evalkit.settings import Cutoffs

RUN_ID_PATTERN = r"^[0-9]{8}T[0-9]{9}Z-[0-9a-f]{6}$"
"""What a run id looks like: UTC time and a random part. It names a folder and stands in links."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DatasetRecord(_Part):
    """The data set as it was read: three hashes tell corpus, cases and labels apart."""

    name: str
    version: int | str
    judgments: str
    corpus_sha256: str
    cases_sha256: str
    labels_sha256: str


class ModelRecord(_Part):
    """The query embedder; ``notes`` holds the outcome of its own checks, such as the canary."""

    embedder: str
    model: str
    digest: str
    profile: str
    dimension: int
    batch: int
    server_version: str | None = None
    notes: dict[str, str] = {}


class StoreRecord(_Part):
    """The engine and the collection that was asked; ``details`` is what indexing noted with the collection."""

    kind: str
    version: str
    collection: str
    details: dict[str, Any] = {}


def accepted_when(threshold: float | None) -> str:
    """Say when a question counts as accepted by a threshold; None is off."""
    return "anything returned" if threshold is None else f"score > {threshold}"


class SearchRecord(_Part):
    """How every question was asked.

    Attributes
    ----------
    depth
        Ranks of the diagnostic ranking (``deep.parquet``).
    filter
        Payload field -> allowed values.
    """

    ks: Cutoffs
    threshold: float | None
    exact: bool
    hnsw_ef: int | None
    depth: int
    filter: dict[str, tuple[str, ...]]


class CodeRecord(_Part):
    """The code that ran: git revision and whether the tree was dirty (null outside a checkout), versions."""

    revision: str | None
    dirty: bool | None
    python: str
    packages: dict[str, str]


class Checks(_Part):
    """What was checked beside the scores; shown, never an error.

    Attributes
    ----------
    verification
        Number of checked things by name (points, payloads, vectors).
    prefix
        ``pairs`` of neighbouring K compared, and ``differing`` cases with their K, up to equal scores.
    ties
        For each K (as text) the cases whose tie group crosses it.
    exact_search
        At the largest K: ``compared`` questions, ``identical`` rankings, mean ``recall`` of the returned chunks
        against exact search, ``differing`` cases; ``approximate_index`` is false where the engine has built none, so
        that the diagnostic ranking, being exact, is what is compared. Empty for exact runs.
    """

    verification: dict[str, int] = {}
    prefix: dict[str, Any] = {}
    ties: dict[str, list[str]] = {}
    exact_search: dict[str, Any] = {}


def _with_dataset(parameters: dict[str, Any]) -> dict[str, Any]:
    name = parameters.get("dataset")
    if not isinstance(name, str) or not name:
        raise ValueError("names no data set under 'dataset'")
    return parameters


class RunRecord(_Part):
    """Everything in ``run.json``.

    Attributes
    ----------
    parameters
        Settings as the user gave them, ``dataset`` among them.
    counts
        Documents, chunks, eligible chunks, cases, facts, questions embedded, requests and retries.
    timings
        Seconds a stage, by name.
    retention
        How much of the retrieved texts the tables keep: full, snippet, hash or none.
    notices
        Sentences that a reader must see, such as a missing ``labels.lock``.
    tables_sha256
        SHA-256 of the file of each table, by its name; None before the run is stored, and in runs that were stored
        when it was not kept yet.
    """

    record_version: Literal[1] = 1
    run_id: str = Field(pattern=RUN_ID_PATTERN)
    started: datetime
    finished: datetime
    dataset: DatasetRecord
    chunking: str
    model: ModelRecord
    store: StoreRecord
    search: SearchRecord
    retention: str
    code: CodeRecord
    parameters: Annotated[dict[str, Any], AfterValidator(_with_dataset)]
    counts: dict[str, int]
    timings: dict[str, float]
    checks: Checks
    notices: tuple[str, ...] = ()
    tables_sha256: dict[str, Sha256] | None = None
