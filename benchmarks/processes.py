"""Fresh processes and what they cost, and the machine they ran on."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BYTECODE = Path(__file__).resolve().parent / "workloads" / "bytecode"


@dataclass(frozen=True)
class Cost:
    """One process: CPU seconds of all its threads, seconds that passed, peak memory, and the JSON it printed."""

    cpu: float
    wall: float
    megabytes: float
    told: dict[str, Any]


def environment() -> dict[str, str]:
    """Let bytecode be cached, as in any installation, but within our own folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(BYTECODE)}


def fresh(module: str, *arguments: str | Path) -> Cost:
    """Run a module of the benchmarks in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", module, *map(str, arguments)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment())
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[3:])}: ended with {process.returncode}")
    seconds = time.perf_counter() - start
    return Cost(usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / 1024, json.loads(printed))


def processor() -> str:
    """Name the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lay out a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(map(str, line))} |" for line in lines]
