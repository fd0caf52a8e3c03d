"""Blind labelling: read pooled passages without rank or score, mark the sentences that answer, copy the YAML."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd
import yaml
from markupsafe import escape

from evalkit.chunking import sentences
from evalkit.dataset import Case, Dataset, Unsupported
from evalkit.errors import InputError
from evalkit.passages import occurrences
from evalkit.wording import fold

ui: Any = ipywidgets  # carries no types
SUPPORTS = "supports"
UNMARKED = ""
FIRST_FACTS = 3
_HELP = (
    "<p>Mark each sentence that states a fact of the answer with the number of that fact, and clear background with "
    "<em>supports</em>. A complete answer needs <strong>all</strong> facts; sentences marked with the same fact are "
    "alternatives, <strong>any</strong> of them is enough. Then say each fact in your own words and copy the YAML "
    "into the cases file.</p>"
)


@dataclass(frozen=True)
class Mark:
    """A marked sentence: ``mark`` is the number of a fact, from 1, or ``supports``."""

    document_id: str
    sentence: str
    mark: int | str


def blind(passages: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Shuffle passages and hide how they were found.

    Parameters
    ----------
    passages
        ``document_id, chunk_id, text`` and any others, one row a passage.
    seed
        Same seed and passages (whatever their order), same order.

    Returns
    -------
    DataFrame
        ``document_id, chunk_id, text`` alone.
    """
    known = passages[["document_id", "chunk_id", "text"]].drop_duplicates(["document_id", "chunk_id"])
    known = known.sort_values(["document_id", "chunk_id"], ignore_index=True)
    order = np.random.default_rng(seed).permutation(len(known))
    return known.iloc[order].reset_index(drop=True)


def label_yaml(
    question: Case | Unsupported, facts: Mapping[int, str], marks: Iterable[Mark], dataset: Dataset
) -> str:
    """Write marked sentences as anchored labels.

    Parameters
    ----------
    question
        The question that was judged.
    facts
        Number of a fact -> what it says. One that is empty stays open, so that the cases file is refused until it
        is filled in.
    marks
        Marked sentences; the same sentence of a document counts once for each mark.
    dataset
        For the documents, in which each quote must stand exactly once.

    Returns
    -------
    str
        One case for the cases file, with a comment for everything that is still to mend.
    """
    distinct = list(dict.fromkeys(marks))
    numbers = sorted({mark.mark for mark in distinct if isinstance(mark.mark, int)})
    evidence = [
        {
            "fact": fold(facts.get(number, "")) or None,
            "quotes": [_quote(m) for m in distinct if m.mark == number],
        }
        for number in numbers
    ]
    supporting = [_quote(mark) for mark in distinct if mark.mark == SUPPORTS]
    case: dict[str, Any] = {"id": question.id, "category": question.category}
    if question.split:
        case["split"] = question.split
    case["question"] = question.question
    if evidence:
        case["evidence"] = evidence
    if supporting:
        case["supporting"] = supporting
    remarks = _remarks(question, numbers, facts, distinct, dataset)
    text = yaml.safe_dump([case], sort_keys=False, allow_unicode=True, width=110)
    return "".join(f"# {remark}\n" for remark in remarks) + text


