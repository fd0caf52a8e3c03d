import json
import os
from pathlib import Path

import pytest
import yaml

from evalkit.chunking import chunk_documents
from evalkit.dataset import load_dataset
from evalkit.documents import read_documents
from evalkit.errors import InputError
from tests.datasets import OWN, RUNBOOK, case, fact, markdown, write_dataset

TEXT = "## A\nThe text of one."
ONE = {"one": TEXT}
CASES = [case("c1", evidence=[fact("one", "text of one")])]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "small", ONE, CASES)


def faults(folder: Path) -> str:
    with pytest.raises(InputError) as raised:
        load_dataset(folder)
    return str(raised.value)


def edit(folder: Path, **fields: object) -> None:
    path = folder / "dataset.yaml"
    described = yaml.safe_load(path.read_text()) | fields
    path.write_text(yaml.safe_dump({key: value for key, value in described.items() if value is not None}))


def to_json_lines(folder: Path) -> None:
    """Write the same data set as JSON Lines."""
    loaded = load_dataset(folder)
    rows = [document.model_dump(exclude={"source"}) for document in loaded.documents]
    (folder / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = [one.model_dump(mode="json") for one in loaded.cases]
    questions += [one.model_dump(mode="json") | {"answerable": False} for one in loaded.unsupported]
    (folder / "cases.jsonl").write_text("\n\n".join(json.dumps(row) for row in questions))
    edit(folder, documents="documents.jsonl", cases="cases.jsonl")


def test_the_example_data_sets():
    worker, platform = load_dataset("worker-runbooks"), load_dataset("platform-runbooks")
    assert (len(worker.documents), len(worker.cases), len(worker.unsupported)) == (7, 7, 2)
    assert (len(platform.documents), len(platform.cases), len(platform.unsupported)) == (36, 90, 42)
    chunks = list(chunk_documents(worker.documents, worker.chunking))
    assert (len(chunks), sum(map(worker.is_eligible, chunks))) == (11, 7)
    assert worker.eligibility == {"document_type": ("runbook",), "publication_state": ("published",)}
    assert (worker.version, worker.judgments, worker.cases_file) == ("1", "complete", "cases.yaml")
    assert worker.cases[0].relevant[0].grade == 2
    assert worker.documents[0].source == "documents/durable-work-queue.md"
    assert worker.documents[0].body.startswith("## ")


def test_documents_come_in_order_of_file_name(tmp_path):
    files = {
        "b.md": markdown("first", "x"),
        "a.md": markdown("second", "x"),
        "a-1.md": markdown("third", "x"),
    }
    loaded = load_dataset(write_dataset(tmp_path, files, CASES))
    assert [document.document_id for document in loaded.documents] == ["third", "second", "first"]


def test_json_lines_hold_the_same_data_set(tmp_path):
    unsupported = [{"id": "u1", "split": "held-out", "question": "What is not there?"}]
    documents = {"one": "## A\nThe text of one.", "two": "Ünï ☃"}
    folder = write_dataset(tmp_path, documents, CASES, unsupported)
    before = load_dataset(folder)
    to_json_lines(folder)
    after = load_dataset(folder)
    assert after.documents == tuple(
        document.model_copy(update={"source": f"documents.jsonl:{number}"})
        for number, document in enumerate(before.documents, start=1)
    )
    assert (after.cases, after.unsupported) == (before.cases, before.unsupported)
    assert after.corpus_sha256 == before.corpus_sha256
    assert after.cases_sha256 == before.cases_sha256
    assert after.labels_sha256 == before.labels_sha256


def test_hashes_do_not_depend_on_formatting_or_order(tmp_path):
    documents = {"one": "## A\nThe text of one.", "two": "Two."}
    cases = [*CASES, case("c2", evidence=[fact("two", "Two.")])]
    first = load_dataset(write_dataset(tmp_path / "1", documents, cases))
    second_folder = write_dataset(tmp_path / "2", documents, cases[::-1])
    path = second_folder / "documents" / "one.md"
    path.rename(path.with_name("z.md"))
    path = second_folder / "documents" / "two.md"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    second = load_dataset(second_folder)
    for name in ("corpus_sha256", "cases_sha256", "labels_sha256"):
        assert getattr(first, name) == getattr(second, name)
        assert len(getattr(first, name)) == 64


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda folder: write_dataset(folder, {"one": "## A\nOther text of one."}, CASES), "corpus"),
        (lambda folder: write_dataset(folder, {"one.md": markdown("one", TEXT, title="New")}, CASES), "corpus"),
        (lambda folder: write_dataset(folder, ONE, [CASES[0] | {"question": "Other?"}]), "cases"),
        (lambda folder: write_dataset(folder, ONE, [CASES[0] | {"split": "held-out"}]), "cases"),
        (lambda folder: write_dataset(folder, ONE, CASES, [{"id": "u", "question": "None?"}]), "cases"),
        (lambda folder: write_dataset(folder, ONE, [case("c1", evidence=[fact("one", "The text")])]), "labels"),
        (lambda folder: edit(folder, judgments="partial"), "labels"),
        (lambda folder: edit(folder, description="new", version=2), None),
    ],
)  # fmt: skip
def test_each_hash_tells_its_own_change(folder, change, differs):
    before = load_dataset(folder)
    change(folder)
    after = load_dataset(folder)
    names = ("corpus", "cases", "labels")
    changed = [
        name for name in names if getattr(before, f"{name}_sha256") != getattr(after, f"{name}_sha256")
    ]
    assert changed == ([differs] if differs else [])


