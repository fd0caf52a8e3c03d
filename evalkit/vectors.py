"""The vector cache: what a model has computed once is kept, in SQLite under ``outputs/vectors/``.

A vector is found by the digest of the model, the prompt profile and the SHA-256 of the whole prompt. The maximum
length is no part of the key because no embedder here shortens a prompt: one that is too long is refused.
Several processes may read and write at once (WAL mode); every `VectorCache.put` is one transaction, so that what
was stored before a kill is there afterwards.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np

from evalkit import paths
from evalkit.embedding import ModelIdentity, Vectors
from evalkit.errors import InfrastructureError

PARAMETERS = 500  # hashes a query, below SQLite's lowest limit of 999 parameters
BUSY_SECONDS = 60.0

_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    digest TEXT NOT NULL,
    profile TEXT NOT NULL,
    prompt_sha256 BLOB NOT NULL,
    dimension INTEGER NOT NULL,
    vector BLOB NOT NULL,
    server_version TEXT NOT NULL,
    PRIMARY KEY (digest, profile, prompt_sha256)
)"""


class VectorCache:
    """Vectors of live models; a context manager. The file is opened, and made if need be, at the first use.

    Parameters
    ----------
    path
        The SQLite file; None takes ``vectors/cache.sqlite`` under the outputs.

    Raises
    ------
    InfrastructureError
        From every method: the file cannot be made, read or written (no permission, read-only, disk full, not a
        database, held by another process for longer than `BUSY_SECONDS`); the text says what to do.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = paths.outputs() / "vectors" / "cache.sqlite" if path is None else path
        self._connection: sqlite3.Connection | None = None

    def get(self, identity: ModelIdentity, hashes: Sequence[str]) -> tuple[dict[str, Vectors], set[str]]:
        """Look vectors up.

        Parameters
        ----------
        identity
            Model digest and profile.
        hashes
            Hex SHA-256 of prompts.

        Returns
        -------
        vectors
            Prompt hash -> float32 vector, for those that are there; empty for none.
        server_versions
            Versions of the servers that computed them.
        """
        found: dict[str, Vectors] = {}
        versions: set[str] = set()
        for start in range(0, len(hashes), PARAMETERS):
            keys = [bytes.fromhex(one) for one in hashes[start : start + PARAMETERS]]
            with self._use() as connection:
                rows = connection.execute(
                    "SELECT prompt_sha256, dimension, vector, server_version FROM vectors "
                    f"WHERE digest = ? AND profile = ? AND prompt_sha256 IN ({','.join('?' * len(keys))})",
                    [identity.digest, identity.profile, *keys],
                ).fetchall()
            for key, dimension, blob, version in rows:
                if len(blob) != 4 * dimension:
                    raise self._unusable(f"a vector of {len(blob)} bytes where {4 * dimension} are wanted")
                found[key.hex()] = np.frombuffer(blob, "<f4")
                versions.add(version)
        return found, versions

    def put(self, identity: ModelIdentity, hashes: Sequence[str], vectors: Vectors) -> None:
        """Store vectors in one transaction.

        A prompt that another process stored in the meantime keeps the vector that is there.

        Parameters
        ----------
        identity
            Model digest, profile and server version.
        hashes
            Hex SHA-256 of prompts.
        vectors
            Shape (hashes, dimension).
        """
        rows = [
            (
                identity.digest,
                identity.profile,
                bytes.fromhex(prompt_hash),
                len(vector),
                vector.astype("<f4").tobytes(),
                identity.server_version or "unknown",
            )
            for prompt_hash, vector in zip(hashes, vectors, strict=True)
        ]
        with self._use() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Close the file; a later use opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._connection is None:
                self._connection = self._patiently_open()
            yield self._connection
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise self._unusable(getattr(error, "strerror", None) or str(error), error) from None

    def _patiently_open(self) -> sqlite3.Connection:
        # SQLite's own time-out does not hold while another process turns the new file into WAL mode.
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._open()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            time.sleep(0.02)

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
        except BaseException:
            connection.close()
            raise
        return connection

    def _unusable(self, reason: str, error: Exception | None = None) -> InfrastructureError:
        code = _code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            step = "another process holds it; wait for it or end it, then start again"
        elif code == sqlite3.SQLITE_FULL:
            step = "free space on the disk; what was embedded so far is kept"
        elif code == sqlite3.SQLITE_IOERR:
            step = "the disk is full or failing; look at it, or set EVALKIT_OUTPUTS to another one"
        elif error is None or code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            step = f"it is damaged or not ours; move {self.path.name} away, its vectors are computed again"
        else:
            step = "make the folder writable, or set EVALKIT_OUTPUTS to one that is"
        return InfrastructureError(f"vector cache {self.path}: {reason}; {step}")


def _code(error: Exception | None) -> int | None:
    """Give SQLite's primary result code, without what its extended codes add."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
