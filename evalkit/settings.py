"""What a user can set for indexing and evaluating, checked before anything runs."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from evalkit.errors import refuse
from evalkit.fields import checked

Retention = Literal["full", "snippet", "hash", "none"]
PositiveInt = Annotated[int, Field(ge=1, le=2**63 - 1)]


def _ascending(ks: tuple[int, ...]) -> tuple[int, ...]:
    if not ks:
        raise ValueError("is empty; give at least one cutoff, such as [1, 3, 5]")
    if list(ks) != sorted(set(ks)):
        raise ValueError("must ascend without repeats")
    return ks


Cutoffs = Annotated[tuple[PositiveInt, ...], Field(strict=False), AfterValidator(_ascending)]
"""Cutoffs K, each at least 1, as a tuple or list."""


def _cosine(threshold: float) -> float:
    if not -1 <= threshold <= 1:
        raise ValueError(
            "scores are cosines, from -1 to 1, so every hit or none would be kept; give a threshold between them, "
            "or leave it out"
        )
    return threshold


def _collection(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", name):
        raise ValueError("use letters, digits, '.', '_' and '-', at most 200, the first a letter or a digit")
    return name


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def checked(cls, **values: Any) -> Self:  # noqa: ANN401 - values come from notebooks and the command line
        """Build the settings, with every fault in one error.

        Raises
        ------
        InputError
            Unknown names or values outside their range; the text names each with the value found.
        """
        return cls._checked(values, texts=False)

    @classmethod
    def from_texts(cls, values: Mapping[str, str]) -> Self:
        """Build the settings from texts such as ``3`` and ``true``, each read by the type of its setting.

        Raises
        ------
        InputError
            As for `checked`.
        """
        return cls._checked(values, texts=True)

    @classmethod
    def _checked(cls, values: Mapping[str, Any], texts: bool) -> Self:
        faults: list[str] = []
        settings = checked(cls, values, "", faults, texts=texts)
        if settings is None:
            refuse("settings", faults, f"known settings: {', '.join(sorted(cls.model_fields))}")
        return settings


class EmbeddingSettings(_Settings):
    """Which model makes the vectors.

    Attributes
    ----------
    embedder
        ``recorded``: the vectors in ``data/embeddings``; ``ollama``: a live Ollama server (``OLLAMA_HOST``).
    model
        Name of the model; for ``recorded`` the one that ``model.json`` names.
    profile
        Prompt profile; None takes the model's known one and refuses a model without.
    embeddings
        Folder of the recorded vectors: a name under ``data/`` or a path; None takes ``data/embeddings``.
    embed_batch
        Prompts a request; part of the vectors' provenance, since batching can change the last bits.
    embed_timeout
        Seconds that one embedding request may take.
    """

    embedder: Literal["recorded", "ollama"] = "recorded"
    model: Annotated[str, Field(min_length=1)] = "embeddinggemma:300m"
    profile: str | None = None
    embeddings: str | None = None
    embed_batch: PositiveInt = 32
    embed_timeout: Annotated[float, Field(gt=0)] = 60.0


class CollectionSettings(EmbeddingSettings):
    """Which collection is meant: data set, chunking version, model, and the name when it is not the default.

    Attributes
    ----------
    dataset
        Name under ``data/`` or path of a folder.
    chunking
        Chunking version; None takes the data set's own.
    collection
        Name of the collection; None makes ``evalkit-<data set>-<embedder>-<model>-<chunking>``.
    """

    dataset: Annotated[str, Field(min_length=1)]
    chunking: str | None = None
    collection: Annotated[str, AfterValidator(_collection)] | None = None


class ServerSettings(_Settings):
    """How a new collection is laid out; what is None is left to the engine. For corpora beyond some 100,000 chunks.

    Attributes
    ----------
    shards, replicas
        Parts of a collection on a cluster, and copies of each part.
    vectors_on_disk
        Keep vectors on disk and read them through the page cache.
    quantized
        Search scalar-quantized (int8) copies of the vectors and score the candidates again with the vectors.
    hnsw_m, hnsw_ef_construct
        Edges a node and candidates while building, of the approximate index.
    parallel
        Upload requests at a time.
    """

    shards: PositiveInt | None = None
    replicas: PositiveInt | None = None
    vectors_on_disk: bool = False
    quantized: bool = False
    hnsw_m: Annotated[int, Field(ge=4)] | None = None
    hnsw_ef_construct: Annotated[int, Field(ge=4)] | None = None
    parallel: Annotated[int, Field(ge=1, le=32)] = 1


class IndexSettings(CollectionSettings, ServerSettings):
    """What indexing needs.

    Attributes
    ----------
    recreate
        Drop a collection of the same name that holds something else, and write anew.
    verify_sample
        Stored vectors to compare with the vector cache, at most.
    upsert_batch
        Points a request.
    """

    recreate: bool = False
    verify_sample: PositiveInt = 64
    upsert_batch: PositiveInt = 256


class EvaluateSettings(CollectionSettings):
    """What an evaluation needs.

    Attributes
    ----------
    ks
        Cutoffs K, each at least 1, ascending and unique.
    threshold
        Hits must score above it (strictly, as float32), from -1 to 1 as cosines are; None is off.
    exact
        Ask for exact search instead of the approximate index.
    hnsw_ef
        Beam width of the approximate search; None is the engine's default.
    depth
        Depth of the diagnostic ranking that is kept beside the scored ones and never scored; at least one rank more
        than the largest K.
    retention
        How much of a retrieved text the record keeps: all, 200 characters, its SHA-256, or nothing.
    deadline
        Seconds that the whole evaluation may take.
    verify_sample
        Stored vectors to compare with the vector cache, at most.
    """

    ks: Cutoffs = (1, 3, 5)
    threshold: Annotated[float, AfterValidator(_cosine)] | None = None
    exact: bool = False
    hnsw_ef: PositiveInt | None = None
    depth: PositiveInt = 20
    retention: Retention = "full"
    deadline: Annotated[float, Field(gt=0)] = 120.0
    verify_sample: PositiveInt = 64
