"""What is to be judged over several runs, and grades merged into labels."""

import re
import shlex
from dataclasses import dataclass
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from evalkit import pooling
from evalkit.casefile import add_labels
from evalkit.cli import app
from evalkit.dataset import PositionalLabel, load_dataset
from evalkit.errors import InputError
from evalkit.pooling import fragment, merge, pool, pool_runs
from evalkit.review import load_labelled
from tests.datasets import OTHER, markdown, write_dataset

CASES = """\
# reviewed by two people
answerable:
  - id: one
    category: c
    question: First question?   # keep this remark
    relevant:
      - {document: a, chunk: body/p0, grade: 2}
  - id: two
    category: c
    question: Second question?
    evidence:
      - fact: Beta.
        quotes:
          - {document: b, quote: Beta stands}

unsupported:
  - {id: none, question: Nothing?}
"""


@pytest.fixture
def folder(tmp_path):
    documents = {
        "a": "Alpha stands\nhere.\n\nAlpha again.",
        "b": "Beta stands here.",
        "d.md": markdown("d", "A draft.", publication_state="draft"),
    }
    folder = write_dataset(tmp_path / "small", documents, [], chunking=OTHER, judgments="partial")
    (folder / "cases.yaml").write_text(CASES)
    return folder


def describe(folder, old, new):
    """Change a word of ``dataset.yaml``."""
    path = folder / "dataset.yaml"
    path.write_text(path.read_text().replace(old, new))


@dataclass
class RunOf:
    """What pooling reads of a run, made from (case, rank, document, chunk) rows."""

    run_id: str
    rows: tuple
    chunking: str = "paragraphs-v1"
    questions_of: tuple = (("one", "First question?"), ("two", "Second question?"), ("none", "Nothing?"))

    @property
    def record(self):
        return SimpleNamespace(chunking=self.chunking, dataset=SimpleNamespace(name="small"))

    @property
    def rankings(self):
        columns = ["case_id", "rank", "document_id", "chunk_id"]
        table = pd.DataFrame(self.rows, columns=columns)
        return table.astype({"case_id": "str", "rank": "int64", "document_id": "str", "chunk_id": "str"})

    @property
    def questions(self):
        return pd.DataFrame(self.questions_of, columns=["case_id", "question"]).astype("str")


RUNS = (
    RunOf("r1", (("one", 1, "a", "body/p0"), ("one", 2, "b", "body/p0"), ("two", 1, "a", "body/p0"))),
    RunOf("r2", (("one", 3, "b", "body/p0"), ("two", 2, "b", "body/p0"), ("none", 1, "a", "body/p1"))),
)


def rows(table):
    return list(
        table[["case_id", "document_id", "chunk_id", "seen", "best_rank"]].itertuples(index=False, name=None)
    )


def test_unjudged_passages_come_most_seen_first_with_question_and_text(folder):
    queue = pool_runs(load_labelled(folder), RUNS).to_judge
    assert rows(queue) == [("one", "b", "body/p0", 2, 2), ("two", "a", "body/p0", 1, 1)]
    assert queue.loc[0, "question"] == "First question?"
    assert queue.loc[0, "text"] == "Beta stands here."


def test_the_pool_itself_holds_judged_passages_and_unsupported_questions_too(folder):
    passages = pool_runs(load_labelled(folder), RUNS).passages.set_index(["case_id", "document_id"])
    assert passages.loc[("one", "a"), "grade"] == 2
    assert passages.loc[("two", "b"), "grade"] == 2
    assert pd.isna(passages.loc[("one", "b"), "grade"])
    assert not passages.loc[("none", "a"), "answerable"]


def test_only_the_first_k_are_pooled(folder):
    queue = pool_runs(load_labelled(folder), RUNS, k=1).to_judge
    assert rows(queue) == [("two", "a", "body/p0", 1, 1)]


def test_what_cannot_be_judged_is_left_out_and_counted(folder):
    gone = ("one", 1, "gone", "body/p0"), ("one", 2, "d", "body/p0")
    changed = ("old", 1, "a", "body/p0"), ("two", 1, "a", "body/p0")
    asked = ("one", "First question?"), ("old", "Old?"), ("two", "Another wording?")
    odd = RunOf("r3", (*gone, *changed), questions_of=asked)
    other = RunOf("r4", (("one", 1, "b", "body/p0"),), chunking="section-paragraphs-80w-overlap1-v1")
    found = pool_runs(load_labelled(folder), (odd, other))
    assert found.passages.empty
    assert found.notices == (
        "1 run of small pooled",
        "1 run left out, of another chunking than paragraphs-v1",
        "2 results left out, whose question is gone or was changed since",
        "2 results left out, whose chunk is gone or no longer eligible",
    )


