"""Measure evalkit and its peers and write ``RESULTS.md``: ``python -m benchmarks [--repeats N]``.

Every measurement is a fresh process; those of the tools take turns, so that a busy machine slows all alike. Figures
are medians. A ratio is evalkit's median by that of the peer.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from benchmarks.measure import WHOLE_PROCESS
from benchmarks.tools import NAMES, TOOLS
from benchmarks.workloads import DEPTH, FOLDER, SPECS, ensure

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "RESULTS.md"
SLOW = {
    "ir_measures": 3,
    "ranx": 1,
}  # so often at most; ranx compiles for most of a minute before its first score
PACKAGES = ("numpy", "pandas", "pyarrow", "pytrec-eval-terrier", "ir-measures", "ranx")


@dataclass(frozen=True)
class Goal:
    """A bound on a ratio to a peer, or on evalkit's own seconds."""

    form: str
    workload: str
    peer: str | None
    figure: str
    bound: float


GOALS = (
    Goal("TREC files", "marco", "pytrec_eval", "seconds", 0.30),
    Goal("TREC files", "marco", "pytrec_eval", "megabytes", 0.30),
    Goal("TREC files", "dl", "pytrec_eval", "seconds", 1.0),
    Goal("dictionaries", "marco", "pytrec_eval", "seconds", 0.2),
    Goal("dictionaries", "dl", "pytrec_eval", "seconds", 0.4),
    Goal("DataFrames, text ids", "marco", "pytrec_eval", "seconds", 0.1),
    Goal("DataFrames, integer ids", "marco", "pytrec_eval", "seconds", 0.1),
    Goal("top-100 lists", "marco", "pytrec_eval", "seconds", 0.15),
    Goal("first score", "marco", None, "seconds", 0.3),
    Goal("per query and category", "marco", "means alone", "seconds", 1.2),
    Goal("per query and category", "dl", "means alone", "seconds", 1.2),
)


@dataclass(frozen=True)
class Measured:
    """One fresh process: CPU seconds of what counts, of preparing judgments, and peak memory."""

    seconds: float
    preparing: float
    megabytes: float


def main() -> None:
    """Measure all and write the page."""
    parser = argparse.ArgumentParser(description="Measure evalkit and its peers.")
    parser.add_argument("--repeats", type=int, default=7, help="fresh processes a tool and input (default 7)")
    repeats = parser.parse_args().repeats
    found: dict[tuple[str, str, str], list[Measured]] = {}
    for workload in SPECS:
        ensure(workload)
    _import_once()
    for form in TOOLS:
        for workload in ("marco",) if form == "first score" else SPECS:
            found |= _compare(form, workload, repeats)
    RESULTS.write_text(_page(found, repeats), encoding="utf-8")
    missed = [goal for goal in GOALS if _figure(found, goal) > goal.bound]
    print(f"{RESULTS.relative_to(ROOT)}: {len(GOALS) - len(missed)} of {len(GOALS)} goals met")


