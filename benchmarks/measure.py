"""One measurement in a fresh process: ``python -m benchmarks.measure FORM TOOL WORKLOAD``.

Prints JSON: CPU seconds of the first and of a second call, and the means. CPU time and peak memory of the whole
process are taken by whoever started it.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.tools import TOOLS

FIRST = {"q1": {"d1": 0.5, "d2": 0.4}, "q2": {"d1": 0.9, "d3": 0.1}}
FIRST_JUDGED = {"q1": {"d2": 1}, "q2": {"d1": 2, "d3": 1}}


def inputs(form: str, folder: Path) -> tuple[Any, Any]:
    """Give run and judgments in a form."""
    if form == "files":
        return str(folder / "run.trec"), str(folder / "qrels.trec")
    import pandas as pd

    run, qrels = pd.read_parquet(folder / "run.parquet"), pd.read_parquet(folder / "qrels.parquet")
    if form == "DataFrames, integer ids":
        ids = dict.fromkeys(("query_id", "document_id"), "int64")
        return run.astype(ids), qrels.astype(ids)
    if form == "DataFrames, text ids":
        return run, qrels
    depth = 100 if form == "top-100 lists" else None
    return _rankings(run, depth, as_lists=depth is not None), _dictionaries(qrels, "grade")


def _dictionaries(frame: Any, value: str) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    rows = zip(frame["query_id"].tolist(), frame["document_id"].tolist(), frame[value].tolist(), strict=True)
    for query, document, number in rows:
        nested.setdefault(query, {})[document] = number
    return nested


def _rankings(frame: Any, depth: int | None, as_lists: bool) -> dict[str, Any]:
    if depth is not None:
        frame = frame[frame["rank"] <= depth]
    nested = _dictionaries(frame, "score")
    return {query: list(ranking) for query, ranking in nested.items()} if as_lists else nested


def main(form: str, tool: str, workload: str) -> None:
    """Measure and print."""
    if form == "first score":
        run, qrels, function = FIRST, FIRST_JUDGED, TOOLS["dictionaries"][tool]
    else:
        folder = Path(__file__).resolve().parent / "workloads" / workload
        run, qrels = inputs(form, folder)
        function = TOOLS[form][tool]
    seconds = []
    # Whole processes are measured for files and for the first score, so there it is one call.
    for _ in range(1 if form in ("files", "first score") else 2):
        begun = time.process_time()
        means = function(run, qrels)
        seconds.append(time.process_time() - begun)
    print(json.dumps({"seconds": seconds, "means": means}))


if __name__ == "__main__":
    main(*sys.argv[1:])
