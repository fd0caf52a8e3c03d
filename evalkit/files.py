"""Files and folders that appear under their final name only when they are whole."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evalkit.errors import InfrastructureError

TEMPORARY = ".tmp-evalkit-"
"""Start of the names of files and folders that are not finished, or that are being removed."""

STALE = 86_400.0
"""Age in seconds at which nobody is at work on one of them any more: a killed process left it behind."""


def sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder; what cannot be removed stays."""
    for left in folder.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Turn the system's complaint about a place into one error that says what to do.

    Raises
    ------
    InfrastructureError
        Disk full, read-only, no permission and the like at `place`.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InfrastructureError(
            f"cannot write {place}: {reason}; free or unlock the place, or set EVALKIT_OUTPUTS to another folder"
        ) from error


@contextmanager
def whole_folder(final: Path) -> Iterator[Path]:
    """Fill a folder under a temporary name and rename it when the block ends without an error.

    Parameters
    ----------
    final
        The folder to appear. One that exists is replaced only after the new one is whole.

    Yields
    ------
    Path
        The temporary folder beside it, removed when the block raises. Its name starts with `TEMPORARY`.

    Raises
    ------
    InfrastructureError
        The folder cannot be made or renamed (disk full, read-only, no permission).
    """
    with disk_errors(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        sweep(final.parent)
        temporary = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{final.name}-", dir=final.parent))
        temporary.chmod(0o755)
    try:
        with disk_errors(final):
            yield temporary
            if final.exists():
                old = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{final.name}-old-", dir=final.parent))
                final.rename(old / final.name)
                temporary.rename(final)
                shutil.rmtree(old, ignore_errors=True)
            else:
                temporary.rename(final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_whole(final: Path, content: str | bytes) -> None:
    """Write one file under a temporary name and rename it.

    Raises
    ------
    InfrastructureError
        The file cannot be written; nothing is left under either name.
    """
    data = content.encode() if isinstance(content, str) else content
    with disk_errors(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        sweep(final.parent)
        handle, name = tempfile.mkstemp(prefix=f"{TEMPORARY}{final.name}-", dir=final.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            temporary.chmod(0o644)
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)