def test_without_runs_nothing_is_to_judge(folder):
    found = pool(folder)
    assert found.passages.empty
    assert yaml.safe_load(fragment(found)) == []


def test_complete_judgments_leave_nothing_to_judge(folder):
    describe(folder, "partial", "complete")
    found = pool_runs(load_labelled(folder), RUNS)
    assert found.to_judge.empty
    assert found.passages.set_index(["case_id", "document_id"]).loc[("one", "b"), "grade"] == 0


@pytest.mark.parametrize("place", ["small", "my data"])
def test_the_command_that_merges_works_as_it_stands_in_the_file(folder, tmp_path, place, monkeypatch):
    folder = folder.rename(tmp_path / place)
    monkeypatch.setattr(pooling, "pool", lambda dataset, _: pool_runs(load_labelled(dataset), RUNS))
    file = tmp_path / "to judge.yaml"
    said = CliRunner().invoke(app, ["labels", "pool", str(folder), "--out", str(file)]).stdout
    text = file.read_text()
    command = re.search(r"^# Then: evalkit (.*)$", text, re.MULTILINE)[1]
    assert said == f"2 passages to judge in {file}; fill in the grades, then `evalkit {command}`\n"
    file.write_text(text.replace("grade:\n", "grade: 1\n"))
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.output == f"2 grades written to {folder}/cases.yaml, 0 known already\n"


def test_a_real_run_is_pooled_by_name(example_runs):
    found = pool("worker-runbooks", k=1)
    assert found.notices == ("1 run of worker-runbooks pooled",)
    assert set(found.passages["best_rank"]) == {1}
    assert len(found.passages) == 9
    with pytest.raises(InputError, match="are not of data set 'worker-runbooks'"):
        pool("worker-runbooks", runs=[example_runs["platform-runbooks"]])
    with pytest.raises(InputError, match="at least 1, found 0"):
        pool("worker-runbooks", k=0)


def filled(folder, grades):
    """The fragment of the two runs with grades filled in, in its order."""
    text = fragment(pool_runs(load_labelled(folder), RUNS))
    for grade in grades:
        text = text.replace("grade:\n", f"grade: {grade}\n", 1)
    path = folder.parent / "filled.yaml"
    path.write_text(text)
    return path


def test_filled_grades_are_merged_and_everything_else_stays(folder):
    report = merge(folder, filled(folder, [1, 0]))
    assert (report.added, report.known) == (2, 0)
    text = (folder / "cases.yaml").read_text()
    assert text == CASES.replace(
        "      - {document: a, chunk: body/p0, grade: 2}\n",
        "      - {document: a, chunk: body/p0, grade: 2}\n      - {document: b, chunk: body/p0, grade: 1}\n",
    ).replace(
        "          - {document: b, quote: Beta stands}\n",
        "          - {document: b, quote: Beta stands}\n"
        "    relevant:\n"
        "      - {document: b, chunk: body/p0, grade: 2}\n"
        "      - {document: a, chunk: body/p0, grade: 0}\n",
    )
    assert pool_runs(load_labelled(folder), RUNS).to_judge.empty


def test_merging_twice_changes_nothing(folder):
    path = filled(folder, [1, 0])
    merge(folder, path)
    before = (folder / "cases.yaml").read_bytes()
    assert merge(folder, path).known == 2
    assert (folder / "cases.yaml").read_bytes() == before


