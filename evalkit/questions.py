"""Questions with their labels as they stand in a cases file, checked one by one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from evalkit.datafiles import Mapping, parse_yaml, read_json_lines, read_text
from evalkit.fields import LISTED, Id, Model, Record, Split, Text, WholeNumber, checked, shown

PLACE = "dataset.yaml: cases"


class Quote(Record):
    """Verbatim text of one document."""

    document: Id
    quote: Text


class Fact(Record):
    """One fact that a complete answer needs; any of its quotes is enough."""

    fact: Text
    quotes: Annotated[tuple[Quote, ...], Field(min_length=1)]


class PositionalLabel(Record):
    """Grade of a chunk of the data set's own chunking version."""

    document: Id
    chunk: Id
    grade: WholeNumber = 2


class _Question(Record):
    id: Id
    split: Split | None = None
    question: Text


class Case(_Question):
    """An answerable question with its labels."""

    category: Text
    relevant: Annotated[tuple[PositionalLabel, ...], LISTED] = ()
    evidence: Annotated[tuple[Fact, ...], LISTED] = ()
    supporting: Annotated[tuple[Quote, ...], LISTED] = ()


class Unsupported(_Question):
    """A question that no eligible chunk answers."""

    category: Text | None = None


class _CasesFile(Record):
    """What a YAML cases file holds; its entries are checked one by one."""

    answerable: Annotated[tuple[Any, ...], LISTED] = ()
    unsupported: Annotated[tuple[Any, ...], LISTED] = ()


@dataclass(frozen=True)
class Remains:
    """What can be read of a question that has faults, so that its labels are checked in the same round.

    Attributes
    ----------
    place
        File, line and case, for messages.
    id, split, question
        Empty where they cannot be read.
    relevant, quotes
        The labels that can be read, each after its path within the case, such as ``evidence[0].quotes[1]``.
    """

    place: str
    id: str
    split: str
    question: str
    relevant: tuple[tuple[str, PositionalLabel], ...]
    quotes: tuple[tuple[str, Quote], ...]


class Questions(NamedTuple):
    """What a cases file holds; `remains` is empty unless it has faults."""

    cases: tuple[Case, ...]
    unsupported: tuple[Unsupported, ...]
    remains: tuple[Remains, ...]


def read_questions(folder: Path, name: str, faults: list[str]) -> Questions:
    """Read the cases file, whose form its ending tells.

    Parameters
    ----------
    folder
        Folder of the data set, resolved.
    name
        The cases file within it.
    faults
        Gets every fault of the file and of its questions.
    """
    known = len(faults)
    read = _json_questions if name.endswith(".jsonl") else _yaml_questions
    cases: list[Case] = []
    unsupported: list[Unsupported] = []
    remains: list[Remains] = []
    for answerable, place, value in read(folder, name, faults):
        name_given = value.get("id") if isinstance(value, dict) else None
        named = place if name_given is None else f"{place}: case {shown(name_given)}"
        if answerable and (case := checked(Case, value, named, faults)):
            cases.append(case)
        elif not answerable and (question := checked(Unsupported, value, named, faults)):
            unsupported.append(question)
        elif isinstance(value, dict):
            remains.append(_remains(value, named))
    if not cases and not unsupported and len(faults) == known:
        faults.append(f"{name}: no questions; list them under answerable and unsupported")
    return Questions(tuple(cases), tuple(unsupported), tuple(remains))


def _remains(value: dict[str, Any], place: str) -> Remains:
    quotes = [
        (f"evidence[{number}].{path}", quote)
        for number, fact in enumerate(_entries(value, "evidence"))
        if isinstance(fact, dict)
        for path, quote in _readable(Quote, fact, "quotes")
    ]
    return Remains(
        place=place,
        id=_text(value.get("id")),
        split=_text(value.get("split")),
        question=_text(value.get("question")),
        relevant=tuple(_readable(PositionalLabel, value, "relevant")),
        quotes=(*quotes, *_readable(Quote, value, "supporting")),
    )


def _readable(model: type[Model], value: dict[str, Any], name: str) -> Iterator[tuple[str, Model]]:
    for number, entry in enumerate(_entries(value, name)):
        if (record := checked(model, entry, "", [])) is not None:  # what is wrong with it is listed already
            yield f"{name}[{number}]", record


def _entries(value: dict[str, Any], name: str) -> list[Any]:
    entries = value.get(name)
    return entries if isinstance(entries, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _json_questions(folder: Path, name: str, faults: list[str]) -> Iterator[tuple[bool, str, Any]]:
    for place, value in read_json_lines(folder, name, PLACE, faults):
        answerable = value.pop("answerable", True)
        if isinstance(answerable, bool):
            yield answerable, place, value
        else:
            faults.append(f"{place}: answerable: wanted true or false, found {shown(answerable)}")


def _yaml_questions(folder: Path, name: str, faults: list[str]) -> Iterator[tuple[bool, str, Any]]:
    text = read_text(folder, name, PLACE, faults)
    if text is None:
        return
    known = len(faults)
    content = parse_yaml(text, name, faults)
    lists = checked(_CasesFile, content or {}, name, faults) if len(faults) == known else None
    if lists is None:
        return
    for answerable, values in ((True, lists.answerable), (False, lists.unsupported)):
        for value in values:
            place = f"{name}:{value.line}" if isinstance(value, Mapping) else name
            yield answerable, place, value
