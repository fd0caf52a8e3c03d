"""What reaches the model: the steps at which required facts are lost, and each lost fact by name."""

from collections.abc import Collection

import pandas as pd
from IPython.display import HTML

from evalkit.views.markup import banner, page, render
from evalkit.views.tables import number, table
from evalkit.waterfall import EvidenceLoss

ROWS = 200


def loss_verdict(loss: EvidenceLoss) -> HTML:
    """Say how many required facts reach the model, and which step loses most."""
    steps = loss.steps
    last = steps.iloc[-1]
    if not last["n_facts"]:
        return page(banner("warning", "No case has facts, so nothing can be followed to the model."))
    title = (
        f"{last['facts']} of {last['n_facts']} required facts reach the model; "
        f"{last['complete']} of {last['n_cases']} questions have all of theirs."
    )
    if not steps["lost"].any():
        return page(banner("good", title, "No step loses a fact."))
    worst = steps.iloc[int(steps["lost"].to_numpy().argmax())]
    words = loss.contexts["words"]
    detail = f"Most are lost at the step “{worst['step']}”: {worst['lost']}."
    size = f"A context has {words.mean():.0f} words on average, {words.max()} at most."
    return page(banner("note", title, detail, size))


def loss_steps(loss: EvidenceLoss) -> HTML:
    """Show the facts left and lost at every step that is on."""
    frame = loss.steps[["step", "facts", "lost", "share", "n_facts", "complete", "n_cases"]]
    labels = {
        "facts": "facts left",
        "lost": "lost at this step",
        "share": "share left",
        "n_facts": "of facts",
        "complete": "questions with all facts",
        "n_cases": "of questions",
    }
    return page(
        table(
            frame, "Required facts from the corpus to the model", labels=labels, bars=("share",),
            formats={"complete": lambda value: number(value, 0)},
        )
    )  # fmt: skip


def lost_on_the_way(loss: EvidenceLoss, linked: Collection[str] = ()) -> HTML:
    """Name every lost fact with the step that lost it and a quote that would have proved it."""
    frame = loss.lost[["case_id", "step", "text", "quote"]]
    order = {step: place for place, step in enumerate(loss.steps["step"])}
    frame = frame.sort_values(["step", "case_id"], key=lambda values: _placed(values, order), kind="stable")
    caption = f"{len(frame)} facts lost on the way to the model"
    parts = [table(frame[:ROWS], caption, labels={"step": "lost", "text": "fact"}, linked=linked)]
    if len(frame) > ROWS:
        parts.append(render("<p>{{ n }} further facts are not shown.</p>", n=len(frame) - ROWS))
    return page(*parts)


def _placed(values: "pd.Series[str]", order: dict[str, int]) -> "pd.Series[int] | pd.Series[str]":
    return values.map(order) if values.name == "step" else values
