"""Whatever lies on disk gives a result or an InputError that names the place; no other error reaches a user."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalkit.errors import InputError
from evalkit.lock import LOCK
from evalkit.review import Labelled, accept_labels, load_labelled
from tests.datasets import RUNBOOK, case, fact, markdown, write_dataset

DOCUMENTS = {"one": "## A\nThe text of one.\n\nAnother paragraph.", "two": "Lead.\n\n## B\nThe text of two."}
CASES = [
    case("c1", evidence=[fact("one", "text of one")], supporting=[{"document": "two", "quote": "Lead."}]),
    case("c2", relevant=[{"document": "two", "chunk": "b/p0", "grade": 1}]),
]
pytestmark = pytest.mark.slow
FUZZ = settings(max_examples=60)
FILES = ("dataset.yaml", "cases.yaml", "documents/one.md", LOCK)


@contextmanager
def small_dataset() -> Iterator[Path]:
    """A data set in a folder of its own: hypothesis runs many examples within one test."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        write_dataset(folder, DOCUMENTS, CASES, [{"id": "u1", "question": "None?"}])
        (folder / LOCK).write_bytes(LOCKED)
        yield folder
    finally:
        shutil.rmtree(folder)


def locked() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = write_dataset(Path(name), DOCUMENTS, CASES)
        labelled = load_labelled(folder)
        accept_labels(labelled.dataset, labelled.chunks)
        return (folder / LOCK).read_bytes()


LOCKED = locked()


def load(folder: Path) -> InputError | Labelled:
    try:
        return load_labelled(folder)
    except InputError as error:
        return error


def result_or_place(folder: Path, *places: str) -> None:
    """Load; an error must be an InputError that can be printed and names one of the places."""
    found = load(folder)
    if isinstance(found, Labelled):
        assert found.chunks
        return
    text = str(found)
    text.encode()
    assert any(place in text for place in places)
    assert "Traceback" not in text
    assert "pydantic" not in text
    assert found.__cause__ is None


scraps = st.sampled_from(
    [
        b"\0", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\r", b"---\n", b"- ", b": ", b"\t", b"{", b"}", b"[", b"]",
        b"&a ", b"*a",
        b"!!python/name:os.x ", b"!!binary ", b"!!int ", b"<<: ", b"'", b'"', b"# ", b"## ", b"\n\n",
        b"\x1b[31m",
        b"\xc2\x85", "\u202e".encode(), "👩‍👩‍👧".encode(), "漢字。".encode(), b"null", b"~", b"? ", b"| ", b"> ",
        b"%YAML 1.1\n",
        b"document_id: one\n", b"answerable:\n", b"\\ud800", b"9" * 30, b"\xed\xa0\x80",
    ]
)  # fmt: skip


@FUZZ
@given(st.sampled_from(FILES), st.data())
def test_damaged_files(name, data):
    with small_dataset() as folder:
        path = folder / name
        content = path.read_bytes()
        for _ in range(data.draw(st.integers(1, 3))):
            start = data.draw(st.integers(0, len(content)))
            end = min(len(content), start + data.draw(st.integers(0, 12)))
            content = content[:start] + data.draw(scraps) + content[end:]
        path.write_bytes(content)
        # Damage to one file can show in another: a quote that is gone is a fault of its case.
        result_or_place(folder, *FILES)


@FUZZ
@given(st.sampled_from(FILES), st.binary(max_size=200))
@example("dataset.yaml", b"")
@example("cases.yaml", b"")
@example("documents/one.md", b"")
@example(LOCK, b"")
def test_files_of_any_bytes(name, content):
    with small_dataset() as folder:
        (folder / name).write_bytes(content)
        result_or_place(folder, name)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
values = anything | st.sampled_from(
    [
        "one",
        "two",
        "b/p0",
        "a/p0",
        "text of one",
        "held-out",
        "complete",
        "paragraphs-v1",
        0,
        1,
        2,
        3,
        "cases.yaml",
    ]
)


def replace_at_random(data: st.DataObject, value: object) -> object:
    """Put something else somewhere into nested lists and mappings, drop a field, or add one."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 4)):
        if not data.draw(st.integers(0, 9)):
            return value | {data.draw(st.text(max_size=8)): data.draw(values)}
        key = data.draw(st.sampled_from(sorted(value)))
        if not data.draw(st.integers(0, 5)):
            return {name: inner for name, inner in value.items() if name != key}
        return value | {key: replace_at_random(data, value[key])}
    if isinstance(value, list) and value and data.draw(st.integers(0, 4)):
        place = data.draw(st.integers(0, len(value) - 1))
        return [*value[:place], replace_at_random(data, value[place]), *value[place + 1 :]]
    return data.draw(values)


@FUZZ
@given(st.sampled_from(["dataset.yaml", "cases.yaml"]), st.data())
def test_fields_of_any_kind(name, data):
    with small_dataset() as folder:
        content = yaml.safe_load((folder / name).read_text())
        changed = replace_at_random(data, content)
        (folder / name).write_text(
            yaml.safe_dump(changed, allow_unicode=data.draw(st.booleans())), errors="replace"
        )
        result_or_place(folder, *FILES)


@FUZZ
@given(
    st.dictionaries(
        st.sampled_from(["document_id", "title", "source", "body", *RUNBOOK]), values, max_size=6
    ),
    st.text(),
)
def test_front_matter_of_any_kind(fields, body):
    with small_dataset() as folder:
        text = f"---\n{yaml.safe_dump(fields)}---\n{body}"
        (folder / "documents" / "three.md").write_text(text, errors="replace", encoding="utf-8")
        result_or_place(folder, "three.md")


pieces = st.sampled_from(
    ["word ", ". ", "! ", "\n", "\n\n", "## ", "# ", "A", "é", "\u00a0", "\u2028", "\r\n", "```\n", "\0"]
)
bodies = st.text(st.characters(codec="utf-8"), max_size=400) | st.lists(pieces, max_size=200).map("".join)


@FUZZ
@given(bodies)
def test_documents_of_any_text(body):
    with small_dataset() as folder:
        path = folder / "documents" / "three.md"
        path.write_text(markdown("three", "") + body, encoding="utf-8", newline="")
        result_or_place(folder, "three.md")


@pytest.mark.parametrize(
    "pattern",
    ["", ".", "..", "*", "**", "**/*", "***", "[", "[]", "~/x", "/", "//", "a\\b", "?" * 300, "x" * 5000],
)
@pytest.mark.parametrize("field", ["documents", "cases"])
def test_paths_of_any_kind(tmp_path, field, pattern):
    folder = write_dataset(tmp_path / "small", DOCUMENTS, CASES, **{field: pattern})
    with pytest.raises(InputError) as raised:
        load_labelled(folder)
    assert f"dataset.yaml: {field}" in str(raised.value) or "no front matter" in str(raised.value)
