"""Everything that reports show of a run but its id and times; as a script: make a run and print that of it."""

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

from evalkit.evaluation import evaluate
from evalkit.indexing import index
from evalkit.intervals import mean_intervals
from evalkit.plots.acceptance import errors_over_threshold, roc_and_risk, score_distributions
from evalkit.plots.scores import categories_over_k, category_intervals, metrics_over_k
from evalkit.plots.style import png
from evalkit.runs import TABLES, Run, load_run, write_run
from evalkit.settings import EvaluateSettings, IndexSettings
from evalkit.summary import summarize
from evalkit.thresholds import Rule, explore
from evalkit.views import acceptance, cases, categories, overview


def figures_of(run: Run) -> dict[str, str]:
    """Hashes of tables as they stand on disk, of views and of drawings, by name."""
    intervals = categories.intervals_by_category(run)
    choice = categories.choose(run)
    k = run.record.search.ks[-1]
    explored = explore(run.questions, run.rankings, run.facts, k, Rule())
    views: list[Any] = [
        overview.verdict(run),
        overview.headline(run),
        overview.case_scores(run),
        overview.unsupported_questions(run),
        overview.checks(run),
        cases.case_evidence(run),
        categories.category_verdict(run, k),
        categories.category_table(intervals),
        categories.weakest_cases(run, choice),
        acceptance.choice(explored),
        acceptance.rates(explored),
        acceptance.whole_sweep(explored),
        acceptance.wrong_decisions(explored),
    ]
    drawings: dict[Callable[..., Any], tuple[Any, ...]] = {
        metrics_over_k: (mean_intervals(run.scores, ["k"]),),
        categories_over_k: (intervals,),
        category_intervals: (intervals[intervals["k"] == k], k),
        score_distributions: (explored,),
        errors_over_threshold: (explored,),
        roc_and_risk: (explored,),
    }
    found = {name: (run.folder / f"{name}.parquet").read_bytes() for name in TABLES}
    found |= {f"view {place}": str(view.data).encode() for place, view in enumerate(views)}
    for draw, values in drawings.items():
        figure, words = draw(*values)
        found |= {draw.__name__: png(figure), f"{draw.__name__} in words": words.encode()}
    found["summary"] = "\n".join(summarize(run).splitlines()[:-1]).encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}


def main(dataset: str) -> None:
    index(IndexSettings.checked(dataset=dataset))
    made = write_run(evaluate(EvaluateSettings.checked(dataset=dataset, ks=(1, 3, 5, 10))))
    print(json.dumps(figures_of(load_run(made.run_id))))


if __name__ == "__main__":
    main(sys.argv[1])
