"""Figures of acceptance: scores of both kinds of question, errors and evidence over the threshold, ROC, risk."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from evalkit.acceptance import auc
from evalkit.plots.style import (
    BLUE,
    FAINT,
    GREY,
    INK,
    METRIC_STYLES,
    ORANGE,
    PURPLE,
    RED,
    Drawn,
    new_figure,
    styled,
    unit_axis,
)
from evalkit.thresholds import Exploration

BINS = 40
_KINDS = ((True, "answerable", BLUE), (False, "unsupported", ORANGE))


@styled()
def score_distributions(exploration: Exploration) -> Drawn:
    """Draw the top scores of answerable and of unsupported questions above each other, with the threshold.

    Parameters
    ----------
    exploration
        What `thresholds.explore` gave.

    Returns
    -------
    Figure, str
        A histogram a kind on one score axis, with a tick for every question; questions without results are counted in
        the title.
    """
    questions = exploration.questions
    scores = questions["score"].dropna()
    figure, grid = new_figure(8.0, 4.4, 2, 1, sharex=True)
    low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.0, 1.0)
    margin = max(0.02, 0.04 * (high - low))
    edges = np.linspace(low - margin, high + margin, BINS + 1)
    texts = []
    for axes, (answerable, kind, color) in zip(grid[:, 0], _KINDS, strict=True):
        of_kind = questions.loc[questions["answerable"] == answerable, "score"]
        present = of_kind.dropna()
        counts, _, _ = axes.hist(present, bins=edges, color=color, alpha=0.75)
        axes.set_ylim(0, 1.2 * max(1.0, float(np.max(counts))))
        if len(present):  # an unclipped line without points has an endless box, which no layout can hold
            axes.plot(present, np.zeros(len(present)), "|", color=INK, markersize=9, clip_on=False)
        empty = f", {len(of_kind) - len(present)} without results" if len(present) < len(of_kind) else ""
        axes.set_title(f"{kind}, {exploration.choice.chosen_on} (n = {len(of_kind)}{empty})")
        axes.set_ylabel("questions")
        axes.yaxis.get_major_locator().set_params(integer=True)
        _mark_threshold(axes, exploration, label=answerable)
        texts.append(f"{len(of_kind)} {kind} questions{empty}" + _five_numbers(present))
    grid[1, 0].set_xlabel("top score of a question")
    shown = f"Histograms of top scores on {exploration.choice.chosen_on}. "
    return figure, shown + "; ".join(texts) + f". {_threshold_words(exploration)}"


@styled()
def errors_over_threshold(exploration: Exploration) -> Drawn:
    """Draw false acceptance and false rejection with their bands, and below them the evidence still covered.

    Parameters
    ----------
    exploration
        What `thresholds.explore` gave.

    Returns
    -------
    Figure, str
        Two panels on one threshold axis. Lines are stairs: a rate changes where the threshold reaches a score.
    """
    table = exploration.sweep
    figure, grid = new_figure(8.0, 6.4, 2, 1, sharex=True)
    errors, evidence = grid[:, 0]
    x = _stairs(table["threshold"])
    texts = []
    for rate, n, color, name in (
        ("false_acceptance", "n_unsupported", RED, "false acceptance"),
        ("false_rejection", "n_answerable", BLUE, "false rejection"),
    ):
        count = int(table[n].iloc[0])
        label = f"{name} (n = {count})"
        low, high, middle = (_closed(table[f"{rate}{end}"]) for end in ("_low", "_high", ""))
        errors.fill_between(x, low, high, step="post", color=color, alpha=0.16, linewidth=0)
        errors.step(
            x, middle, where="post", color=color, label=label, linestyle="-" if color == RED else "--"
        )
        chosen = getattr(exploration.chosen_at, rate)
        texts.append(f"{name} {chosen.counted} of {chosen.n} ({chosen.low:.2f} to {chosen.high:.2f})")
    for metric in ("coverage", "complete"):
        style = METRIC_STYLES[metric]
        line = "-" if metric == "coverage" else "--"
        evidence.step(
            x, _closed(table[metric]), where="post", color=style["color"], label=metric, linestyle=line
        )
    unit_axis(errors, "share of questions")
    unit_axis(evidence, "mean over cases")
    chosen_on = exploration.choice.chosen_on
    n_facts = exploration.chosen_at.n_facts
    errors.set_title(f"Errors on {chosen_on}, with 95 % Clopper-Pearson bands", pad=24)
    evidence.set_title(f"Required evidence above the threshold (n = {n_facts} with facts)", pad=24)
    evidence.set_xlabel("threshold: a question is accepted when its top score is above it")
    for axes in (errors, evidence):
        _mark_threshold(axes, exploration, label=axes is errors)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=2, borderaxespad=0.0)
    rates = exploration.chosen_at
    return figure, (
        f"Stair lines over all thresholds on {chosen_on}. {_threshold_words(exploration)} There: {'; '.join(texts)}; "
        f"coverage {_value(rates.coverage)}, complete {_value(rates.complete)} over {rates.n_facts} cases with facts."
    )


@styled()
def roc_and_risk(exploration: Exploration) -> Drawn:
    """Draw the ROC curve of the top score, and the risk among the accepted questions over their share.

    Parameters
    ----------
    exploration
        What `thresholds.explore` gave.

    Returns
    -------
    Figure, str
        Left: answerable accepted over unsupported accepted. Right: share of accepted questions without an answer, and
        share without an answer or with a required fact missing, over the share of questions accepted. The chosen
        threshold is marked in both.
    """
    table, questions = exploration.sweep, exploration.questions
    n_answerable, n_unsupported = int(table["n_answerable"].iloc[0]), int(table["n_unsupported"].iloc[0])
    figure, grid = new_figure(9.4, 4.4, 1, 2)
    roc, risk = grid[0]
    area = auc(questions)
    roc.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2)
    points = table[["false_acceptance", "false_rejection"]].dropna()
    roc.plot([1.0, *points["false_acceptance"]], [1.0, *(1 - points["false_rejection"])], color=PURPLE)
    named = "AUC: no value" if np.isnan(area) else f"AUC {area:.3f}"
    chosen_on = exploration.choice.chosen_on
    roc.set_title(
        f"ROC on {chosen_on}, {named}\n(n = {n_answerable} answerable, {n_unsupported} unsupported)"
    )
    unit_axis(roc, "unsupported accepted", axis="x")
    unit_axis(roc, "answerable accepted")
    for column, color, line, name in (
        ("risk_incomplete", RED, "-", "no answer, or a fact missing"),
        ("risk_unsupported", ORANGE, "--", "no answer"),
    ):
        kept = table[["answered", column]].dropna()
        risk.plot(kept["answered"], kept[column], color=color, linestyle=line, label=name)
    unit_axis(risk, "share of questions accepted", axis="x")
    unit_axis(risk, "risk among the accepted")
    risk.set_title(f"Risk over questions accepted, {chosen_on}\n(n = {len(questions)} questions)")
    risk.legend(loc="upper left")
    chosen = _row_of_choice(exploration)
    for axes, point in (
        (roc, (chosen["false_acceptance"], 1 - chosen["false_rejection"])),
        (risk, (chosen["answered"], chosen["risk_incomplete"])),
        (risk, (chosen["answered"], chosen["risk_unsupported"])),
    ):
        axes.plot(*point, marker="o", markersize=8, color=INK, zorder=5)
    return figure, (
        f"Left: ROC curve on {chosen_on}, {named}, {n_answerable} answerable and {n_unsupported} unsupported "
        "questions. Right: risk among accepted questions over the share accepted. At the chosen threshold "
        f"{_value(chosen['answered'])} of {len(questions)} questions are accepted; of these "
        f"{_value(chosen['risk_unsupported'])} have no answer and "
        f"{_value(chosen['risk_incomplete'])} have no answer or miss a required fact."
    )


def _row_of_choice(exploration: Exploration) -> "pd.Series[float]":
    table, threshold = exploration.sweep, exploration.choice.threshold
    reached = table["threshold"] <= (-np.inf if threshold is None else np.float32(threshold))
    return table[reached].iloc[-1]


def _stairs(thresholds: "pd.Series[float]") -> np.ndarray:
    """Places of the stairs, with the open ends drawn a little beyond the first and last score."""
    inner = thresholds.to_numpy()[1:]
    if not len(inner):
        return np.array([0.0, 1.0])
    margin = max(0.02, 0.05 * float(inner[-1] - inner[0]))
    return np.concatenate([[inner[0] - margin], inner, [inner[-1] + margin]])


def _closed(values: "pd.Series[float]") -> np.ndarray:
    """Values of the stairs, the last one repeated for the end of its step."""
    return np.append(values.to_numpy(), values.iloc[-1])


def _mark_threshold(axes: Axes, exploration: Exploration, *, label: bool) -> None:
    threshold = exploration.choice.threshold
    if threshold is None:
        return
    axes.axvline(threshold, color=INK, linewidth=1.4, linestyle=(0, (4, 3)))
    if label:
        axes.annotate(
            f"threshold {threshold:g}",
            (threshold, 1.0),
            (5, -3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            va="top",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": FAINT, "linewidth": 0.6, "pad": 2.0},
        )


def _threshold_words(exploration: Exploration) -> str:
    threshold = exploration.choice.threshold
    return "No threshold is chosen." if threshold is None else f"The chosen threshold is {threshold:g}."


def _five_numbers(scores: "pd.Series[float]") -> str:
    if scores.empty:
        return ""
    low, middle, high = scores.min(), scores.median(), scores.max()
    return f" from {low:.3f} to {high:.3f}, median {middle:.3f}"


def _value(value: float) -> str:
    return "without value" if np.isnan(value) else f"{value:.3f}"
