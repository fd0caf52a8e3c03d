"""Where evidence is lost on its way from the corpus to the text that a model is given."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd

from evalkit.context import Context, Options, Passage, steps
from evalkit.dataset import Case
from evalkit.errors import InputError
from evalkit.wording import fold

ELIGIBLE = "eligible"


@dataclass(frozen=True)
class EvidenceLoss:
    """Which facts are still there after each step from the corpus to the model.

    Attributes
    ----------
    steps
        One row a step: ``step, facts`` (still there), ``lost`` (at this step), ``share`` (of all facts), ``complete``
        (cases with all facts still there), ``n_cases`` (cases with facts), ``n_facts``.
    lost
        One row a lost fact: ``case_id, fact, text, step`` (where it was lost), ``quote`` (the first that the labels
        list), sorted by case and fact.
    contexts
        One row a case with facts: ``case_id, category, words`` (of the context), ``passages, facts, present,
        coverage, complete`` of what reaches the model.
    """

    steps: pd.DataFrame
    lost: pd.DataFrame
    contexts: pd.DataFrame


def evidence_loss(
    ranking: pd.DataFrame,
    facts: pd.DataFrame,
    cases: Iterable[Case],
    k: int,
    threshold: float | None = None,
    **options: Unpack[Options],
) -> EvidenceLoss:
    """Follow every required fact from the corpus to the text that the model is given.

    A fact is present after a step when a passage of that step holds one of its quotes, white space folded. A fact
    is lost at the first step from which on it is never present again: one that joining neighbours restores is not
    lost. Steps that are off are left out.

    Parameters
    ----------
    ranking
        One row a question and rank, without a threshold: ``case_id, rank, document_id, chunk_id, score, text``, such
        as the ``deep`` table of a run.
    facts
        ``case_id, fact, text, lost``, such as the ``facts`` table of a run; repeated rows count once.
    cases
        The labelled cases, for their quotes.
    k
        Chunks of each ranking that are used, at least 1.
    threshold
        Chunks must score above it, both as float32 (as the engine compares); None is off.
    **options
        As in `assemble`.

    Returns
    -------
    EvidenceLoss
        Without a fact, ``lost`` and ``contexts`` are empty and the shares null.

    Raises
    ------
    InputError
        As `assemble`, with the case; a `k` below 1; facts that differ from those of `cases`.
    """
    if k < 1:
        raise InputError(f"k: the number of chunks used must be at least 1, found {k}")
    columns = ["case_id", "fact", "text", "lost"]
    known = facts[columns].drop_duplicates(["case_id", "fact"]).sort_values(columns[:2], ignore_index=True)
    labelled = _evidence(known, cases)
    empty = ranking.iloc[:0]
    rankings = dict(list(ranking[ranking["rank"] <= k].sort_values("rank").groupby("case_id")))
    held = [np.empty((0, 1 + len(steps(empty, k, threshold, options))), dtype=bool)]
    contexts = []
    for case_id, rows in known.groupby("case_id"):
        try:
            passed = steps(rankings.get(case_id, empty), k, threshold, options)
        except InputError as error:
            raise InputError(f"case {case_id}: {error}") from None
        case = labelled[str(case_id)]
        present = [_present(case, rows["fact"], passages) for passages in passed.values()]
        held.append(np.column_stack([~rows["lost"], *present]))
        context = Context(next(reversed(passed.values())))
        contexts.append((case_id, case.category, context.words, len(context.passages)))
    names = [ELIGIBLE, *steps(empty, k, threshold, options)]
    # Present up to its last present step: what comes back later was not lost before.
    presence = pd.DataFrame(np.vstack(held)[:, ::-1], columns=names[::-1]).cummax(axis=1)[names]
    return EvidenceLoss(
        _step_table(known, presence),
        _lost_table(known, presence, labelled),
        _context_table(known, presence, contexts),
    )


def _evidence(known: pd.DataFrame, cases: Iterable[Case]) -> dict[str, Case]:
    labelled = {case.id: case for case in cases}
    listed = {
        (case.id, fact, entry.fact) for case in labelled.values() for fact, entry in enumerate(case.evidence)
    }
    found = set(known[["case_id", "fact", "text"]].itertuples(index=False, name=None))
    if changed := sorted({case_id for case_id, _, _ in found - listed}):
        raise InputError(f"cases {changed}: their facts are not those that were evaluated; evaluate again")
    return labelled


def _present(case: Case, facts: Iterable[int], passages: Sequence[Passage]) -> list[bool]:
    texts = [fold(passage.text) for passage in passages]
    return [
        any(fold(quote.quote) in text for quote in case.evidence[fact].quotes for text in texts)
        for fact in facts
    ]


def _step_table(known: pd.DataFrame, presence: pd.DataFrame) -> pd.DataFrame:
    whole = presence.groupby(known["case_id"]).all()
    facts = presence.sum().to_numpy(dtype="int64")
    return pd.DataFrame(
        {
            "step": pd.array(list(presence.columns), dtype="str"),
            "facts": facts,
            "lost": -np.diff(facts, prepend=len(known)),
            "share": facts / len(known) if len(known) else np.full(len(facts), np.nan),
            "complete": whole.sum().to_numpy(dtype="int64"),
            "n_cases": len(whole),
            "n_facts": len(known),
        }
    )


def _lost_table(known: pd.DataFrame, presence: pd.DataFrame, labelled: dict[str, Case]) -> pd.DataFrame:
    gone = ~presence.iloc[:, -1]
    lost = known.loc[gone, ["case_id", "fact", "text"]]
    first = presence[gone].to_numpy().argmin(axis=1) if gone.any() else np.empty(0, dtype=int)
    quotes = [labelled[case].evidence[fact].quotes[0].quote for case, fact, _ in lost.itertuples(index=False)]
    return lost.assign(
        step=pd.array(list(presence.columns[first]), dtype="str"), quote=pd.array(quotes, dtype="str")
    ).reset_index(drop=True)


def _context_table(
    known: pd.DataFrame, presence: pd.DataFrame, contexts: list[tuple[Any, ...]]
) -> pd.DataFrame:
    table = pd.DataFrame(contexts, columns=["case_id", "category", "words", "passages"])
    reached = presence.iloc[:, -1].groupby(known["case_id"])
    table["facts"], table["present"] = reached.size().to_numpy(), reached.sum().to_numpy()
    table["coverage"] = table["present"] / table["facts"]
    return table.assign(complete=(table["present"] == table["facts"]).astype("float64"))