def test_yaml_scalars_stay_text(folder):
    (folder / "dataset.yaml").write_text(
        "name: no\nversion: 1.10\ndocuments: documents/*.md\ncases: cases.yaml\n"
        f"chunking: {OWN}\njudgments: partial\n"
    )
    (folder / "cases.yaml").write_text(
        "answerable:\n- {id: 007, category: 2024-01-01, question: yes, supporting: , "
        "relevant: [{document: one, chunk: a/p0, grade: 1}]}\nunsupported:\n"
    )
    loaded = load_dataset(folder)
    assert (loaded.name, loaded.version, loaded.eligibility) == ("no", "1.10", {})
    assert loaded.cases[0].model_dump(include={"id", "category", "question"}) == {
        "id": "007",
        "category": "2024-01-01",
        "question": "yes",
    }
    assert loaded.cases[0].relevant[0].grade == 1


def test_eligibility_takes_a_value_or_a_list(folder):
    edit(folder, eligibility={"document_type": ["runbook", "note"]})
    loaded = load_dataset(folder)
    assert loaded.eligibility == {"document_type": ("runbook", "note")}
    assert loaded.is_eligible(loaded.documents[0])
    edit(folder, eligibility={"publication_state": "draft"})
    assert not load_dataset(folder).is_eligible(loaded.documents[0])


def test_every_fault_comes_in_one_error(tmp_path):
    documents = {
        "one": "## A\nText.",
        "copy.md": markdown("one", "Text."),
        "empty": "  \n ",
        "no-front.md": "# Hello\n",
        "broken.md": "---\ntitle: [\n---\ntext",
        "unknown.md": markdown("unknown", "Text.", titel="x", body="y"),
        "list.md": "---\n- a\n---\ntext",
    }
    answerable = [
        {"id": "c1", "question": "What?", "relevnt": []},
        case("c2", split="test"),
        case("c3", evidence=[{"fact": "F", "quotes": []}, {"fact": " ", "quotes": [{"document": "one"}]}]),
        case("c4", relevant=[{"document": "one", "chunk": "a/p0", "grade": "high"}]),
        "c5",
        case(" c6"),
    ]
    folder = write_dataset(tmp_path, documents, answerable, [{"id": "u1", "question": "", "relevant": []}])
    text = faults(folder)
    for part in (
        "documents/one.md: document_id 'one' stands in documents/copy.md already",
        "documents/empty.md: body: is empty; write text",
        "documents/no-front.md:1: no front matter",
        "documents/broken.md:3: not usable YAML",
        "documents/unknown.md: unknown field titel; did you mean title?",
        "documents/list.md: entry: should be a mapping of fields",
        "case 'c1': category is missing; add it",
        "case 'c1': unknown field relevnt; did you mean relevant?",
        "case 'c2': split: should be 'development' or 'held-out', found 'test'",
        "case 'c3': evidence[0].quotes: ",
        "case 'c3': evidence[1].fact: is empty",
        "case 'c3': evidence[1].quotes[0].quote is missing",
        "case 'c4': relevant[0].grade: should be a whole number",
        "cases.yaml: entry: should be a mapping of fields, found 'c5'",
        "case ' c6': id: an id has no control or invisible characters",
        "case 'u1': question: is empty",
        "case 'u1': unknown field relevant",
    ):
        assert part in text
    assert "pydantic" not in text
    assert f"{text.count(chr(10) + '- ')} faults" in text


