"""What a collection is to hold: its name, points, fingerprint, and whether it holds just that."""

import hashlib
import json
import re
import shlex
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from evalkit.chunking import Chunk, ChunkKey
from evalkit.collector import collector_paused
from evalkit.embedding import Vectors
from evalkit.errors import SHOWN, InputError, counted, some
from evalkit.points import READ, CollectionState, Fingerprint, Store, stored_name
from evalkit.settings import CollectionSettings, ServerSettings

INDEXED_FIELDS = ("chunking_version", "document_type", "publication_state")
"""Payload fields with a keyword index: those that filters name."""

VECTOR_TOLERANCE = 1e-5
"""Distance of a stored unit vector from the same vector in the cache: room for the engine's float32 arithmetic."""

REEMBEDDED_TOLERANCE = 2e-2
"""The same for a vector embedded anew, whose last bits depend on its batch (a cosine of 0.9998)."""

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "evalkit:chunk-key")
_quoted = json.encoder.encode_basestring
_LONGEST_NAME = 200


def default_name(dataset: str, embedder: str, model: str, chunking: str) -> str:
    """Make the collection name ``evalkit-<data set>-<embedder>-<model>-<chunking>``.

    Lower case; every other character than a-z and 0-9 becomes ``-``. A name over 200 characters is cut and ends in
    a hash of the whole.
    """
    name = re.sub(r"[^a-z0-9]", "-", f"evalkit-{dataset}-{embedder}-{model}-{chunking}".lower())
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 13]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return name


def point_id(key: ChunkKey) -> str:
    """Derive a point's id from the chunk key (uuid5), so that writing a passage twice gives one point."""
    # The key as a JSON list; an encoder, made anew at each call, would take longer than all the rest.
    return str(uuid.uuid5(_NAMESPACE, f"[{', '.join(map(_quoted, key))}]"))


@collector_paused()
def by_point_id(chunks: Iterable[Chunk]) -> dict[str, Chunk]:
    """Give chunks by the ids of their points, in the order of the chunk keys: all that a collection is to hold."""
    return {point_id(chunk.key): chunk for chunk in sorted(chunks, key=_key)}


def payload_of(chunk: Chunk) -> dict[str, Any]:
    """Give the payload that is stored with a passage."""
    return {
        "document_id": chunk.document_id,
        "chunking_version": chunk.chunking_version,
        "chunk_id": chunk.chunk_id,
        "title": chunk.title,
        "document_type": chunk.document_type,
        "publication_state": chunk.publication_state,
        "text": chunk.text,
        "words": chunk.words,
    }


def corpus_hash(chunks: Iterable[Chunk]) -> str:
    """Hash identities and payloads of chunks, whatever their order."""
    digest = hashlib.sha256()
    for chunk in sorted(chunks, key=_key):
        document_id, version, chunk_id = map(_quoted, chunk.key)
        digest.update(
            # The payload as JSON, its fields in order of name.
            f'{{"chunk_id": {chunk_id}, "chunking_version": {version}, "document_id": {document_id}, '
            f'"document_type": {_quoted(chunk.document_type)}, '
            f'"publication_state": {_quoted(chunk.publication_state)}, "text": {_quoted(chunk.text)}, '
            f'"title": {_quoted(chunk.title)}, "words": {chunk.words}}}\n'.encode()
        )
    return digest.hexdigest()


def differences(stored: Fingerprint, wanted: Fingerprint) -> dict[str, str]:
    """Say by name (``corpus``, ``digest``, ``profile``) where two fingerprints differ; empty when they are equal."""
    names = {"corpus": "corpus (chunks and payloads)", "digest": "model digest", "profile": "prompt profile"}
    return {
        name: f"{text}: found {getattr(stored, name)}, wanted {getattr(wanted, name)}"
        for name, text in names.items()
        if getattr(stored, name) != getattr(wanted, name)
    }


