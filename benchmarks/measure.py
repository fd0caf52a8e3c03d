"""One measurement in a fresh process: ``python -m benchmarks.measure FORM TOOL WORKLOAD``.

Prints JSON: CPU seconds of preparing the judgments, of the first and of a second score, and the means. CPU time and
peak memory of the whole process are taken by whoever started it.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.tools import TOOLS

WHOLE_PROCESS = ("TREC files", "first score")
_FIRST = {"q1": {"d1": 0.5, "d2": 0.4}, "q2": {"d1": 0.9, "d3": 0.1}}
_FIRST_JUDGED = {"q1": {"d2": 1}, "q2": {"d1": 2, "d3": 1}}


def inputs(form: str, workload: str) -> tuple[Any, Any]:
    """Give run and judgments in a form."""
    folder = Path(__file__).resolve().parent / "workloads" / workload
    if form == "TREC files":
        return folder / "run.trec", folder / "qrels.trec"
    if form == "first score":
        return _FIRST, _FIRST_JUDGED
    import pandas as pd

    run, qrels = pd.read_parquet(folder / "run.parquet"), pd.read_parquet(folder / "qrels.parquet")
    if form == "DataFrames, integer ids":
        ids = dict.fromkeys(("query_id", "document_id"), "int64")
        return run.astype(ids), qrels.astype(ids)
    if form == "DataFrames, text ids":
        return run, qrels
    from benchmarks.tools import nested

    if form == "top-100 lists":
        rankings = nested(run[run["rank"] <= 100], "score")
        return {query: list(ranking) for query, ranking in rankings.items()}, nested(qrels, "grade")
    return nested(run, "score"), nested(qrels, "grade")


def main(form: str, tool: str, workload: str) -> None:
    """Measure and print."""
    run, qrels = inputs(form, workload)
    chosen = TOOLS[form][tool]
    clock = time.process_time
    begun = clock()
    prepared = chosen.prepare(qrels)
    ready = clock()
    means = chosen.score(run, prepared)
    seconds = [ready - begun, clock() - ready]
    if form not in WHOLE_PROCESS:
        begun = clock()
        chosen.score(run, prepared)
        seconds.append(clock() - begun)
    print(json.dumps({"seconds": seconds, "means": means}))


if __name__ == "__main__":
    main(*sys.argv[1:])