def _environment() -> dict[str, str]:
    """Let bytecode be cached, as in any installation, but within our own folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(FOLDER / "bytecode")}


def _import_once() -> None:
    """Import all that is measured, so that no measurement pays for compiling bytecode."""
    modules = "benchmarks.measure, pyarrow.csv, pyarrow.parquet, pandas, evalkit.scorefiles, evalkit.mappings"
    peers = "pytrec_eval, ir_measures, ranx"
    code = f"import {modules}, {peers}; ir_measures.calc_aggregate([ir_measures.P @ 1], {{}}, {{}})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, env=_environment(), check=True)


def _compare(form: str, workload: str, repeats: int) -> dict[tuple[str, str, str], list[Measured]]:
    found: dict[tuple[str, str, str], list[Measured]] = defaultdict(list)
    means = {}
    for turn in range(repeats):
        for tool in TOOLS[form]:
            if turn < SLOW.get(tool, repeats):
                measured, means[tool] = _measure(form, tool, workload)
                found[form, workload, tool].append(measured)
    ours = means["evalkit"]
    for tool, other in means.items():
        for name in NAMES:
            if any(abs(a - b) > 1e-9 for a, b in zip(other.get(name, ours[name]), ours[name], strict=True)):
                raise SystemExit(
                    f"{form}, {workload}: {tool} finds {name} {other[name]}, evalkit {ours[name]}"
                )
    line = "; ".join(f"{tool} {_median(found, (form, workload, tool)):.3f} s" for tool in TOOLS[form])
    print(f"{form}, {workload}: {line}", flush=True)
    return dict(found)


def _measure(form: str, tool: str, workload: str) -> tuple[Measured, dict[str, list[float]]]:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.measure", form, tool, workload],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=_environment(),
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{form}, {workload}, {tool}: ended with {process.returncode}")
    told = json.loads(printed)
    whole = usage.ru_utime + usage.ru_stime
    # In a process that already holds its input, the second score shows the work without first-time costs.
    seconds = whole if form in WHOLE_PROCESS else told["seconds"][-1]
    return Measured(seconds, told["seconds"][0], usage.ru_maxrss / 1024), told["means"]


def _median(
    found: dict[tuple[str, str, str], list[Measured]], key: tuple[str, str, str], name: str = "seconds"
) -> float:
    return median(getattr(one, name) for one in found[key])


def _figure(found: dict[tuple[str, str, str], list[Measured]], goal: Goal) -> float:
    ours = _median(found, (goal.form, goal.workload, "evalkit"), goal.figure)
    return (
        ours
        if goal.peer is None
        else ours / _median(found, (goal.form, goal.workload, goal.peer), goal.figure)
    )


def _page(found: dict[tuple[str, str, str], list[Measured]], repeats: int) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    spec = ", ".join(f"{name} = {one.queries:,} queries x {DEPTH:,} results" for name, one in SPECS.items())
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench`; do not edit. Precision, recall, reciprocal rank and nDCG with exponential gain at",
        "K = 1, 3, 5, 10, 100. CPU seconds (all threads), medians of fresh processes that took turns: of the whole",
        "process for TREC files and the first score, else of one score with its judgments prepared.",
        f"{repeats} processes a figure (ir_measures 3, ranx 1). All tools agreed on every mean to 1e-9.",
        "",
        f"Workloads: {spec}; about 1 relevant document a query in marco, 100 graded judgments in dl.",
        f"Machine: {_processor()}, {os.cpu_count()} cores, {platform.system()}.",
        f"Python {platform.python_version()}, {versions}. Measured on {datetime.now(UTC):%Y-%m-%d}.",
        "",
        "## Goals",
        "",
        "| input | workload | against | figure | measured | goal | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for goal in GOALS:
        value = _figure(found, goal)
        unit = " s" if goal.peer is None else "x"
        figure = "peak memory" if goal.figure == "megabytes" else "CPU time"
        lines.append(
            f"| {goal.form} | {goal.workload} | {goal.peer or '-'} | {figure} | {value:.3f}{unit} "
            f"| at most {goal.bound}{unit} | {'met' if value <= goal.bound else 'missed'} |"
        )
    lines += [
        "",
        "Tools that take dictionaries only get DataFrames and lists by way of them: that is part of their time.",
        "",
        "## All figures",
        "",
        "| input | workload | tool | CPU s | lowest | highest | preparing judgments, CPU s | peak MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (form, workload, tool), all_measured in found.items():
        seconds = [one.seconds for one in all_measured]
        key = (form, workload, tool)
        preparing = "-" if form in WHOLE_PROCESS else f"{_median(found, key, 'preparing'):.4f}"
        lines.append(
            f"| {form} | {workload} | {tool} | {median(seconds):.4f} | {min(seconds):.4f} | {max(seconds):.4f} "
            f"| {preparing} | {_median(found, key, 'megabytes'):.0f} |"
        )
    return "\n".join(lines) + "\n"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
