"""What a run says at a glance: verdict, what was run, headline figures, checks, provenance."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
from IPython.display import HTML
from markupsafe import Markup

from evalkit.errors import counted
from evalkit.intervals import FEW, mean_interval
from evalkit.measures import METRIC_LABELS, TABLE_ORDER, means
from evalkit.records import RunRecord, accepted_when
from evalkit.runs import Run
from evalkit.views.cases import retention_notice, shown_cases, weakest_first
from evalkit.views.markup import banner, case_link, page, render
from evalkit.views.tables import count, key_values, number, table, yes_no

NAMED = 12


def verdict(run: Run) -> HTML:
    """Say in a sentence whether the evidence was found, and what limits that statement.

    Parameters
    ----------
    run
        A run.

    Returns
    -------
    HTML
        A banner on completeness at the largest K (recall, where no case has facts), and one for each limit: few
        cases, facts lost to chunking, checks that differ, texts that were not kept, the notices of the run.
    """
    limits = [banner("warning", limit) for limit in _limits(run)]
    return page(_completeness(run), *limits)


def what_was_run(run: Run) -> HTML:
    """Show data set, model, engine and search of a run in a table."""
    record, counts = run.record, run.record.counts
    rows: dict[str, object] = {
        "run": record.run_id,
        "data set": f"{record.dataset.name}, version {record.dataset.version}, judgments {record.dataset.judgments}",
        "questions": f"{counts.get('answerable', 0)} answerable, {counts.get('unsupported', 0)} unsupported",
        "documents and chunks": f"{counts.get('documents', 0)} documents, {counts.get('chunks', 0)} chunks, "
        f"{counts.get('eligible_chunks', 0)} of them eligible",
        "chunking": record.chunking,
        "model": f"{record.model.model} ({record.model.embedder}), profile {record.model.profile}, "
        f"{record.model.dimension} dimensions",
        "engine": f"Qdrant {record.store.kind} {record.store.version}, collection {record.store.collection}",
        "filter": "; ".join(
            f"{field}: {', '.join(allowed)}" for field, allowed in record.search.filter.items()
        ),
        "K": ", ".join(str(k) for k in record.search.ks),
        "questions accepted by": accepted_when(record.search.threshold),
        "search": _search(record),
        "started": f"{record.started:%Y-%m-%d %H:%M:%S} UTC, took "
        f"{(record.finished - record.started).total_seconds():.1f} s",
    }
    return page(key_values(rows, "What was run"))


def headline(run: Run) -> HTML:
    """Show the macro means at every K with their n, those at the largest K with intervals.

    Under partial judgments judged@K and the bound of precision stand beside them.
    """
    measures = [*TABLE_ORDER, *(["judged"] if "judged" in run.scores else [])]
    frame = means(run.scores, measures)
    if (frame["n"] == frame["n_facts"]).all():
        frame = frame.drop(columns="n_facts")
    if "judged" in frame:
        frame.insert(
            list(frame).index("judged"),
            "precision_at_most",
            frame["precision"] + _unjudged_share(run, frame["k"]),
        )
    return page(
        table(
            frame,
            f"Means over the answerable questions of {run.record.dataset.name}",
            labels={"precision_at_most": "precision at most (unjudged all relevant)"},
        ),
        _means_note(run),
        _with_intervals(run),
    )


def case_scores(run: Run) -> HTML:
    """Show the scores of every case at every K, the weakest first, linked to the evidence of `shown_cases`."""
    short = {
        "complete": "compl.",
        "coverage": "cov.",
        "recall": "R",
        "ndcg": "nDCG",
        "reciprocal_rank": "RR",
        "precision": "P",
        "judged": "judged",
    }
    measures = [name for name in short if name in run.scores]
    order = weakest_first(run.scores, run.cutoff())
    wide = _by_k(run.scores, run.record.search.ks, measures, order)
    categories = run.scores.drop_duplicates("case_id").set_index("case_id")["category"]
    wide["", "category"] = categories.reindex(order).to_numpy()
    shown = table(
        wide,
        f"Scores of each case (n = {len(order)}), weakest first: compl. complete, cov. coverage, R recall, "
        "RR reciprocal rank, P precision",
        labels=short,
        formats=dict.fromkeys(measures, lambda value: number(value, 2)),
        bars=(),
        dense=True,
        linked=shown_cases(run),
    )
    return page(shown)


def unsupported_questions(run: Run) -> HTML:
    """Show the unsupported questions: what came back for each at every K, and whether it was accepted."""
    asked = run.questions[~run.questions["answerable"]]
    if asked.empty:
        return page(
            render("<p>The data set has no unsupported questions, so nothing is known about refusing.</p>")
        )
    largest = asked[asked["k"] == run.cutoff()].sort_values(["top_score", "case_id"], ascending=[False, True])
    order = [str(case_id) for case_id in largest["case_id"]]
    rule = accepted_when(run.record.search.threshold)
    wide = _by_k(asked, run.record.search.ks, ["result_count", "top_score", "accepted"], order)
    wide.insert(1, ("", "question"), largest["question"].to_numpy())
    shown = table(
        wide,
        f"Unsupported questions (n = {len(order)}), highest score first; accepted by: {rule}",
        formats={"result_count": count, "top_score": lambda value: number(value, 4), "accepted": yes_no},
        bars=(),
        dense=True,
        linked=shown_cases(run),
    )
    return page(shown)


def verification(run: Run) -> HTML:
    """Show what was read back from the collection and compared before any question was asked."""
    compared = run.record.checks.verification
    frame = pd.DataFrame({"verified": list(compared), "number": list(compared.values())})
    return page(table(frame, "Verified in the collection: all equal to the data set"))


def checks(run: Run) -> HTML:
    """Show what was checked beside the scores: prefixes, ties at K, exact search."""
    # As objects: text columns of pandas would turn links into plain text.
    frame = pd.DataFrame(_check_rows(run), columns=["check", "outcome", "what it means"], dtype=object)
    return page(table(frame, "Checks"))


def provenance(run: Run) -> HTML:
    """Show what is needed to trace and repeat a run: hashes, code, versions, parameters, timings."""
    record = run.record
    code = "not in a git checkout" if record.code.revision is None else record.code.revision
    rows: dict[str, object] = {
        "run folder": f"runs/{record.run_id}",
        "corpus (SHA-256)": record.dataset.corpus_sha256,
        "cases (SHA-256)": record.dataset.cases_sha256,
        "labels (SHA-256)": record.dataset.labels_sha256,
        "model digest": record.model.digest,
        "embedding server": record.model.server_version,
        "code": code + (" with uncommitted changes" if record.code.dirty else ""),
        "Python": record.code.python,
        "packages": _pairs(record.code.packages),
        "parameters": _pairs(record.parameters),
        "counts": _pairs(record.counts),
        "seconds a stage": _pairs(record.timings),
        "evidence kept": record.retention,
        **{f"model: {name}": note for name, note in record.model.notes.items()},
        **{f"collection: {name}": value for name, value in record.store.details.items()},
    }
    return page(key_values(rows, "Provenance"))


def _search(record: RunRecord) -> str:
    if record.store.kind == "file":
        return "not known here"
    ef = "" if record.search.hnsw_ef is None else f", hnsw_ef {record.search.hnsw_ef}"
    if record.search.exact:
        return f"exact{ef}"
    if record.checks.exact_search.get("approximate_index") is False:
        return f"exact, as the collection has no approximate index{ef}"
    return f"approximate (HNSW){ef}"


def _completeness(run: Run) -> Markup:
    k = run.cutoff()
    at_k = run.scores[run.scores["k"] == k]
    with_facts = at_k[at_k["complete"].notna()]
    if at_k.empty:
        return banner("warning", "No answerable question was asked, so there is no score.")
    measure, judged, needed = ("complete", with_facts, "required facts")
    if with_facts.empty:
        measure, judged, needed = ("recall", at_k, "relevant passages")
    n, weak = len(judged), judged[judged[measure] < 1]
    title = f"{len(weak)} of {n} questions lack some of their {needed} in the first {k} results"
    if weak.empty:
        title = f"All {n} questions have all their {needed} in the first {k} results"
    found = mean_interval(judged[measure])
    title += f": {measure} {number(found.mean)}, n = {n}."
    counted = f"{n - len(weak)} of {n}" if found.method == "exact" else f"mean {number(found.mean)}"
    texts: list[Markup | str] = [
        f"{measure.capitalize()}: {counted}, 95 % interval {number(found.low)} to {number(found.high)}."
    ]
    if len(weak):
        order = [case_id for case_id in weakest_first(run.scores, k) if case_id in set(weak["case_id"])]
        texts.append(_named("Weakest first:", order, shown_cases(run)))
    if len(with_facts) and len(with_facts) < len(at_k):
        texts.append(f"Questions without labelled facts, judged by recall: {len(at_k) - len(with_facts)}.")
    asked = run.questions[(run.questions["k"] == k) & ~run.questions["answerable"]]
    if len(asked):
        texts.append(
            f"{int(asked['accepted'].sum())} of {len(asked)} unsupported questions got results all the same."
        )
    return banner("good" if not len(weak) else "warning", title, *texts)


def _limits(run: Run) -> list[str]:
    record, n = run.record, run.scores["case_id"].nunique()
    limits = list(record.notices)
    if 0 < n < FEW:
        limits.append(
            f"Only {counted(n, 'answerable question')}: these figures describe them, not questions in general."
        )
    if lost := record.counts.get("facts_lost_to_chunking", 0):
        limits.append(f"Facts lost to chunking, as no chunk holds one of their quotes whole: {lost}.")
    if differing := len(record.checks.prefix.get("differing", ())):
        limits.append(f"Rankings that are no prefix of the one at the next larger K: {differing}.")
    if differing := len(record.checks.exact_search.get("differing", ())):
        limits.append(f"Rankings that differ from those of exact search: {differing}.")
    if tied := len({case_id for cases in record.checks.ties.values() for case_id in cases}):
        limits.append(
            f"For {counted(tied, 'question')} equal scores cross a K, so the engine's choice decides the score."
        )
    if notice := retention_notice(record.retention):
        limits.append(notice)
    return limits


def _check_rows(run: Run) -> list[tuple[str, Markup | str, str]]:
    found, linked = run.record.checks, shown_cases(run)
    rows: list[tuple[str, Markup | str, str]] = []
    if found.prefix:
        cases = [str(entry["case_id"]) for entry in found.prefix.get("differing", ())]
        rows.append(
            (
                "prefixes",
                _differing(cases, found.prefix.get("pairs", 0), linked),
                "the results at a smaller K start those at the next larger one, up to equal scores",
            )
        )
    for k, cases in found.ties.items():
        outcome = _named("crossed for", cases, linked) if cases else "none"
        rows.append(
            (f"ties across K = {k}", outcome, "equal scores at rank K and K + 1: which one counts is chance")
        )
    if exact := found.exact_search:
        outcome = _differing(exact.get("differing", []), exact.get("compared", 0), linked)
        recall = f"recall of the returned chunks against exact search: {number(exact.get('recall'))}"
        if exact.get("approximate_index") is False:
            recall += "; the collection has no approximate index, so every search is exact"
        rows.append(("exact search", outcome, recall))
    elif run.record.search.exact:
        rows.append(("exact search", "this run is exact", "there is nothing approximate to compare"))
    return rows


def _by_k(
    scores: pd.DataFrame, ks: Sequence[int], columns: Sequence[str], order: Sequence[str]
) -> pd.DataFrame:
    """Lay the columns of each K side by side, a row a case in the given order, under two levels of headers."""
    pivot = scores.pivot(index="case_id", columns="k", values=list(columns)).reindex(list(order))
    names = [(name, k) for k in ks for name in columns]
    wide = pivot.reindex(columns=pd.MultiIndex.from_tuples(names)).set_axis(
        pd.MultiIndex.from_tuples([(f"K = {k}", name) for name, k in names]), axis=1
    )
    wide.insert(0, ("", "case_id"), wide.index)
    return wide.infer_objects()


def _differing(cases: list[str], compared: int, linked: Iterable[str]) -> Markup | str:
    if not cases:
        return f"all {compared:,} equal"
    return _named(f"{len(cases)} of {compared:,} differ:", cases, linked)


def _named(lead: str, cases: list[str], linked: Iterable[str]) -> Markup:
    known = set(linked)
    names = Markup(", ").join(case_link(case_id, known) for case_id in cases[:NAMED])
    more = f" and {len(cases) - NAMED} more" if len(cases) > NAMED else ""
    return render("{{ lead }} {{ names }}{{ more }}", lead=lead, names=names, more=more)


def _unjudged_share(run: Run, ks: "pd.Series[int]") -> "pd.Series[float]":
    """Mean share of K that unjudged results take: what precision could gain at most."""
    answerable = run.rankings[run.rankings["case_id"].isin(run.scores["case_id"])]
    unjudged = answerable["grade"].isna().groupby(answerable["k"]).sum().reindex(ks, fill_value=0).to_numpy()
    return pd.Series(unjudged / ks.to_numpy() / run.scores["case_id"].nunique(), index=ks.index)


def _means_note(run: Run) -> Markup:
    sentences = ["Zeros count; unsupported questions are outside."]
    if run.scores["coverage"].isna().any():
        sentences.append("Coverage and complete are means over the cases with labelled facts only.")
    return render("<p>{{ text }}</p>", text=" ".join(sentences))


def _with_intervals(run: Run) -> Markup:
    k = run.cutoff()
    found = [(name, mean_interval(run.scores.loc[run.scores["k"] == k, name])) for name in TABLE_ORDER]
    frame = pd.DataFrame(
        {
            "measure": [METRIC_LABELS[name] for name, _ in found],
            "mean": [interval.mean for _, interval in found],
            "interval": [f"{number(interval.low)} to {number(interval.high)}" for _, interval in found],
            "n": [interval.n for _, interval in found],
        }
    )
    shown = frame[frame["n"] > 0]
    return table(shown, f"Means at K = {k} with intervals", labels={"interval": "95 % interval"}, bars=())


def _pairs(values: Mapping[str, object]) -> str:
    return "; ".join(f"{name} {value}" for name, value in values.items())