class Labeller:
    """The tool in a notebook; show ``labeller.widget``, read ``labeller.yaml``. Nothing is written to any file.

    Parameters
    ----------
    dataset
        Data set with the questions and documents.
    passages
        Pooled passages: ``case_id, document_id, chunk_id, text`` and any others, as `pooling.Pool` holds them.
    seed
        For the order of the passages.

    Raises
    ------
    InputError
        No passage of any question of the data set.
    """

    def __init__(self, dataset: Dataset, passages: pd.DataFrame, seed: int = 0) -> None:
        pooled = set(passages["case_id"])
        self._questions = {question.id: question for question in dataset.questions if question.id in pooled}
        if not self._questions:
            raise InputError(
                f"no run has returned passages for a question of {dataset.name}; run `evalkit evaluate` on it first"
            )
        self._dataset = dataset
        self._titles = {document.document_id: document.title for document in dataset.documents}
        self._passages = passages
        self._seed = seed
        self._choices: list[tuple[str, str, Any]] = []
        self._question = ui.Dropdown(
            options=[(f"{name}: {question.question}", name) for name, question in self._questions.items()],
            description="Question",
            layout=ui.Layout(width="100%"),
        )
        self._facts = ui.VBox()
        self._sentences = ui.VBox()
        self._more = ui.Button(description="One more fact")
        self._output = ui.Textarea(description="YAML", rows=16, layout=ui.Layout(width="100%"))
        self._question.observe(self._ask, "value")
        self._more.on_click(self._add_fact)
        self.widget = ui.VBox(
            [self._question, ui.HTML(_HELP), self._sentences, self._facts, self._more, self._output]
        )
        self._ask()

    @property
    def yaml(self) -> str:
        """The labels marked so far, as YAML for the cases file."""
        return str(self._output.value)

    def _ask(self, _: object = None) -> None:
        """Show the passages of the chosen question, nothing marked."""
        name = self._question.value
        shown = blind(self._passages[self._passages["case_id"] == name], self._seed)
        self._choices = []
        self._facts.children = ()
        boxes: list[Any] = []
        for number, row in enumerate(shown.itertuples(), start=1):
            title = escape(self._titles.get(str(row.document_id), ""))
            boxes.append(ui.HTML(f"<h4>Passage {number} of {len(shown)}: {title}</h4>"))
            for sentence in sentences(str(row.text)):
                boxes.append(self._row(str(row.document_id), sentence))
        self._sentences.children = tuple(boxes)
        for _ in range(FIRST_FACTS):
            self._add_fact()

    def _row(self, document_id: str, sentence: str) -> Any:  # noqa: ANN401 - a widget
        choice = ui.Dropdown(options=[("–", UNMARKED)], layout=ui.Layout(width="7em", flex="0 0 auto"))
        choice.tooltip = sentence
        choice.observe(self._write, "value")
        self._choices.append((document_id, sentence, choice))
        return ui.HBox([choice, ui.HTML(f"<span>{escape(sentence)}</span>")])

    def _add_fact(self, _: object = None) -> None:
        number = len(self._facts.children) + 1
        box = ui.Text(
            description=f"Fact {number}",
            placeholder="what the marked sentences say, in one sentence",
            layout=ui.Layout(width="100%"),
        )
        box.observe(self._write, "value")
        self._facts.children = (*self._facts.children, box)
        options = [("–", UNMARKED), *((f"fact {n}", n) for n in range(1, number + 1)), (SUPPORTS, SUPPORTS)]
        for _document, _sentence, choice in self._choices:
            kept = choice.value
            choice.options = options
            choice.value = kept
        self._write()

    def _write(self, _: object = None) -> None:
        facts = {number: box.value for number, box in enumerate(self._facts.children, start=1)}
        marks = [
            Mark(document_id, sentence, choice.value)
            for document_id, sentence, choice in self._choices
            if choice.value != UNMARKED
        ]
        self._output.value = label_yaml(self._questions[self._question.value], facts, marks, self._dataset)


def _quote(mark: Mark) -> dict[str, str]:
    return {"document": mark.document_id, "quote": mark.sentence}


def _remarks(
    question: Case | Unsupported,
    numbers: Sequence[int],
    facts: Mapping[int, str],
    marks: Sequence[Mark],
    dataset: Dataset,
) -> list[str]:
    remarks = []
    if isinstance(question, Unsupported):
        remarks.append("a question that is now under `unsupported`: move it to `answerable`")
    if question.category is None:
        remarks.append("name the category")
    if not numbers:
        remarks.append("no sentence is marked as evidence yet")
    remarks += [f"fact {number}: say what it is" for number in numbers if not facts.get(number, "").strip()]
    bodies = {document.document_id: document.body for document in dataset.documents}
    for mark in marks:
        if occurrences(fold(bodies[mark.document_id]), mark.sentence) != 1:
            remarks.append(f"stands more than once in {mark.document_id}, quote more words: {mark.sentence}")
    return remarks
