"""Recorded vectors: a folder of Parquet files with the identity of their one model beside them.

``model.json`` names model, digest, profile and dimension; each ``*.parquet`` has the columns ``prompt_sha256``
(hex SHA-256 of the UTF-8 prompt) and ``vector`` (fixed-size list of float32, unit length); ``canary.txt`` is one
recorded prompt in clear text, with which a live model can be compared.
"""

import hashlib
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from evalkit.embedding import ModelIdentity, Prompt, Vectors, check_vectors
from evalkit.errors import SHOWN, InputError, bullets, refuse
from evalkit.fields import checked
from evalkit.files import write_whole

ROWS_A_GROUP = 1024  # small groups, so that a few prompts of a large recording need few reads


class _Model(BaseModel):
    """What ``model.json`` must hold; further fields are for readers."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    model: Annotated[str, Field(min_length=1)]
    digest: Annotated[str, Field(min_length=1)]
    profile: Annotated[str, Field(min_length=1)]
    dimension: Annotated[int, Field(ge=1)]


class RecordedVectors:
    """The vectors of one folder; hashes are read at once, vectors only when they are asked for.

    Use `open_recorded`, which reads a folder once a process.

    Raises
    ------
    InputError
        No folder, no or a faulty ``model.json``, no Parquet file or one that does not hold what it should;
        the text names the file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = _read_model(folder / "model.json")
        self._places: dict[str, tuple[Path, int, int]] = {}  # prompt hash -> file, row group, row
        for path in _parquet_files(folder):
            for group, hashes in enumerate(_read_hashes(path, self.model.dimension)):
                for row, prompt_hash in enumerate(hashes):
                    self._places.setdefault(prompt_hash, (path, group, row))

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, prompt_sha256: str) -> bool:
        return prompt_sha256 in self._places

    @property
    def canary(self) -> Prompt | None:
        """The recorded prompt in clear text; None when the folder has none."""
        path = self.folder / "canary.txt"
        if not path.is_file():
            return None
        prompt = Prompt("the canary prompt", path.read_text(encoding="utf-8").rstrip("\n"))
        return prompt if prompt.sha256 in self else None

    def vectors(self, prompts: Sequence[Prompt]) -> Vectors:
        """Look the vectors of prompts up.

        Parameters
        ----------
        prompts
            Any number, repeats allowed.

        Returns
        -------
        NDArray[float32]
            Shape (prompts, dimension), in order, rows of unit length; (0, dimension) for no prompts.

        Raises
        ------
        InputError
            Prompts without a recorded vector (all named, a long list capped), or vectors that cannot be used.
        """
        hashes = [prompt.sha256 for prompt in prompts]
        missing = [prompt.name for prompt, found in zip(prompts, hashes, strict=True) if found not in self]
        if missing:
            raise InputError(self._missing(missing, len(prompts)))
        result = np.empty((len(prompts), self.model.dimension), np.float32)
        by_group: dict[tuple[Path, int], list[tuple[int, int]]] = {}
        for place, prompt_hash in enumerate(hashes):
            path, group, row = self._places[prompt_hash]
            by_group.setdefault((path, group), []).append((place, row))
        for (path, group), pairs in by_group.items():
            places, rows = np.asarray(pairs).T
            result[places] = _read_group(path, group, _stamp(path))[rows]
        names = [prompt.name for prompt in prompts]
        check_vectors(result, self.model.dimension, names, str(self.folder), InputError)
        return result

    def _missing(self, names: list[str], asked: int) -> str:
        return (
            f"no recorded vector for {len(names)} of {asked} prompts (model {self.model.model}, profile "
            f"{self.model.profile}, folder {self.folder}):{bullets(names, SHOWN)}\n"
            "a vector belongs to one exact text: a changed title, text or question needs a new one. Either embed "
            "live with `embedder: ollama`, or record them with `evalkit record --dataset DATASET` (needs a running "
            "Ollama; vectors of another model go into a folder of their own)"
        )


