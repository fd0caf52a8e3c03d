"""A slider over score thresholds: what each does to the questions that a choice may see."""

from typing import Any

import ipywidgets
import numpy as np
from markupsafe import Markup

from evalkit.acceptance import Proportion, Rates, rates_at
from evalkit.records import accepted_when
from evalkit.thresholds import Exploration
from evalkit.views.tables import number

ui: Any = ipywidgets  # carries no types
STEP = 0.001
_ROW = Markup("<tr><th scope='row'>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>")
_TABLE = Markup(
    "<table><caption>{caption}</caption><thead><tr><th scope='col'></th><th scope='col'>questions</th>"
    "<th scope='col'>rate</th><th scope='col'>95 % bounds</th></tr></thead><tbody>{rows}</tbody></table>"
)


def threshold_slider(exploration: Exploration) -> Any:  # noqa: ANN401 - a widget
    """Make a slider that shows error rates and evidence at the threshold it stands on.

    Parameters
    ----------
    exploration
        What `thresholds.explore` gave; held-out questions are not among what the slider shows.

    Returns
    -------
    ipywidgets.VBox
        A slider, at first on the chosen threshold, and a table under it that follows.
    """
    low, high = _range(exploration)
    chosen = exploration.choice.threshold
    slider = ui.FloatSlider(
        value=low if chosen is None else chosen,
        min=low,
        max=high,
        step=STEP,
        readout_format=".3f",
        description="threshold",
        continuous_update=True,
        layout=ui.Layout(width="100%", max_width="48rem"),
    )
    shown = ui.HTML(_described(exploration, slider.value))

    def follow(change: dict[str, Any]) -> None:
        shown.value = _described(exploration, change["new"])

    slider.observe(follow, "value")
    return ui.VBox([slider, shown])


def rates_as_html(rates: Rates, chosen_on: str) -> str:
    """Write rates as a small HTML table: a row an error with counts, rate and bounds, then the evidence."""
    rows = Markup("").join(
        [
            _proportion("unsupported questions accepted", rates.false_acceptance),
            _proportion("answerable questions rejected", rates.false_rejection),
            _ROW.format("coverage above the threshold", f"n = {rates.n_facts}", number(rates.coverage), ""),
            _ROW.format("complete above the threshold", f"n = {rates.n_facts}", number(rates.complete), ""),
        ]
    )
    return str(_TABLE.format(caption=f"{accepted_when(rates.threshold)}, on {chosen_on}", rows=rows))


def _range(exploration: Exploration) -> tuple[float, float]:
    scores = exploration.questions["score"].dropna()
    if scores.empty:
        return 0.0, 1.0
    return float(np.floor(scores.min() * 100) - 1) / 100, float(np.ceil(scores.max() * 100)) / 100


def _described(exploration: Exploration, threshold: float) -> str:
    rates = rates_at(exploration.questions, exploration.evidence, round(threshold, 3))
    return rates_as_html(rates, exploration.choice.chosen_on)


def _proportion(name: str, found: Proportion) -> Markup:
    return _ROW.format(
        name, f"{found.counted} of {found.n}", number(found.rate), f"{found.low:.3f} to {found.high:.3f}"
    )
