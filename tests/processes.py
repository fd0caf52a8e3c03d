"""Other Python processes of the tests, and what they print."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def lines_of(
    *command: str, environment: Mapping[str, str] | None = None, timeout: float = 280.0
) -> list[Any]:
    """Run a command in the project's folder to its good end, and read the JSON of each line that it prints."""
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_module(name: str, *arguments: str, **settings: Any) -> list[Any]:
    """Run a module of the tests, such as ``tests.faults.sharing``; as `lines_of`."""
    return lines_of(sys.executable, "-m", name, *arguments, **settings)