def open_recorded(folder: Path) -> RecordedVectors:
    """Give the recorded vectors of a folder; while its files stay the same it is read once a process."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of recorded vectors; give one that holds a model.json")
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".parquet"))
    return _open_recorded(folder, tuple((path.name, *_stamp(path)) for path in files))


@lru_cache(maxsize=4)
def _open_recorded(folder: Path, _stamps: tuple[tuple[Any, ...], ...]) -> RecordedVectors:
    return RecordedVectors(folder)


def _stamp(path: Path) -> tuple[int, int]:
    seen = path.stat()
    return seen.st_mtime_ns, seen.st_size


def _read_model(path: Path) -> _Model:
    faults: list[str] = []
    try:
        model = checked(_Model, json.loads(path.read_bytes()), "", faults)
    except FileNotFoundError:
        raise InputError(f"{path}: missing; it names model, digest, profile and dimension") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        model, faults = None, [str(error)]
    if model is None:
        refuse(f"{path}: not the identity of a model", faults)
    return model


def _parquet_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise InputError(
            f"{folder}: no Parquet file with vectors beside model.json; record some with `evalkit record --dataset "
            f"DATASET --embeddings {shlex.quote(str(folder))}`"
        )
    return files


def _read_hashes(path: Path, dimension: int) -> list[list[str]]:
    """Read the prompt hashes of each row group."""
    wanted = {"prompt_sha256": pa.string(), "vector": pa.list_(pa.float32(), dimension)}
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            found = dict(zip(schema.names, schema.types, strict=True))
            if not wanted.items() <= found.items():
                raise InputError(f"{path}: columns {_typed(wanted)} wanted, {_typed(found)} found")
            return [
                file.read_row_group(group, columns=["prompt_sha256"]).column(0).to_pylist()
                for group in range(file.num_row_groups)
            ]
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from None


def _typed(columns: dict[str, Any]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in columns.items()) or "none"


@lru_cache(maxsize=64)
def _read_group(path: Path, group: int, _stamp: tuple[int, int]) -> Vectors:
    try:
        with pq.ParquetFile(path) as file:
            column = file.read_row_group(group, columns=["vector"]).column(0).combine_chunks()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from None
    if column.null_count or column.flatten().null_count:
        raise InputError(f"{path}: empty vectors in row group {group}; record them again")
    values: Vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    values.flags.writeable = False
    return values


class RecordedEmbedder:
    """Looks vectors up instead of computing them; see `Embedder`."""

    live = False

    def __init__(self, recorded: RecordedVectors, batch_size: int = 32) -> None:
        self.batch_size = batch_size
        self.counts: Counter[str] = Counter()
        self._recorded = recorded
        model = recorded.model
        self.identity = ModelIdentity("recorded", model.model, model.digest, model.profile, model.dimension)

    def embed(self, prompts: Sequence[Prompt]) -> Vectors:
        """Look the prompts up; see `RecordedVectors.vectors`."""
        return self._recorded.vectors(prompts)

    def close(self) -> None:
        """Nothing to let go of."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def write_recorded(
    folder: Path, identity: ModelIdentity, prompts: Sequence[Prompt], vectors: Vectors
) -> Path:
    """Add vectors to a folder of recorded ones, as a new Parquet file.

    Parameters
    ----------
    folder
        Made if need be; ``model.json`` and ``canary.txt`` are written with the first vectors.
    identity
        The model; must be that of what the folder already holds.
    prompts, vectors
        At least one, distinct; vectors of shape (prompts, dimension).

    Returns
    -------
    Path
        The new file, there as a whole or not at all.

    Raises
    ------
    InputError
        The folder holds vectors of another model, digest or profile.
    InfrastructureError
        The folder cannot be written.
    """
    check_vectors(vectors, identity.dimension, [prompt.name for prompt in prompts], identity.model)
    refuse_other_model(folder, identity)
    hashes = [prompt.sha256 for prompt in prompts]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1])
    table = pa.table({"prompt_sha256": pa.array(hashes, pa.string()), "vector": column})
    slug = re.sub(r"[^a-z0-9]+", "-", identity.model.lower()).strip("-")
    path = folder / f"{slug}-{hashlib.sha256(''.join(hashes).encode()).hexdigest()[:12]}.parquet"
    if not (folder / "model.json").exists():
        write_whole(folder / "canary.txt", prompts[-1].text + "\n")
        write_whole(folder / "model.json", _described(identity, vectors.shape[1]))
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", row_group_size=ROWS_A_GROUP)
    write_whole(path, content.getvalue())
    return path


def _described(identity: ModelIdentity, dimension: int) -> str:
    described = {
        "model": identity.model,
        "digest": identity.digest,
        "digest_of": f"the model as {identity.embedder} lists it",
        "profile": identity.profile,
        "dimension": dimension,
        "distance": "cosine",
        "precision": "float32",
        "server_version": identity.server_version,
    }
    return json.dumps(described, indent=2) + "\n"


def refuse_other_model(folder: Path, identity: ModelIdentity) -> None:
    """Raise InputError when a folder holds recorded vectors of another model, digest or profile."""
    if not (folder / "model.json").exists():
        return
    there = _read_model(folder / "model.json")
    differing = [
        f"{name}: {getattr(there, name)} there, {getattr(identity, name)} here"
        for name in ("model", "digest", "profile")
        if getattr(there, name) != getattr(identity, name)
    ]
    if differing:
        raise InputError(
            f"{folder} holds vectors of another model, and vectors of two models cannot be compared:"
            f"{bullets(differing)}\nrecord into another folder (`--embeddings FOLDER`), and use it with `embeddings`"
        )
