"""The same facts under several chunking versions: what is found for the words of context that it costs."""

from collections.abc import Mapping, Sequence

import pandas as pd

from evalkit.context import count_words
from evalkit.dataset import load_dataset
from evalkit.errors import refuse
from evalkit.evaluation import Evaluation, evaluate
from evalkit.indexing import index
from evalkit.intervals import mean_interval
from evalkit.measures import EVIDENCE
from evalkit.settings import CollectionSettings, EvaluateSettings, IndexSettings
from evalkit.statistics import sign_flip_test
from evalkit.waterfall import evidence_loss

Evaluations = Mapping[str, Evaluation]
_CASE = ["chunking", "case_id", "category"]


def evaluate_chunkings(settings: EvaluateSettings, chunkings: Sequence[str]) -> dict[str, Evaluation]:
    """Index and evaluate a data set under each of several chunking versions.

    Parameters
    ----------
    settings
        What all versions share; without ``chunking`` and ``collection``, of which each version has its own.
    chunkings
        Names of at least two chunking versions, the one to compare with first.

    Returns
    -------
    dict
        Chunking -> evaluation, in the order given. No run is written.

    Raises
    ------
    InputError
        Fewer than two different versions, a collection or chunking in the settings, no full texts kept, and all
        that indexing and evaluating refuse.
    InfrastructureError
        As indexing and evaluating.
    """
    _refuse_unfit(settings, chunkings)
    shared = settings.model_dump(include=set(CollectionSettings.model_fields) - {"chunking"})
    evaluations = {}
    for chunking in chunkings:
        index(IndexSettings.checked(**shared, chunking=chunking))
        evaluations[chunking] = evaluate(settings.model_copy(update={"chunking": chunking}))
    return evaluations


def scores_with_words(evaluations: Evaluations) -> pd.DataFrame:
    """Join coverage and complete of each case and K with the words that its first K chunks hold.

    Returns
    -------
    DataFrame
        ``chunking, case_id, category, k, coverage, complete, words`` (int64; overlap counted as often as it is
        returned), cases with facts only, in the order of the chunkings, cases and K.
    """
    parts = []
    for chunking, evaluation in evaluations.items():
        ranked = evaluation.rankings
        words = ranked.assign(words=ranked["text"].map(count_words)).groupby(["case_id", "k"])["words"].sum()
        scores = evaluation.scores[evaluation.scores["coverage"].notna()]
        scores = scores.merge(words.reset_index(), on=["case_id", "k"], how="left")
        parts.append(scores.assign(chunking=chunking, words=scores["words"].fillna(0).astype("int64")))
    return pd.concat(parts, ignore_index=True)[[*_CASE, "k", *EVIDENCE, "words"]]


def summarise(evaluations: Evaluations) -> pd.DataFrame:
    """Average coverage and complete against the words of context spent.

    Returns
    -------
    DataFrame
        A row a chunking and K: ``chunking, k, words`` (mean), ``coverage, complete`` (means), ``n`` (cases with
        facts), ``facts, lost`` (facts that the chunking cuts at a border; missing at every K).
    """
    grouped = scores_with_words(evaluations).groupby(["chunking", "k"], sort=False)
    table = grouped[["words", *EVIDENCE]].mean()
    table["n"] = grouped.size()
    facts = _facts(evaluations).groupby("chunking")["lost"].agg(facts="size", lost="sum")
    return table.reset_index().merge(facts, on="chunking", how="left")


def lost_facts(evaluations: Evaluations) -> pd.DataFrame:
    """List the facts of which a chunking keeps no quote whole.

    Returns
    -------
    DataFrame
        ``chunking, case_id, fact, text, quote`` (the first of the fact); no rows when nothing is lost.
    """
    facts = _facts(evaluations)
    return facts[facts["lost"]].drop(columns="lost").reset_index(drop=True)


def at_equal_words(evaluations: Evaluations, dataset: str, budgets: Sequence[int]) -> pd.DataFrame:
    """Give every chunking the same words of context: its largest ranking, in order, cut after so many words.

    Parameters
    ----------
    evaluations
        By chunking.
    dataset
        Name or folder of the data set, for the quotes.
    budgets
        Words, each at least 1.

    Returns
    -------
    DataFrame
        A row a chunking, case with facts and budget: ``chunking, case_id, category, budget, words`` (at most the
        budget), ``coverage, complete`` of the text so cut, ``short`` (bool: K ended the ranking before the budget
        did, so that more could have been returned).
    """
    cases = load_dataset(dataset).cases
    parts = []
    for chunking, evaluation in evaluations.items():
        largest = max(evaluation.record.search.ks)
        ranking = evaluation.rankings[evaluation.rankings["k"] == largest]
        full = ranking["case_id"].value_counts() == largest
        for budget in budgets:
            contexts = evidence_loss(ranking, evaluation.facts, cases, largest, budget_words=budget).contexts
            short = (contexts["words"] < budget) & contexts["case_id"].map(full).fillna(False).astype("bool")
            parts.append(contexts.assign(chunking=chunking, budget=budget, short=short))
    return pd.concat(parts, ignore_index=True)[[*_CASE, "budget", "words", *EVIDENCE, "short"]]


