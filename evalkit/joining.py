"""How well rankings and judgments join: counts that are always reported, and a refusal when hardly anything does."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from evalkit.errors import InputError

_SHOWN = 5
# Fewer than this share of what could join is taken for ids that do not fit, not for a bad retriever.
_QUERY_SHARE = 0.05
_DOCUMENT_SHARE = 0.01


@dataclass(frozen=True)
class JoinReport:
    """What joined and what did not.

    Attributes
    ----------
    queries
        Scored queries: those with a relevant document.
    missing
        Scored queries without a ranking; they score 0.
    set_aside
        Queries whose judgments hold no relevant document; they are not scored.
    unknown
        Queries with a ranking and without any judgment; they are not scored.
    judgments
        Judged documents, counted once for each scored query.
    retrieved
        How many of them stand in the ranking of their query.
    never_retrieved
        Distinct judged documents that no ranking holds for a query that judges them.
    repeated
        Judgments beyond the first of the same document for the same query; the higher grade was taken.
    hints
        Ids that would join but for padding, case or a prefix.
    """

    queries: int
    missing: tuple[Any, ...]
    set_aside: tuple[Any, ...]
    unknown: tuple[Any, ...]
    judgments: int
    retrieved: int
    never_retrieved: int
    repeated: int
    hints: tuple[str, ...] = ()

    def summary(self) -> str:
        """Say in one sentence how much joined."""
        ranked = self.queries - len(self.missing)
        return (
            f"{ranked} of {self.queries} scored queries have a ranking; "
            f"{self.retrieved} of {self.judgments} judged documents stand in the ranking of their query"
        )

    def notices(self) -> tuple[str, ...]:
        """Say in words what a reader has to know beside the scores; empty when all joined."""
        counts = (
            (self.missing, "judged queries have no ranking and score 0"),
            (self.set_aside, "queries have no relevant document among their judgments and are set aside"),
            (self.unknown, "rankings belong to queries without judgments and are not scored"),
        )
        lines = [f"{len(ids)} {text}: {_some(ids)}" for ids, text in counts if ids]
        if self.never_retrieved:
            lines.append(
                f"{self.never_retrieved} judged documents stand in no ranking of a query that judges them"
            )
        if self.repeated:
            lines.append(
                f"{self.repeated} judgments repeat a document of their query; the higher grade counts"
            )
        return (*lines, *self.hints)

    def counts(self) -> dict[str, int]:
        """Give every count under its name."""
        return {
            "queries": self.queries,
            "queries_missing_in_run": len(self.missing),
            "queries_without_relevant": len(self.set_aside),
            "rankings_without_judgments": len(self.unknown),
            "judgments": self.judgments,
            "judgments_retrieved": self.retrieved,
            "judged_documents_never_retrieved": self.never_retrieved,
            "judgments_repeated": self.repeated,
        }


def query_hints(report: JoinReport) -> tuple[str, ...]:
    """Point out missing queries that have a ranking under a slightly different id."""
    return hints("query", report.missing, report.unknown)


def refuse_unjoined(
    report: JoinReport, reachable: int, rows: int, document_hints: Callable[[], Sequence[str]]
) -> None:
    """Refuse when hardly anything joins, since that looks like a bad score and is none.

    Parameters
    ----------
    report
        The counts.
    reachable
        Judged documents that rankings of this length could hold.
    rows
        Documents in the rankings of scored queries.
    document_hints
        Finds out whether document ids differ by a little; asked only when they hardly join.

    Raises
    ------
    InputError
        Under 5 % of the judged queries have a ranking; or the rankings hold under 1 % of the judged documents that
        they could hold, and are large enough for this to say something or the ids differ by a little.
    """
    ranked = report.queries - len(report.missing)
    if ranked <= _QUERY_SHARE * report.queries:
        raise InputError(
            f"hardly anything joins: {ranked} of {report.queries} judged queries have a ranking.\n"
            f"- ids of the judgments: {_some(report.missing)}\n- ids of the rankings: {_some(report.unknown)}"
            f"{_lines(report.hints)}\nmake the ids of both sides equal, or give the judgments of these queries alone"
        )
    if report.retrieved > _DOCUMENT_SHARE * reachable:
        return
    found = document_hints()
    telling = reachable >= 200 or (report.retrieved == 0 and reachable >= 20 and rows >= 100)
    if telling or (found and report.retrieved == 0):
        raise InputError(
            f"hardly anything joins: the rankings of {ranked} queries hold {report.retrieved} of the {reachable} "
            f"judged documents that they could hold{_lines(found)}\n"
            "make the document ids of both sides equal; if they are, the rankings were made over another corpus"
        )


def refuse_other_type(what: str, judged: Iterable[Any], ranked: Iterable[Any]) -> None:
    """Refuse ids that are numbers on one side and text on the other: equal to the eye, they never join."""
    left, right = next(iter(judged), None), next(iter(ranked), None)
    if left is None or right is None or _kind(left) == _kind(right):
        return
    raise InputError(
        f"{what} ids are {_kind(left)} in the judgments ({left!r}) and {_kind(right)} in the rankings ({right!r}); "
        "convert one side so that both have the same type"
    )


def hints(what: str, judged: Iterable[Any], ranked: Iterable[Any]) -> tuple[str, ...]:
    """Find ids that are equal but for case, padding, white space or a prefix.

    Parameters
    ----------
    what
        ``query`` or ``document``.
    judged, ranked
        Ids that one side has and the other has not.

    Returns
    -------
    tuple of str
        One sentence for the first difference that makes ids equal, with an example; empty when none does.
    """
    left, right = {str(one) for one in judged}, {str(one) for one in ranked}
    left, right = left - right, right - left  # a document that another query judges is the same one
    left_prefix, right_prefix = _prefix(left), _prefix(right)
    forms: tuple[tuple[str, Callable[[str, str], str]], ...] = (
        ("surrounding white space", lambda one, _: one.strip()),
        ("case", lambda one, _: one.casefold()),
        ("padding", lambda one, _: _unpadded(one)),
        ("a prefix", lambda one, prefix: one.removeprefix(prefix)),
        (
            "case, padding and a prefix",
            lambda one, prefix: _unpadded(one.removeprefix(prefix).strip().casefold()),
        ),
    )
    for name, form in forms:
        ours = {form(one, left_prefix): one for one in left}
        theirs = {form(one, right_prefix): one for one in right}
        common = sorted(ours.keys() & theirs.keys() - {""})
        if common:
            example = f"{ours[common[0]]!r} in the judgments, {theirs[common[0]]!r} in the rankings"
            return (f"{len(common)} {what} ids differ only by {name}: {example}",)
    return ()


def _unpadded(one: str) -> str:
    whole = re.sub(r"(?<=\d)\.0$", "", one)
    return re.sub(r"\d+", lambda digits: digits.group().lstrip("0") or "0", whole)


def _prefix(ids: Iterable[str]) -> str:
    ordered = sorted(ids)
    if not ordered:
        return ""
    pairs = zip(ordered[0], ordered[-1], strict=False)
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)).rstrip("0123456789")


def _kind(one: Any) -> str:  # noqa: ANN401
    if isinstance(one, str):
        return "text"
    try:
        one.__index__()
    except (AttributeError, TypeError):
        return type(one).__name__
    return "whole numbers"


def _some(ids: Sequence[Any]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return (", ".join(repr(one) for one in ids[:_SHOWN]) or "none") + more


def _lines(found: Sequence[str]) -> str:
    return "".join(f"\n- {line}" for line in found)