def test_a_fault_in_a_yaml_case_names_its_line(folder):
    (folder / "cases.yaml").write_text("answerable:\n\n- id: c1\n  question: What?\n")
    assert "cases.yaml:3: case 'c1': category is missing" in faults(folder)


def test_front_matter_may_not_hold_the_body(tmp_path):
    text = faults(write_dataset(tmp_path, {"x.md": markdown("x", "Text.", body="y", source="z")}, CASES))
    assert "unknown field body" in text
    assert "unknown field source" in text


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"judgments": "some"}, "judgments: should be 'complete' or 'partial', found 'some'"),
        ({"judgments": None}, "judgments is missing; add it"),
        (
            {"eligibility": {"document_typ": "x"}},
            "unknown field eligibility.document_typ; did you mean document_type?",
        ),
        ({"eligibility": {"document_type": []}}, "eligibility.document_type"),
        ({"documents": "papers/*.md"}, "dataset.yaml: documents: 'papers/*.md' matches no file"),
        ({"documents": "documents"}, "'documents' is not a regular file"),
        ({"documents": "../*.md"}, "give a pattern within the data set's folder"),
        ({"documents": "/etc/*"}, "give a pattern within the data set's folder"),
        ({"documents": "**x/*.md"}, "dataset.yaml: documents: '**x/*.md'"),
        ({"documents": "."}, "dataset.yaml: documents"),
        ({"documents": "docs.jsonl"}, "'docs.jsonl' cannot be opened"),
        ({"documents": "a\0b"}, "documents: holds a null character"),
        ({"cases": "none.yaml"}, "dataset.yaml: cases: 'none.yaml' cannot be opened"),
        ({"cases": "../../etc/passwd"}, "dataset.yaml: cases: "),
        ({"cases": "documents"}, "'documents' is not a regular file"),
        ({"name": ""}, "name: "),
        ({"name": ["x"]}, "name: should be text, found ['x']"),
    ],
)
def test_faults_of_the_description(folder, fields, part):
    path = folder / "dataset.yaml"
    described = {
        key: value for key, value in (yaml.safe_load(path.read_text()) | fields).items() if value is not None
    }
    path.write_text(json.dumps(described))
    assert part in faults(folder) or "control characters are not allowed" in faults(folder)


def test_paths_that_leave_the_folder_by_a_link_are_refused(folder, tmp_path):
    outside = tmp_path / "outside.md"
    outside.write_text(markdown("outside", "Secret."))
    (folder / "documents" / "link.md").symlink_to(outside)
    (folder / "documents" / "inner.md").symlink_to(folder / "documents" / "one.md")
    (folder / "documents" / "loop.md").symlink_to(folder / "documents" / "loop.md")
    (folder / "documents" / "gone.md").symlink_to(folder / "nowhere")
    text = faults(folder)
    assert "'documents/link.md' leads out of" in text
    assert "'documents/loop.md' cannot be opened" in text
    assert "'documents/gone.md' cannot be opened" in text
    assert "document_id 'one' stands in documents/inner.md already" in text
    assert "Secret" not in text