def pair_at_equal_words(cases: pd.DataFrame) -> pd.DataFrame:
    """Compare each chunking with the first one, case by case, at equal words of context.

    Parameters
    ----------
    cases
        As `at_equal_words` gives it.

    Returns
    -------
    DataFrame
        A row a budget, further chunking and measure: ``budget, chunking, measure, baseline`` (mean of the first
        chunking), ``mean, difference, low, high`` (95 % interval of the paired difference), ``p`` (sign-flip
        test), ``better, worse`` (cases), ``short`` (cases whose ranking ended before the budget in either), ``n``.
    """
    baseline, *others = list(dict.fromkeys(cases["chunking"]))
    first = cases[cases["chunking"] == baseline]
    rows = []
    for chunking in others:
        both = cases[cases["chunking"] == chunking].merge(
            first, on=["case_id", "budget"], suffixes=("", "_first")
        )
        for budget, pairs in both.groupby("budget"):
            short = int((pairs["short"] | pairs["short_first"]).sum())
            for measure in EVIDENCE:
                differences = pairs[measure] - pairs[f"{measure}_first"]
                interval = mean_interval(differences, bounds=(-1, 1))
                rows.append(
                    {
                        "budget": budget,
                        "chunking": chunking,
                        "measure": measure,
                        "baseline": pairs[f"{measure}_first"].mean(),
                        "mean": pairs[measure].mean(),
                        "difference": interval.mean,
                        "low": interval.low,
                        "high": interval.high,
                        "p": sign_flip_test(differences).p,
                        "better": int((differences > 0).sum()),
                        "worse": int((differences < 0).sum()),
                        "short": short,
                        "n": interval.n,
                    }
                )
    return pd.DataFrame(rows).sort_values(["budget", "chunking"], kind="stable", ignore_index=True)


def changed_cases(cases: pd.DataFrame, budget: int) -> pd.DataFrame:
    """List the cases whose coverage differs between chunkings at one budget, largest difference first.

    Parameters
    ----------
    cases
        As `at_equal_words` gives it.
    budget
        One of its budgets.

    Returns
    -------
    DataFrame
        ``case_id, category``, a column a chunking with its coverage, ``difference`` (from the first chunking, of the
        one that differs most from it); no rows when all are equal.
    """
    names = list(dict.fromkeys(cases["chunking"]))
    wide = cases[cases["budget"] == budget].pivot_table(
        index=["case_id", "category"], columns="chunking", values="coverage", sort=False
    )[names]
    from_first = wide[names[1:]].sub(wide[names[0]], axis=0)
    above, below = from_first.max(axis=1), from_first.min(axis=1)
    wide = wide.assign(difference=above.where(above >= -below, below)).reset_index()
    wide.columns.name = None
    changed = wide[wide["difference"] != 0]
    order = changed.assign(size=-changed["difference"].abs()).sort_values(["size", "case_id"]).index
    return changed.loc[order].reset_index(drop=True)


def _facts(evaluations: Evaluations) -> pd.DataFrame:
    parts = [
        evaluation.facts[["case_id", "fact", "text", "quote", "lost"]]
        .drop_duplicates(["case_id", "fact"])
        .assign(chunking=chunking)
        for chunking, evaluation in evaluations.items()
    ]
    return pd.concat(parts, ignore_index=True)[["chunking", "case_id", "fact", "text", "quote", "lost"]]


def _refuse_unfit(settings: EvaluateSettings, chunkings: Sequence[str]) -> None:
    faults = []
    if len(set(chunkings)) != len(chunkings) or len(chunkings) < 2:
        faults.append(f"chunkings: wanted at least two different versions, found {list(chunkings)}")
    if settings.chunking is not None:
        faults.append(
            f"chunking: wanted None, since all of chunkings are evaluated, found {settings.chunking!r}"
        )
    if settings.collection is not None:
        faults.append(
            f"collection: wanted None, since each chunking has its own, found {settings.collection!r}"
        )
    if settings.retention != "full":
        faults.append(f"retention: wanted 'full' to count words, found {settings.retention!r}")
    if faults:
        refuse("settings", faults)
