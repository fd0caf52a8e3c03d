"""Figure of the facts that are lost between the corpus and the model."""

import numpy as np
import pandas as pd

from evalkit.plots.style import BLUE, INK, RED, Drawn, new_figure, styled


@styled()
def evidence_waterfall(steps: pd.DataFrame) -> Drawn:
    """Draw how many required facts are left after each step.

    Parameters
    ----------
    steps
        A row a step: ``step, facts, lost, complete, n_cases, n_facts``, as `waterfall.evidence_loss` gives it.

    Returns
    -------
    Figure, str
        A bar a step from top to bottom, facts left in blue and those lost at the step hatched behind.
    """
    n = int(steps["n_facts"].max()) if len(steps) else 0
    figure, grid = new_figure(8.0, 0.55 * len(steps) + 1.4)
    axes = grid[0, 0]
    places = np.arange(len(steps))
    axes.barh(places, steps["facts"], color=BLUE, height=0.6)
    lossy = steps["lost"].to_numpy() > 0
    losses = steps[lossy]
    axes.barh(
        places[lossy],
        losses["lost"],
        left=losses["facts"],
        color="white",
        edgecolor=RED,
        hatch="////",
        height=0.6,
    )
    for place, row in zip(places, steps.to_dict("records"), strict=True):
        lost = f" (−{row['lost']})" if row["lost"] else ""
        axes.annotate(
            f"{row['facts']}{lost}",
            (row["facts"] + row["lost"], place),
            (5, 0),
            textcoords="offset points",
            va="center",
            color=INK,
        )
    axes.set_yticks(places, list(steps["step"]))
    axes.set_xlim(0, max(1, n) * 1.15)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("required facts still there; hatched: lost at this step")
    axes.set_title(f"Evidence from the corpus to the model (n = {n} facts)")
    texts = [
        f"{row['step']}: {row['facts']} left, {row['lost']} lost, {row['complete']} of {row['n_cases']} cases whole"
        for row in steps.to_dict("records")
    ]
    return figure, f"Bar chart of {n} required facts left after each step. " + "; ".join(texts) + "."
