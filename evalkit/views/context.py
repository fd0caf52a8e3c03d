"""What reaches the model: the steps at which required facts are lost, and each lost fact by name."""

from collections.abc import Collection, Iterable

import pandas as pd
from IPython.display import HTML, display
from markupsafe import Markup

from evalkit.context import Options, load_function
from evalkit.dataset import Case
from evalkit.errors import InputError
from evalkit.plots.style import show
from evalkit.plots.waterfall import evidence_waterfall
from evalkit.runs import Run
from evalkit.views.markup import banner, page, render
from evalkit.views.tables import number, table
from evalkit.waterfall import EvidenceLoss, evidence_loss


def follow(
    run: Run,
    cases: Iterable[Case],
    *,
    k: int | None = None,
    budget: int | None = None,
    similarity: float | None = None,
    merge: bool = False,
    counter: str | None = None,
    builder: str | None = None,
) -> EvidenceLoss | None:
    """Follow the required facts of a run into the context that a model is given.

    Parameters
    ----------
    run
        A run that kept full texts.
    cases
        The cases of its data set.
    k
        Chunks that go into a context, up to the depth of the run's diagnostic ranking; its largest K by default.
    budget, similarity, merge
        ``budget_words``, ``deduplicate`` and ``merge_overlap`` of `context.assemble`.
    counter, builder
        ``module:function`` for ``count`` and ``build`` of `context.assemble`.

    Returns
    -------
    EvidenceLoss or None
        None when nothing is asked for: all parameters are at their defaults.

    Raises
    ------
    InputError
        A `k` beyond the depth of the run, a function that cannot be imported, and all that
        `waterfall.evidence_loss` refuses.
    """
    if not merge and all(value is None for value in (k, budget, similarity, counter, builder)):
        return None
    search = run.record.search
    used = run.cutoff() if k is None else k
    if used > search.depth:
        raise InputError(
            f"context_k: found {used}, but the run looked {search.depth} deep; evaluate with a larger depth"
        )
    if run.record.retention != "full":
        raise InputError(
            f"run {run.run_id} was stored with retention {run.record.retention!r}, so its texts are not whole; "
            "evaluate with retention 'full' to follow evidence into contexts"
        )
    options = Options(budget_words=budget, deduplicate=similarity, merge_overlap=merge)
    if counter is not None:
        options["count"] = load_function(counter)
    if builder is not None:
        options["build"] = load_function(builder)
    return evidence_loss(run.deep, run.facts, cases, used, search.threshold, **options)


def evidence_in_context(loss: EvidenceLoss | None) -> HTML:
    """Show verdict and steps, with their figure; say how to switch the section on when there is nothing."""
    if loss is None:
        text = "Off. A parameter named context_… switches it on, such as context_words=300 for at most 300 words."
        return page(render("<p>{{ text }}</p>", text=text))
    display(page(_verdict(loss)))  # type: ignore[no-untyped-call]
    if loss.steps["n_facts"].any():
        show(*evidence_waterfall(loss.steps))
    return page(_steps(loss))


def lost_on_the_way(loss: EvidenceLoss | None, linked: Collection[str] = ()) -> HTML | None:
    """Name every lost fact with the step that lost it and a quote that would have proved it."""
    if loss is None:
        return None
    frame = loss.lost[["case_id", "step", "text", "quote"]]
    order = {step: place for place, step in enumerate(loss.steps["step"])}
    frame = frame.sort_values(["step", "case_id"], key=lambda values: _placed(values, order), kind="stable")
    caption = f"{len(frame)} facts lost on the way to the model"
    return page(table(frame, caption, labels={"step": "lost", "text": "fact"}, linked=linked))


def _placed(values: "pd.Series[str]", order: dict[str, int]) -> "pd.Series[int] | pd.Series[str]":
    return values.map(order) if values.name == "step" else values


def _verdict(loss: EvidenceLoss) -> Markup:
    steps = loss.steps
    last = steps.iloc[-1]
    if not last["n_facts"]:
        return banner("warning", "No case has facts, so nothing can be followed to the model.")
    title = (
        f"{last['facts']} of {last['n_facts']} required facts reach the model; "
        f"{last['complete']} of {last['n_cases']} questions have all of theirs."
    )
    words = loss.contexts["words"]
    size = f"A context has {words.mean():.0f} words on average, {words.max()} at most."
    if not steps["lost"].any():
        return banner("good", title, "No step loses a fact.", size)
    worst = steps.iloc[int(steps["lost"].to_numpy().argmax())]
    return banner("note", title, f"Most are lost at the step “{worst['step']}”: {worst['lost']}.", size)


def _steps(loss: EvidenceLoss) -> Markup:
    frame = loss.steps[["step", "facts", "lost", "share", "n_facts", "complete", "n_cases"]]
    labels = {
        "facts": "facts left",
        "lost": "lost at this step",
        "share": "share left",
        "n_facts": "of facts",
        "complete": "questions with all facts",
        "n_cases": "of questions",
    }
    formats = {"complete": lambda value: number(value, 0)}
    caption = "Required facts from the corpus to the model"
    return table(frame, caption, labels=labels, formats=formats, bars=("share",))
