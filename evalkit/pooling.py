"""Passages that runs returned, pooled over all runs of a data set: what is still to be judged, and grades merged."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from evalkit.casefile import add_labels
from evalkit.chunking import Chunk
from evalkit.datafiles import Mapping, read_yaml
from evalkit.dataset import Case, Dataset, PositionalLabel
from evalkit.errors import InputError, counted, refuse
from evalkit.fields import Id, Record, WholeNumber, checked, shown
from evalkit.files import write_whole
from evalkit.labels import Labels
from evalkit.passages import Passages
from evalkit.review import Labelled, load_labelled
from evalkit.runs import Run, list_runs, load_run
from evalkit.wording import fold

_PLACE = ["case_id", "document_id", "chunk_id"]
_COLUMNS = [
    "case_id", "question", "answerable", "document_id", "chunk_id", "seen", "best_rank", "grade", "text",
]  # fmt: skip
_HEAD = """\
# {n} to judge for {dataset}, those that most runs returned first.
# Fill in each grade: 2 answers the question, 1 supports an answer, 0 neither. Delete what you leave open.
# Then: evalkit labels merge {dataset} {file}
"""


@dataclass(frozen=True)
class Pool:
    """Pooled passages of a data set.

    Attributes
    ----------
    dataset
        What names the data set on a command line.
    passages
        One row a question and chunk that a run returned: ``case_id, question, answerable, document_id, chunk_id,
        seen`` (number of runs), ``best_rank`` (smallest in any run, from 1), ``grade`` (Int64; null: unjudged),
        ``text``. Those that most runs returned first, then by best rank and ids.
    notices
        What was left out, and why.
    """

    dataset: str
    passages: pd.DataFrame
    notices: tuple[str, ...]

    @property
    def to_judge(self) -> pd.DataFrame:
        """The rows of ``passages`` that are unjudged, for answerable questions."""
        return self.passages[self.passages["answerable"] & self.passages["grade"].isna()].reset_index(
            drop=True
        )


@dataclass(frozen=True)
class Merged:
    """What merging grades did: labels written, grades that were there already, and the file."""

    added: int
    known: int
    path: Path


class _Grade(Record):
    """One entry of a fragment."""

    case: Id
    document: Id
    chunk: Id
    grade: WholeNumber


def pool(dataset: str | Path, k: int | None = None, runs: Sequence[str] | None = None) -> Pool:
    """Gather the passages that the runs of a data set returned.

    Parameters
    ----------
    dataset
        Name under ``data/`` or path of a folder.
    k
        Ranks that are looked at, at least 1; None takes every scored rank of every run.
    runs
        Run ids; None takes all runs of the data set.

    Returns
    -------
    Pool
        Judged by the labels as they stand now, with the texts as they stand now. Rows of another chunking, of
        chunks that are gone and of questions that were changed are left out and counted in the notices.

    Raises
    ------
    InputError
        Faulty labels, an unknown run, a run of another data set, a `k` below 1.
    """
    if k is not None and k < 1:
        raise InputError(f"k: the ranks looked at must be at least 1, found {k}")
    labelled = load_labelled(dataset)
    name = labelled.dataset.name
    if runs is None:
        table = list_runs()
        chosen = [load_run(run_id) for run_id in table.loc[table["dataset"] == name, "run_id"]]
    else:
        chosen = [load_run(run_id) for run_id in runs]
    if foreign := [run.run_id for run in chosen if run.record.dataset.name != name]:
        raise InputError(f"runs {foreign} are not of data set {name!r}; name runs of it, or none to take all")
    return pool_runs(labelled, chosen, k)


def pool_runs(labelled: Labelled, runs: Sequence[Run], k: int | None = None) -> Pool:
    """Pool the passages of runs that are at hand; see `pool`."""
    dataset = labelled.dataset
    own = [run for run in runs if run.record.chunking == labelled.chunking]
    notices = [f"{counted(len(own), 'run')} of {dataset.name} pooled"]
    if others := len(runs) - len(own):
        notices.append(f"{counted(others, 'run')} left out, of another chunking than {labelled.chunking}")
    returned = _returned(own, k)
    known = returned.merge(_questions(dataset), on=["case_id", "question"])
    if changed := len(returned) - len(known):
        notices.append(f"{counted(changed, 'result')} left out, whose question is gone or was changed since")
    present = known.merge(_texts(dataset, labelled.chunks), on=_PLACE[1:])
    if gone := len(known) - len(present):
        notices.append(f"{counted(gone, 'result')} left out, whose chunk is gone or no longer eligible")
    pooled = present.groupby([*_PLACE, "question", "answerable", "text"], as_index=False).agg(
        seen=("run_id", "nunique"), best_rank=("rank", "min")
    )
    pooled = pooled.merge(labelled.labels.judgments.astype({"grade": "Int64"}), on=_PLACE, how="left")
    if dataset.judgments == "complete":
        pooled["grade"] = pooled["grade"].fillna(0).where(pooled["answerable"])
    order = pooled.sort_values(
        ["seen", "best_rank", *_PLACE], ascending=[False, *[True] * 4], ignore_index=True
    )
    return Pool(dataset.argument, order[_COLUMNS], tuple(notices))


def fragment(pool: Pool, file: Path | None = None) -> str:
    """Write the passages to judge as YAML with open grades.

    Parameters
    ----------
    pool
        Pooled passages.
    file
        Where the text will stand, for the command that merges it.

    Returns
    -------
    str
        A list of ``case, document, chunk, grade``, question and text as comments; an empty list (``[]``) when
        nothing is to judge.
    """
    rows = pool.to_judge
    name = "FILE" if file is None else shlex.quote(str(file))
    head = _HEAD.format(n=counted(len(rows), "passage"), dataset=pool.dataset, file=name)
    return head + ("\n".join(_fragment_entry(row) for row in rows.to_dict("records")) or "[]\n")


def merge(dataset: str | Path, filled: Path) -> Merged:
    """Write the grades of a filled fragment into the cases file of a data set.

    A case that has quotes gets its graded chunks listed beside the new ones, since both label forms must agree.

    Parameters
    ----------
    dataset
        Name under ``data/`` or path of a folder; its judgments are ``partial``.
    filled
        A file that `fragment` began and somebody filled in.

    Returns
    -------
    Merged
        How many labels were written. The file is untouched when all grades were known.

    Raises
    ------
    InputError
        All faults at once: not such a list, a grade left open or not 0, 1 or 2, an unknown case or chunk, a chunk
        graded twice, a grade that contradicts the labels. Nothing is written then.
    InfrastructureError
        The cases file cannot be written.
    """
    labelled = load_labelled(dataset)
    if labelled.dataset.judgments == "complete":
        raise InputError(
            f"data set {labelled.dataset.name!r}: judgments are complete, so that every chunk without a label has "
            f"grade 0; set `judgments: partial` in dataset.yaml to merge grades"
        )
    grades = _read_fragment(filled)
    additions, known = _additions(labelled, grades, filled)
    path = labelled.dataset.folder / labelled.dataset.cases_file
    if additions:
        text = path.read_bytes().decode("utf-8")
        write_whole(path, add_labels(text, additions, path.name))
    return Merged(len(grades) - known, known, path)


def _returned(runs: Sequence[Run], k: int | None) -> pd.DataFrame:
    """Rows of all runs: ``run_id, case_id, question, rank, document_id, chunk_id``."""
    columns = ["run_id", "question", "rank", *_PLACE]
    parts = []
    for run in runs:
        asked = run.questions[["case_id", "question"]].drop_duplicates()
        rows = run.rankings if k is None else run.rankings[run.rankings["rank"] <= k]
        parts.append(rows[["rank", *_PLACE]].merge(asked, on="case_id").assign(run_id=run.run_id))
    empty = pd.DataFrame(columns=columns).astype(
        {name: "int64" if name == "rank" else "str" for name in columns}
    )
    return pd.concat([part[columns] for part in parts]) if parts else empty


def _questions(dataset: Dataset) -> pd.DataFrame:
    asked = [(case.id, case.question, isinstance(case, Case)) for case in dataset.questions]
    table = pd.DataFrame(asked, columns=["case_id", "question", "answerable"])
    return table.astype({"case_id": "str", "question": "str", "answerable": "bool"})


def _texts(dataset: Dataset, chunks: Sequence[Chunk]) -> pd.DataFrame:
    rows = [(chunk.document_id, chunk.chunk_id, chunk.text) for chunk in chunks if dataset.is_eligible(chunk)]
    return pd.DataFrame(rows, columns=["document_id", "chunk_id", "text"]).astype("str")


def _fragment_entry(row: dict[Any, Any]) -> str:
    keys = {"case": row["case_id"], "document": row["document_id"], "chunk": row["chunk_id"]}
    entry = yaml.safe_dump([keys], sort_keys=False, allow_unicode=True, width=10**6)
    remarks = [
        f"Q: {row['question']}",
        *row["text"].split("\n\n"),
        f"returned by {counted(row['seen'], 'run')}, best rank {row['best_rank']}",
    ]
    return entry + "  grade:\n" + "".join(f"  # {_printable(remark)}\n" for remark in remarks)


def _printable(text: str) -> str:
    """Text on one line, without the characters that YAML forbids even in comments."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in fold(text))