def same_source(stored: CollectionState, wanted: CollectionState) -> bool:
    """Tell whether two collections are of the same data set, cut alike, whatever its documents held then."""
    return all(stored.details.get(name) == wanted.details[name] for name in ("dataset", "chunking"))


def foreign(collection: str, reasons: Iterable[str], settings: CollectionSettings) -> InputError:
    """Make the error for a collection that is not of this corpus, model and profile."""
    return InputError(
        f"collection {collection!r} holds something else: {'; '.join(reasons)}; index with recreate to replace all "
        f"that is in it (`{index_command(settings)} --recreate`), or give another collection name"
    )


def unowned(collection: str) -> InputError:
    """Make the error for a collection that evalkit did not make; nothing of ours may replace it."""
    return InputError(
        f"collection {collection!r} holds something else: it carries no state, so something else made it, and it is "
        "left alone, with recreate too; give another collection name (or delete it yourself, if nobody needs it). "
        "Rankings of a retriever of your own are scored with `evalkit evaluate --rankings FILE`"
    )


def outdated(
    store: Store, collection: str, wanted: Mapping[str, Chunk], settings: CollectionSettings
) -> InputError:
    """Make the error for a collection of this very data set whose documents were edited since; names them.

    Parameters
    ----------
    wanted
        Every passage of the data set as it is now, by the id of its point (`by_point_id`).
    """
    return InputError(
        f"collection {collection!r} was indexed before the documents were edited: "
        f"{_edited_documents(store, collection, wanted)}; index with recreate to replace all that is in it by what "
        f"the data set holds now: `{index_command(settings)} --recreate`"
    )


def _edited_documents(store: Store, collection: str, wanted: Mapping[str, Chunk]) -> str:
    differing, seen, stored = set(), set(), set()
    for point in store.scroll(collection, vectors=False):
        document, chunk = str(point.payload.get("document_id")), wanted.get(point.id)
        stored.add(document)
        seen.add(point.id)
        if chunk is None or point.payload != payload_of(chunk):
            differing.add(document)
    differing |= {chunk.document_id for id_, chunk in wanted.items() if id_ not in seen}
    there = {chunk.document_id for chunk in wanted.values()}
    parts = {"changed": differing & stored & there, "added": there - stored, "gone": stored - there}
    return (
        ", ".join(
            f"{counted(len(names), 'document')} {word} ({some(sorted(names))})"
            for word, names in parts.items()
            if names
        )
        or "though no passage differs, so its state was changed"
    )


def index_command(settings: CollectionSettings) -> str:
    """Write the command that indexes what these settings name; options at their default are left out."""
    names = ("dataset", "embedder", "model", "profile", "chunking", "collection", "embeddings")
    given = [(f"--{name}", name, "") for name in names]
    given += [("--server", name, f"{name}=") for name in ServerSettings.model_fields]
    fields = type(settings).model_fields
    return "evalkit index" + "".join(
        f" {option} {shlex.quote(f'{start}{getattr(settings, name)}')}"
        for option, name, start in given
        if name in fields and getattr(settings, name) != fields[name].default
    )


def spread(chunks: Sequence[Chunk], size: int) -> list[Chunk]:
    """Choose chunks evenly over their order by key, first and last among them; all when there are at most `size`."""
    places = np.unique(np.linspace(0, len(chunks) - 1, min(size, len(chunks))).round().astype(int))
    ordered = sorted(chunks, key=_key)
    return [ordered[place] for place in places]


@dataclass(frozen=True)
class Verification:
    """What a collection was compared with, and how it differs.

    Attributes
    ----------
    problems
        One sentence a problem; empty when the collection holds what it should.
    checked
        Number of ``points``, ``payloads`` and ``vectors`` compared.
    """

    problems: tuple[str, ...]
    checked: dict[str, int]