ENTRY = "- {case: one, document: b, chunk: body/p0, grade: 1}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{grade: 1}", "wanted a list of entries"),
        ("[]", "wanted a list of entries"),
        ("- [unclosed", r"fragment\.yaml:\d+: not usable YAML"),
        ("- just text", "entry: .*found 'just text'"),
        (
            "- {case: one, document: b, chunk: body/p0}",
            r"fragment.yaml:1 \(one, b, body/p0\): grade is missing",
        ),
        ("- {case: one, document: b, chunk: body/p0, grade: }", "the grade is open"),
        ("- {case: one, document: b, chunk: body/p0, grade: high}", "grade: .*found 'high'"),
        ("- {case: one, document: b, chunk: body/p0, grade: true}", "grade: .*found 'true'"),
        ("- {case: one, document: b, chunk: body/p0, grade: 1, note: x}", "unknown field note"),
        ("- {case: one, document: b, chunk: body/p0, grade: 3}", "grade 3"),
        ("- {case: none, document: b, chunk: body/p0, grade: 1}", "no answerable case has this id"),
        ("- {case: one, document: b, chunk: body/p9, grade: 1}", "'body/p9' does not exist"),
        ("- {case: one, document: d, chunk: body/p0, grade: 1}", "not eligible"),
        ("- {case: one, document: a, chunk: body/p0, grade: 0}", "grade 0, but its labels give 2"),
        ("- {case: two, document: b, chunk: body/p0, grade: 1}", "grade 1, but its labels give 2"),
        (ENTRY + ENTRY.replace("1}", "2}"), "stands there twice"),
    ],
)
def test_faulty_fragments_are_refused_and_nothing_is_written(folder, tmp_path, content, message):
    path = tmp_path / "fragment.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        merge(folder, path)
    assert (folder / "cases.yaml").read_text() == CASES


def test_all_faults_are_named_at_once(folder, tmp_path):
    path = tmp_path / "fragment.yaml"
    path.write_text(ENTRY.replace("one", "none") + ENTRY.replace("p0", "p9") + ENTRY)
    with pytest.raises(InputError, match=r"2 faults(.|\n)*case 'none'(.|\n)*'body/p9'"):
        merge(folder, path)


def test_grades_cannot_be_merged_where_judgments_are_complete(folder):
    path = filled(folder, [1, 0])
    describe(folder, "partial", "complete")
    with pytest.raises(InputError, match="set `judgments: partial`"):
        merge(folder, path)


def test_a_fragment_survives_texts_that_would_break_yaml(folder):
    (folder / "documents" / "a.md").write_text(
        markdown("a", "Alpha stands\nhere: - {x}.\n\nAlpha again # 'quoted' \u0007 \U0001f600")
    )
    text = fragment(pool_runs(load_labelled(folder), (RunOf("r", (("one", 1, "a", "body/p1"),)),)))
    assert yaml.safe_load(text) == [{"case": "one", "document": "a", "chunk": "body/p1", "grade": None}]
    assert "# Alpha again # 'quoted' \ufffd \U0001f600" in text


LABEL = PositionalLabel(document="x", chunk="s/p1", grade=0)


@pytest.mark.parametrize(
    "text",
    [
        "answerable: [{id: one, question: q}]",
        "answerable: [{id: one, relevant: []}]\n",
        "answerable:\n- id: one\n  relevant: [{document: a, chunk: c}]   # remark\n  question: q\n",
        "answerable:\n- id: one\n  relevant:\n  - document: a\n    chunk: c\n\n  # remark\n  question: q\n",
        "answerable:\n- id: one\n  question: q",
        "answerable:\n- id: one\n  question: |\n    long\n    text\n\n- id: other\n",
        "answerable:\r\n- id: one\r\n  question: q\r\n- id: other\r\n",
        "unsupported: []\nanswerable:\n  - question: >-\n      folded\n      text\n    id: one\n# the end\n",
    ],
)
def test_labels_are_added_to_yaml_of_any_layout(text):
    before, after = yaml.safe_load(text), yaml.safe_load(add_labels(text, {"one": [LABEL]}, "cases.yaml"))
    case = before["answerable"][0]
    case["relevant"] = [*case.get("relevant", []), {"document": "x", "chunk": "s/p1", "grade": 0}]
    assert after == before


def test_a_layout_that_cannot_be_extended_is_refused():
    text = "shared: &labels\n  - {document: a, chunk: c}\nanswerable:\n"
    text += "- {id: one, relevant: *labels}\n- {id: two, relevant: *labels}\n"
    with pytest.raises(InputError, match="does not allow labels to be added for one; write them by hand"):
        add_labels(text, {"one": [LABEL]}, "cases.yaml")


def test_labels_are_added_to_json_lines(folder):
    dataset = load_dataset(folder)
    lines = [case.model_dump_json(exclude_defaults=True) for case in dataset.cases]
    text = "\n".join([*lines, '{"id": "none", "question": "Nothing?", "answerable": false}']) + "\n"
    extended = add_labels(text, {"two": [LABEL]}, "cases.jsonl")
    assert extended.split("\n")[0] == lines[0]
    (folder / "cases.jsonl").write_text(extended)
    describe(folder, "cases.yaml", "cases.jsonl")
    assert load_dataset(folder).cases[1].relevant == (LABEL,)
