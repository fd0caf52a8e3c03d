"""Open shards of Qdrant Edge, and the engine's errors as ours."""

import fcntl
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar
from weakref import WeakValueDictionary

import qdrant_edge as edge

from evalkit.errors import InfrastructureError, InputError
from evalkit.files import disk_errors

LOCK = "lock"

HEADROOM = 32_000_000
"""Bytes to be free on the disk before the engine writes; a small collection takes a quarter of that."""

_COPIES = 3  # of what is written: in the engine's segments, and in those being merged


class HeldElsewhere(Exception):
    """Another process has the folder open."""


class Shard:
    """One open folder, shared by everybody in this process, since the engine opens a folder only once.

    When the last reference goes, the engine closes it and the lock is gone. The lock is our own, a file beside the
    shard: the engine takes its own only with a write-ahead log, which our collections do without, and only after it
    has read the segments, when what another process wrote last could be missed.
    """

    _open: ClassVar[WeakValueDictionary[Path, "Shard"]] = WeakValueDictionary()
    _opening: ClassVar[threading.RLock] = threading.RLock()

    def __init__(self, folder: Path) -> None:
        self.closed = True
        require_space(folder)  # opening writes too
        self._lock = _locked(folder.with_name(LOCK))
        try:
            with engine_errors(f"opening collection folder {folder}"):
                self.engine = edge.EdgeShard.load(str(folder))
        except BaseException:
            os.close(self._lock)
            raise
        self.closed = False

    @classmethod
    def at(cls, folder: Path, wait: float) -> "Shard":
        """Open the folder, or share what this process has open; `wait` seconds for another process at most."""
        until = time.monotonic() + wait
        while True:
            try:
                with cls._opening:
                    shard = cls._open.get(folder)
                    if shard is None or shard.closed:
                        shard = cls._open[folder] = cls(folder)
                    return shard
            except HeldElsewhere:
                if time.monotonic() >= until:
                    raise
            time.sleep(0.1)

    def close(self) -> None:
        """Close the folder for everybody in this process, who open it again when they need it."""
        if self.closed:
            return
        self.closed = True
        try:
            with engine_errors("closing a collection"):
                self.engine.close()
        finally:
            os.close(self._lock)

    def __del__(self) -> None:
        with suppress(InfrastructureError):
            self.close()


def _locked(file: Path) -> int:
    """Open a file and lock it; the lock lasts until the descriptor is closed or the process ends, however it ends."""
    with disk_errors(file):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise HeldElsewhere from None
    return descriptor


def require_space(folder: Path, more: int = 0) -> None:
    """Refuse to write where the disk is nearly full.

    The engine writes through memory maps of files with holes. Where the disk has no block left for one, the system
    ends the whole process at once (SIGBUS): no error could be shown, so it is looked at before.

    Parameters
    ----------
    folder
        A folder that exists.
    more
        Bytes about to be written.

    Raises
    ------
    InfrastructureError
        Less than `HEADROOM` and room for what is written would be left.
    """
    free, wanted = shutil.disk_usage(folder).free, HEADROOM + _COPIES * more
    if free < wanted:
        raise InfrastructureError(
            f"{folder}: the disk is full but for {free / 1e6:.0f} MB, {wanted / 1e6:.0f} MB are needed; free space, "
            "or set EVALKIT_OUTPUTS to another disk, then run again"
        )


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Give the engine's bare exceptions a class and a next step."""
    try:
        yield
    except BaseException as error:
        # A panic of the engine's Rust code comes as an exception that is no `Exception`.
        panic = type(error).__name__ == "PanicException"
        if isinstance(error, InputError | InfrastructureError) or not (isinstance(error, Exception) or panic):
            raise
        text = str(error)
        if "WouldBlock" in text:
            raise HeldElsewhere from None
        if "No space left" in text or "os error 28" in text:
            raise InfrastructureError(
                f"{what}: the disk is full ({text[:300]}); free space and index again"
            ) from None
        if refused := re.search(r"(Read-only file system|Permission denied) \(os error", text):
            raise InfrastructureError(
                f"{what}: {refused[1]}; make the folder writable, which the engine needs for reading too, or set "
                "EVALKIT_OUTPUTS to another folder"
            ) from None
        raise InfrastructureError(
            f"{what}: Qdrant Edge failed ({type(error).__name__}: {text[:300]}); "
            "if it happens again, index the collection again with recreate"
        ) from None