def test_a_data_set_behind_a_link_is_read(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert load_dataset(tmp_path / "link").folder == folder


def test_a_pipe_is_refused_and_not_waited_for(folder):
    os.mkfifo(folder / "documents" / "pipe.md")
    assert "'documents/pipe.md' is not a regular file" in faults(folder)


def test_a_file_name_that_cannot_be_shown_is_refused(folder):
    (folder / "documents" / "a\nb.md").write_text(markdown("two", "Two."))
    Path(os.fsdecode(os.fsencode(folder / "documents") + b"/\xff.md")).write_text(markdown("three", "Three."))
    text = faults(folder)
    assert "rename the file 'documents/a\\nb.md'" in text
    assert "rename the file 'documents/\\udcff.md'" in text
    text.encode()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\xff\xfe---\n", "documents/bad.md:1: not UTF-8 (byte 0xff)"),
        (markdown("bad", "ok").encode() + b"caf\xe9", ":9: not UTF-8 (byte 0xe9)"),
        (markdown("bad", "a\0b").encode(), "body: holds a null character"),
        (b"---\ndocument_id: bad\0\n---\nx", "not usable YAML"),
        (b"", "no front matter"),
        (b"---\ndocument_id: bad\n", "no front matter"),
        (b"---\n---\ntext", "documents/bad.md: entry: should be a mapping of fields"),
        (
            b"---\ntitle: a\ntitle: b\n---\ntext",
            "documents/bad.md:3: not usable YAML: field 'title' stands more than once",
        ),
        (b"---\ntitle: !!python/name:os.system x\n---\ntext", "documents/bad.md:2: not usable YAML"),
        (b"---\n? [a]\n: b\n---\ntext", "a field name must be text"),
        (b"---\n<<: {title: x}\n---\ntext", "unknown field <<"),
    ],
)
def test_faulty_documents(folder, content, part):
    (folder / "documents" / "bad.md").write_bytes(content)
    assert part in faults(folder)


@pytest.mark.parametrize(
    "body",
    [
        "One",
        "word " * 200_000,
        "no headings\n\nat all",
        "😀 👩‍👩‍👧 ☃",
        "שלום עולם. مرحبا بالعالم",
        "你好,世界。这是一个测试。",
        "## 1 你好\n<script>alert(1)</script>",
        "\ufeffinner mark",
        "a\x0bb\x0cc\x85d\u2028e",
    ],
)
def test_unusual_documents_are_read_and_cut(tmp_path, body):
    folder = write_dataset(tmp_path, {"one.md": markdown("one", body)}, CASES)
    loaded = load_dataset(folder)
    chunks = list(chunk_documents(loaded.documents, OWN))
    headings = [line for line in body.split("\n") if line.startswith("## ")]
    assert sum(chunk.words for chunk in chunks) == len(body.split()) - sum(
        len(line.split()) for line in headings
    )


def test_crlf_and_byte_order_marks_change_nothing(folder):
    before = load_dataset(folder)
    for path in (folder / "dataset.yaml", folder / "cases.yaml", folder / "documents" / "one.md"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    after = load_dataset(folder)
    assert (after.documents, after.cases) == (before.documents, before.cases)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "cases.yaml: no questions"),
        ("answerable: []\n", "cases.yaml: no questions"),
        ("answerable: {}\n", "answerable: should be a list"),
        ("- a\n", "cases.yaml: entry: should be a mapping of fields"),
        ("cases: []\n", "unknown field cases"),
        ("answerable:\n- {id: a\n", "cases.yaml:3: not usable YAML"),
        ("a: 1\n---\nb: 2\n", "cases.yaml:2: not usable YAML: but found another document"),
        ("answerable: &a [*a]\n", "an alias refers to itself"),
        ("answerable:\n- {id: a, id: b}\n", "cases.yaml:2: not usable YAML: field 'id' stands more than once"),
        ("answerable: " + "[" * 5000 + "]" * 5000, "not usable YAML"),
        ("answerable:\n- {id: [[[[[[x]]]]]], category: c, question: q}\n", "case [[[...]]]: id: should be text"),
        ("answerable:\n- \tx: y\n\tz: 1", "not usable YAML"),
    ],
)  # fmt: skip
def test_faulty_cases_files(folder, content, part):
    (folder / "cases.yaml").write_text(content)
    assert part in faults(folder)


