"""Which code ran: git revision, Python and package versions."""

import platform
import subprocess
from importlib import metadata

from evalkit import paths
from evalkit.records import CodeRecord

_PACKAGES = (
    "evalkit numpy ollama pandas pyarrow pydantic qdrant-client qdrant-edge-py rapidfuzz scipy".split()
)


def code_record() -> CodeRecord:
    """Describe the code of this process.

    Returns
    -------
    CodeRecord
        ``revision`` and ``dirty`` are null where the project root is no git checkout or git is missing. Dirty is a
        changed file that git knows, or any new one in the package: data sets and criteria that lie about are no code.
    """
    revision = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no") if revision else None
    if changes == "":
        changes = _git("status", "--porcelain", "--untracked-files=all", "--", "evalkit")
    return CodeRecord(
        revision=revision,
        dirty=None if changes is None else bool(changes),
        python=platform.python_version(),
        packages={name: metadata.version(name) for name in _PACKAGES},
    )


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ("git", *arguments), cwd=paths.root(), capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