def _read_fragment(path: Path) -> list[_Grade]:
    faults: list[str] = []
    content = read_yaml(path, faults)
    if not faults and (not isinstance(content, list) or not content):
        faults.append(
            f"{path}: wanted a list of entries with case, document, chunk and grade, found {shown(content)}; begin "
            "with `evalkit labels pool`"
        )
    grades = [_grade(entry, path, faults) for entry in content] if not faults else []
    if faults:
        refuse(f"grades in {path}", faults)
    return [grade for grade in grades if grade is not None]


def _grade(entry: object, path: Path, faults: list[str]) -> _Grade | None:
    if not isinstance(entry, Mapping):
        return checked(_Grade, entry, str(path), faults)
    place = f"{path}:{entry.line} ({entry.get('case')}, {entry.get('document')}, {entry.get('chunk')})"
    if "grade" in entry and entry["grade"] is None:
        faults.append(f"{place}: the grade is open; fill it in or delete the entry")
        return None
    return checked(_Grade, entry, place, faults)


def _additions(
    labelled: Labelled, grades: Sequence[_Grade], path: Path
) -> tuple[dict[str, list[PositionalLabel]], int]:
    """Labels to add by case, and the number of grades that the labels hold already."""
    passages = Passages(labelled.dataset, labelled.chunks)
    cases = {case.id: case for case in labelled.dataset.cases}
    existing = _grades(labelled.labels)
    additions: dict[str, list[PositionalLabel]] = {}
    seen: set[tuple[str, str, str]] = set()
    faults, known = [], 0
    for grade in grades:
        key = (grade.case, grade.document, grade.chunk)
        place = f"case {grade.case!r}, chunk {grade.chunk!r} of document {grade.document!r}"
        label = PositionalLabel(document=grade.document, chunk=grade.chunk, grade=grade.grade)
        if grade.case not in cases:
            faults.append(f"{place}: no answerable case has this id")
        elif fault := passages.chunk_fault(label):
            faults.append(f"{place}: {fault}")
        elif key in seen:
            faults.append(f"{place}: stands there twice; keep one entry")
        elif existing.get(key, grade.grade) != grade.grade:
            faults.append(
                f"{place}: grade {grade.grade}, but its labels give {existing[key]}; settle which one holds"
            )
        elif key in existing:
            known += 1
        else:
            additions.setdefault(grade.case, []).append(label)
        seen.add(key)
    if faults:
        refuse(f"grades in {path}", faults)
    return {
        case_id: _with_anchored(cases[case_id], labels, existing) for case_id, labels in additions.items()
    }, known


def _with_anchored(
    case: Case, labels: list[PositionalLabel], existing: dict[tuple[str, str, str], int]
) -> list[PositionalLabel]:
    listed = {(label.document, label.chunk) for label in case.relevant}
    anchored = [
        PositionalLabel(document=document, chunk=chunk, grade=grade)
        for (case_id, document, chunk), grade in existing.items()
        if case_id == case.id and (document, chunk) not in listed
    ]
    return anchored + labels


def _grades(labels: Labels) -> dict[tuple[str, str, str], int]:
    rows = labels.judgments[[*_PLACE, "grade"]].itertuples(index=False, name=None)
    return {(case_id, document_id, chunk_id): grade for case_id, document_id, chunk_id, grade in rows}
