"""Measure indexing and evaluating at scale and write ``SCALE.md``: ``python -m benchmarks.scale``.

evalkit against the floor: the same points and the same searches straight through the API of the embedded engine,
without verification and without its ``optimize()``. Both take turns in fresh processes; ratios are those of medians
of CPU time, since the machine may be busy with other work.
"""

import argparse
import os
import platform
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from benchmarks.made import DIMENSION, PASSAGES, ensure
from benchmarks.processes import Cost, fresh, processor, table
from benchmarks.scale_measure import BATCH, DEPTH, KS
from evalkit.querying import HITS

RESULTS = Path(__file__).resolve().parent / "SCALE.md"
GOAL = 1.3
MEASURE = "benchmarks.scale_measure"
PACKAGES = ("qdrant-edge-py", "numpy", "pandas", "pyarrow", "pydantic")
Found = dict[str, list[Cost]]


def main() -> None:
    """Measure all and write the page, anew after each turn."""
    parser = argparse.ArgumentParser(description="Measure indexing and evaluating at scale.")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--indexings", type=int, default=7, help="fresh processes each (default 7)")
    parser.add_argument("--evaluations", type=int, default=2, help="fresh processes each (default 2)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as kept:
        outputs = Path(kept)
        # Once with little, so that no measurement pays for compiling bytecode.
        small = ensure(200, 50)
        for task in ("index", "evaluate"):
            _take_turn(defaultdict(list), task, small, outputs / "small")
        folder = ensure(given.chunks, given.questions)
        found: Found = defaultdict(list)
        for _ in range(given.indexings):
            _take_turn(found, "index", folder, outputs)
        live = fresh(MEASURE, "evalkit index live", folder, outputs / "live")
        found["evalkit index live"].append(live)
        for _ in range(given.evaluations):
            _take_turn(found, "evaluate", folder, outputs)
            page = _page(found, given.chunks, given.questions)
            given.out.write_text("\n".join(page) + "\n", encoding="utf-8")


def _take_turn(found: Found, task: str, folder: Path, outputs: Path) -> None:
    for name in ("floor", "evalkit"):
        place = outputs / name
        if task == "index":
            _empty(place)
        cost = fresh(MEASURE, f"{name} {task}", folder, place)
        found[f"{name} {task}"].append(cost)
        print(f"{name} {task}: {cost.cpu:.1f} CPU s, {cost.wall:.1f} s, {cost.megabytes:.0f} MB", flush=True)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _middle(costs: Sequence[Cost], name: str) -> float:
    return median(getattr(cost, name) for cost in costs)


def _part(costs: Sequence[Cost], name: str) -> float:
    return median(cost.told["cpu"][name] for cost in costs)


def _page(found: Found, chunks: int, questions: int) -> list[str]:
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return [
        "# Indexing and evaluating at scale",
        "",
        "Made by `make bench-scale`; do not edit. evalkit on the embedded engine against the floor: the same points",
        "and the same searches straight through the engine's own API, without verification and without `optimize()`.",
        f"{chunks:,} chunks of {chunks // PASSAGES:,} documents, {DIMENSION} numbers each; {questions:,} questions",
        f"at K = {', '.join(map(str, KS))} in batches of {BATCH}. The vectors are made; both sides read them from",
        "a file. Whole fresh processes that took turns, CPU seconds of all threads, medians. Seconds that passed",
        "depend on what else the machine did and are given for orientation.",
        "",
        f"Machine: {processor()}, {os.cpu_count()} cores, {platform.system()}.",
        f"Python {platform.python_version()}, {versions}. Measured on {datetime.now(UTC):%Y-%m-%d}.",
        "",
        *_indexing(found, chunks),
        "",
        *_evaluating(found, questions),
        "",
        *_both(found),
    ]


def _indexing(found: Found, chunks: int) -> list[str]:
    floor, ours, live = (found[f"{name}"] for name in ("floor index", "evalkit index", "evalkit index live"))
    rows = [
        (
            name,
            len(costs),
            f"{_middle(costs, 'cpu'):.1f}",
            f"{_middle(costs, 'wall'):.1f}",
            f"{_middle(costs, 'megabytes'):.0f}",
            f"{chunks / _middle(costs, 'cpu'):,.0f}",
            f"{_middle(costs, 'cpu') / _middle(floor, 'cpu'):.2f}",
        )
        for name, costs in (
            ("floor", floor),
            ("evalkit", ours),
            ("evalkit, with the cache of a live model", live),
        )
    ]
    cpu = _middle(floor, "cpu")
    whole = _middle(ours, "cpu")
    parts = {name: _part(ours, name) for name in ("labels", "writing", "verification")}
    parts["start and the rest"] = whole - sum(parts.values())
    meaning = {
        "labels": "reading and checking documents and questions, cutting chunks, resolving and guarding labels",
        "writing": "vectors looked up and checked, points written, flush",
        "verification": "every identity and payload read back and compared, 64 vectors",
        "start and the rest": "imports, ids of points, hash of the corpus",
    }
    return [
        "## Indexing",
        "",
        *table(("", "runs", "CPU s", "s", "peak MB", "chunks a CPU s", "ratio"), rows),
        "",
        f"Goal, at most {GOAL} times the floor: {_verdict(whole / cpu)} in CPU time for the whole process,",
        f"{_verdict(_middle(ours, 'megabytes') / _middle(floor, 'megabytes'))} in peak memory.",
        f"Without verification: {_verdict((whole - parts['verification']) / cpu)}; writing alone:",
        f"{_verdict(parts['writing'] / cpu)}. The floor reads the same file, makes ids and payloads of the same",
        "form, and the keyword indexes that filters need, and hands the engine as many points at once; it has no",
        "labels to check. It uses the engine's defaults, write-ahead log included; evalkit flushes every 10,000",
        "points instead and sends again what is lost.",
        "",
        *table(
            ("part of evalkit", "CPU s", "share", "what"),
            [(n, f"{s:.1f}", f"{s / whole:.0%}", meaning[n]) for n, s in parts.items()],
        ),
    ]


def _evaluating(found: Found, questions: int) -> list[str]:
    floor, ours = found["floor evaluate"], found["evalkit evaluate"]
    shallow, all_of_it = _part(floor, str(KS[-1])), _middle(floor, "cpu")
    whole = _middle(ours, "cpu")
    limits = ", ".join(map(str, KS))
    rows = [
        (
            f"floor, K = {limits}",
            len(floor),
            f"{shallow:.1f}",
            "",
            "",
            f"{questions * len(KS) / shallow:,.0f}",
        ),
        (
            f"floor, and the diagnostic ranking of {DEPTH}",
            len(floor),
            f"{all_of_it:.1f}",
            f"{_middle(floor, 'wall'):.1f}",
            f"{_middle(floor, 'megabytes'):.0f}",
            f"{questions * (len(KS) + 1) / all_of_it:,.0f}",
        ),
        (
            "evalkit, run stored",
            len(ours),
            f"{whole:.1f}",
            f"{_middle(ours, 'wall'):.1f}",
            f"{_middle(ours, 'megabytes'):.0f}",
            f"{questions * (len(KS) + 1) / whole:,.0f}",
        ),
    ]
    stages = {name: _part(ours, name) for name in ours[0].told["cpu"]}
    means = ours[0].told["means"]
    recall = ", ".join(
        f"{value:.3f} at K = {k}" for k, value in zip(means["k"], means["recall"], strict=True)
    )
    return [
        "## Evaluating",
        "",
        *table(("", "runs", "CPU s", "s", "peak MB", "searches a CPU s"), rows),
        "",
        f"Goal, at most {GOAL} times the floor: {_verdict(whole / all_of_it)} in CPU time of the same searches,",
        f"{_verdict(whole / shallow)} of the searches at K alone;",
        f"{_verdict(_middle(ours, 'megabytes') / _middle(floor, 'megabytes'))} in peak memory. evalkit asks each",
        f"question once more, {DEPTH} deep, to show where missed evidence stands. The comparison with exact search",
        "takes no further searches here, since a collection without approximate index has no other. Requests of",
        f"{DEPTH} hits a question hold {min(BATCH, HITS // DEPTH)} questions in evalkit: no faster, less memory.",
        "",
        *table(
            ("stage of evalkit", "CPU s", "share"),
            [(name, f"{seconds:.1f}", f"{seconds / whole:.0%}") for name, seconds in stages.items()],
        ),
        "",
        f"Recall found: {recall}.",
    ]


def _both(found: Found) -> list[str]:
    tasks = ("index", "evaluate")
    floor, ours = (
        sum(_middle(found[f"{name} {task}"], "cpu") for task in tasks) for name in ("floor", "evalkit")
    )
    shallow = _middle(found["floor index"], "cpu") + _part(found["floor evaluate"], str(KS[-1]))
    return [
        "## Both together",
        "",
        f"{ours:.0f} CPU s against {floor:.0f}: {_verdict(ours / floor)} of the same points and searches;",
        f"{_verdict(ours / shallow)} where the floor leaves the diagnostic ranking out.",
    ]


def _verdict(ratio: float) -> str:
    return f"{ratio:.2f}x ({'met' if ratio <= GOAL else 'missed'})"


if __name__ == "__main__":
    main()