def verify_collection(
    store: Store,
    collection: str,
    wanted: Mapping[str, Chunk],
    vectors: Mapping[str, Vectors],
    tolerance: float = VECTOR_TOLERANCE,
) -> Verification:
    """Read a collection back and compare it with what it should hold. Changes nothing.

    Parameters
    ----------
    wanted
        Every passage that should be there, and no other, by the id of its point (`by_point_id`).
    vectors
        Point id -> expected vector of shape (dimension,), for any of these passages.
    tolerance
        Largest Euclidean distance between a stored and an expected vector, both at unit length.

    Returns
    -------
    Verification
        Count, identities and payloads of all points compared, and the vectors given.

    Raises
    ------
    InfrastructureError
        The engine failed.
    """
    count = store.count(collection)
    problems = [f"the collection holds {count} points, wanted {len(wanted)}"] if count != len(wanted) else []
    missing, changed = _payload_faults(store, collection, wanted)
    held = len(wanted) - len(missing)
    extra = []
    if count != held:
        stored = store.scroll(collection, vectors=False)
        extra = [stored_name(point) for point in stored if point.id not in wanted]
    present = {id_: vector for id_, vector in vectors.items() if id_ not in missing}
    distances = _distances(store, collection, present)
    # NaN, for a stored vector that has no direction, must count as far away.
    far = [
        f"{_name(wanted[id_])} (distance {far:.3g})" for id_, far in distances.items() if not far <= tolerance
    ]
    problems += _listed("passages are missing", list(missing.values()))
    problems += _listed("points belong to no passage of the data set", extra)
    problems += _listed("payloads differ", changed)
    problems += _listed("vectors differ from the embedder's", far)
    return Verification(tuple(problems), {"points": count, "payloads": held, "vectors": len(present)})


def _payload_faults(
    store: Store, collection: str, wanted: Mapping[str, Chunk]
) -> tuple[dict[str, str], list[str]]:
    """Name the passages that are not there, by point id, and those whose payload is another one."""
    missing, changed = {}, []
    # In the order of the chunks: they and what is stored lie near each other, where a scroll would jump about.
    for ids in _batches(wanted):
        stored = {point.id: point.payload for point in store.retrieve(collection, ids, vectors=False)}
        for id_ in ids:
            chunk, payload = wanted[id_], stored.get(id_)
            if payload is None:
                missing[id_] = _name(chunk)
            elif payload != (own := payload_of(chunk)):
                changed.append(f"{_name(chunk)} ({_differing_fields(payload, own)})")
    return missing, changed


def _distances(store: Store, collection: str, expected: Mapping[str, Vectors]) -> dict[str, float]:
    distances: dict[str, float] = {}
    for ids in _batches(expected):
        stored = {point.id: point.vector for point in store.retrieve(collection, ids, vectors=True)}
        distances |= {id_: _distance(stored.get(id_), expected[id_]) for id_ in ids}
    return distances


def _batches(ids: Iterable[str]) -> Iterator[list[str]]:
    """Split ids into lists of at most `READ`."""
    source = iter(ids)
    while part := list(islice(source, READ)):
        yield part


def _distance(stored: Vectors | None, expected: Vectors) -> float:
    """Give the distance of two vectors at unit length; NaN where there is none."""
    if stored is None or stored.shape != expected.shape or not stored.any():
        return float("nan")
    left, right = stored.astype(np.float64), expected.astype(np.float64)
    return float(np.linalg.norm(left / np.linalg.norm(left) - right / np.linalg.norm(right)))


def _differing_fields(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    equal = {name for name in stored.keys() & wanted.keys() if stored[name] == wanted[name]}
    return ", ".join(sorted((stored.keys() | wanted.keys()) - equal))


def _listed(what: str, names: Sequence[str]) -> list[str]:
    return [f"{len(names)} {what}: {some(names, SHOWN)}"] if names else []


def _key(chunk: Chunk) -> ChunkKey:
    return chunk.key


def _name(chunk: Chunk) -> str:
    return f"{chunk.document_id} {chunk.chunk_id}"