def test_aliases_can_be_used_but_not_multiplied(folder):
    (folder / "cases.yaml").write_text(
        "answerable:\n"
        "- {id: a, category: c, question: A?, supporting: [&q {document: one, quote: text of one}]}\n"
        "- {id: b, category: c, question: B?, supporting: [*q]}\n"
    )
    loaded = load_dataset(folder)
    assert loaded.cases[0].supporting == loaded.cases[1].supporting
    bomb = ["answerable:", "- &l0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"- &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    (folder / "cases.yaml").write_text("\n".join(bomb))
    text = faults(folder)
    assert "too many values, aliases written out" in text
    assert len(text) < 1000


def test_a_case_with_nested_aliases_is_shown_shortly(folder):
    nested = ["answerable:", "- &l0 [x, x, x, x, x, x, x, x, x, x]"]
    nested += [f"- &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 5)]
    (folder / "cases.yaml").write_text("\n".join(nested))
    assert len(faults(folder)) < 2000


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("{", "cases.jsonl:3: not JSON: "),
        ("[]", "cases.jsonl:3: wanted one JSON object, found []"),
        ("null", "cases.jsonl:3: wanted one JSON object, found None"),
        ('{"id": "a", "id": "b"}', "cases.jsonl:3: field 'id' stands more than once"),
        ('{"id": NaN}', "cases.jsonl:3: NaN is no JSON value"),
        ('{"id": "x", "category": "c", "question": "\\ud800"}', "question: holds half a surrogate pair"),
        ('{"id": "x", "category": "c", "question": "Q?", "\\ud800": 1}', "found '\\ud800'"),
        ('{"id": "x", "category": "c", "question": "a\\u0000b"}', "question: holds a null character"),
        (
            '{"id": "x", "answerable": "yes", "question": "Q?"}',
            "answerable: wanted true or false, found 'yes'",
        ),
        ('{"id": ' + "[" * 100_000 + "}", "cases.jsonl:3: "),
        ('{"id": ' + "9" * 5000 + "}", "cases.jsonl:3: "),
        (
            '{"id": "x", "question": "Q?", "relevant": [{"document": "one", "chunk": "a", "grade": true}]}',
            "relevant[0].grade: should be a whole number, found True",
        ),
    ],
)
def test_faulty_json_lines(folder, line, part):
    to_json_lines(folder)
    path = folder / "cases.jsonl"
    path.write_text(path.read_text() + f"\n\n{line}\n")
    text = faults(folder)
    assert part in text
    text.encode()


def test_json_lines_that_are_not_utf8_name_the_line(folder):
    to_json_lines(folder)
    with (folder / "documents.jsonl").open("ab") as stream:
        stream.write(b'{"document_id": "\xff"}\n')
    assert "documents.jsonl:2: not UTF-8 (byte 0xff)" in faults(folder)


def test_json_lines_without_a_document_are_refused(folder):
    to_json_lines(folder)
    (folder / "documents.jsonl").write_text("\n")
    assert "documents.jsonl: no documents" in faults(folder)


def test_ids_that_are_numbers_become_text(folder):
    (folder / "documents.jsonl").write_text(
        json.dumps({"document_id": 17, "title": 3, "body": "x", **RUNBOOK}) + "\n"
    )
    edit(folder, documents="documents.jsonl")
    assert load_dataset(folder).documents[0].document_id == "17"


def test_no_such_data_set_lists_those_there_are():
    with pytest.raises(InputError, match="platform-runbooks, worker-runbooks"):
        load_dataset("nowhere")


def test_very_many_faults_are_counted(folder):
    rows = [{"id": str(number)} for number in range(1500)]
    (folder / "cases.yaml").write_text(yaml.safe_dump({"unsupported": rows}))
    text = faults(folder)
    assert "1500 faults" in text
    assert text.count("\n- ") == 1001
    assert text.endswith("\n- and 500 more")


def test_documents_are_streamed_from_json_lines(folder, monkeypatch):
    to_json_lines(folder)
    line = (folder / "documents.jsonl").read_text()
    (folder / "documents.jsonl").write_text(line + line.replace('"one"', '"two"') + "{")
    found: list[str] = []
    stream = read_documents(folder.resolve(), "documents.jsonl", found, {})
    assert next(stream).document_id == "one"
    assert found == []
    assert [document.document_id for document in stream] == ["two"]
    assert len(found) == 1


@pytest.mark.slow
def test_a_hundred_thousand_documents_are_read(folder):
    with (folder / "documents.jsonl").open("w") as stream:
        for number in range(100_000):
            row = {"document_id": f"d{number}", "title": "T", "body": "word " * 60, **RUNBOOK}
            stream.write(json.dumps(row) + "\n")
    edit(folder, documents="documents.jsonl")
    loaded = load_dataset(folder)
    assert len(loaded.documents) == 100_000
    assert sum(1 for _ in chunk_documents(loaded.documents, OWN)) == 100_000
