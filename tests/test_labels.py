import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.chunking import VERSIONS, chunk_documents, sentences
from evalkit.dataset import Case, Dataset, Document, Fact, Quote, load_dataset
from evalkit.errors import InputError
from evalkit.labels import Labels, resolve_labels
from evalkit.wording import fold
from tests.datasets import OTHER, OWN, case, fact, markdown, words, write_dataset

# Under the own version: alpha/p0 and alpha/p1 share the paragraph "Shared …", beta/p0 stands alone.
FIRST, SHARED, LAST = f"First {words(39)}", f"Shared {words(29, 100)}", f"Last {words(39, 200)}"
DOCUMENTS = {
    "one": f"## Alpha\n{FIRST}\n\n{SHARED}\n\n{LAST}\n\n## Beta\nBeta stands alone. It is short.",
    "two": "Another text. Twice told. Twice told.",
    "draft.md": markdown("draft", "A draft says so.", publication_state="draft"),
}


def make(folder: Path, *cases: dict[str, Any], unsupported: Any = None, **fields: Any) -> Dataset:
    return load_dataset(write_dataset(folder, DOCUMENTS, list(cases), unsupported, **fields))


def resolve(dataset: Dataset, version: str = OWN) -> Labels:
    return resolve_labels(dataset, list(chunk_documents(dataset.documents, version)))


def refusal(dataset: Dataset, version: str = OWN) -> str:
    with pytest.raises(InputError) as raised:
        resolve(dataset, version)
    return str(raised.value)


def grades(labels: Labels, name: str = "c") -> dict[str, int]:
    rows = labels.judgments[labels.judgments["case_id"] == name]
    return {f"{row.document_id}/{row.chunk_id}": row.grade for row in rows.itertuples()}


def positional(*chunks: str, **grade: int) -> list[dict[str, Any]]:
    return [{"document": chunk.split(":")[0], "chunk": chunk.split(":")[1], **grade} for chunk in chunks]


def quote(document: str, text: str) -> dict[str, str]:
    return {"document": document, "quote": text}


def test_positional_labels_have_grade_two_unless_said(tmp_path):
    labels = resolve(make(tmp_path, case("c", relevant=[
        *positional("one:alpha/p0"), *positional("one:beta/p0", grade=1), *positional("two:body/p0", grade=0),
    ])))  # fmt: skip
    assert grades(labels) == {"one/alpha/p0": 2, "one/beta/p0": 1, "two/body/p0": 0}
    assert labels.facts.empty
    assert labels.places.empty
    assert labels.notices == ()


def test_every_chunk_that_holds_a_quote_is_judged(tmp_path):
    labels = resolve(make(tmp_path, case("c", evidence=[fact("one", "Shared w100")])))
    assert grades(labels) == {"one/alpha/p0": 2, "one/alpha/p1": 2}
    assert labels.places.to_dict("records") == [
        {
            "case_id": "c",
            "fact": 0,
            "quote": 0,
            "document_id": "one",
            "chunk_id": chunk,
            "text": "Shared w100",
        }
        for chunk in ("alpha/p0", "alpha/p1")
    ]
    assert labels.facts.to_dict("records") == [
        {"case_id": "c", "fact": 0, "text": "A fact.", "first_quote": "Shared w100", "lost": False}
    ]


def test_white_space_is_folded_before_comparing(tmp_path):
    labels = resolve(make(tmp_path, case("c", evidence=[fact("one", " Beta  stands\n\talone. ")])))
    assert grades(labels) == {"one/beta/p0": 2}
    assert labels.places["text"].tolist() == ["Beta stands alone."]


def test_a_quote_may_span_paragraphs_of_one_chunk(tmp_path):
    labels = resolve(make(tmp_path, case("c", evidence=[fact("one", "w38 Shared w100")])))
    assert grades(labels) == {"one/alpha/p0": 2}


def test_the_higher_grade_holds(tmp_path):
    dataset = make(
        tmp_path,
        case("c", evidence=[fact("one", "stands alone")],
             supporting=[quote("one", "It is short"), quote("two", "Another")]),
        case("d", relevant=[*positional("one:beta/p0", grade=1), *positional("one:beta/p0", grade=2)]),
    )  # fmt: skip
    labels = resolve(dataset)
    assert grades(labels) == {"one/beta/p0": 2, "two/body/p0": 1}
    assert grades(labels, "d") == {"one/beta/p0": 2}


def test_both_forms_may_agree(tmp_path):
    dataset = make(
        tmp_path,
        case("c", relevant=[*positional("one:alpha/p0", "one:beta/p0"), *positional("two:body/p0", grade=1)],
             evidence=[fact("one", "stands alone")], supporting=[quote("two", "Another text")]),
    )  # fmt: skip
    assert grades(resolve(dataset)) == {"one/alpha/p0": 2, "one/beta/p0": 2, "two/body/p0": 1}


@pytest.mark.parametrize(
    ("relevant", "says"),
    [
        (positional("one:alpha/p0"), "does not list it"),
        (positional("one:beta/p0", grade=1), "gives grade 1"),
        (positional("one:beta/p0", grade=0), "gives grade 0"),
    ],
)
def test_forms_that_disagree_are_refused(tmp_path, relevant, says):
    text = refusal(make(tmp_path, case("c", relevant=relevant, evidence=[fact("one", "stands alone")])))
    assert (
        f"labels disagree on chunk 'beta/p0' of document 'one': its quotes give grade 2, relevant {says}"
        in text
    )


def test_supporting_that_disagrees_is_refused(tmp_path):
    dataset = make(
        tmp_path, case("c", relevant=positional("two:body/p0"), supporting=[quote("two", "Another text")])
    )
    assert "its quotes give grade 1, relevant gives grade 2" in refusal(dataset)


def test_tables_are_sorted_and_typed_even_when_empty(tmp_path):
    full = resolve(make(tmp_path, case("b", relevant=positional("two:body/p0", "one:beta/p0")),
                        case("a", evidence=[fact("one", "It is short"), fact("one", "stands alone")])))  # fmt: skip
    empty = resolve(make(tmp_path, unsupported=[{"id": "u", "question": "None?"}]))
    assert full.judgments["case_id"].tolist() == ["a", "b", "b"]
    assert full.judgments["document_id"].tolist() == ["one", "one", "two"]
    for name, columns in (
        ("judgments", ["case_id", "document_id", "chunk_id", "grade"]),
        ("facts", ["case_id", "fact", "text", "first_quote", "lost"]),
        ("places", ["case_id", "fact", "quote", "document_id", "chunk_id", "text"]),
    ):
        assert getattr(empty, name).columns.tolist() == columns
        assert getattr(empty, name).dtypes.equals(getattr(full, name).dtypes)
    assert [str(dtype) for dtype in full.judgments.dtypes] == ["str", "str", "str", "int64"]
    assert [str(dtype) for dtype in full.facts.dtypes] == ["str", "int64", "str", "str", "bool"]


def test_every_fault_comes_in_one_error(tmp_path):
    dataset = make(
        tmp_path,
        case("bare"),
        case("dup", supporting=[quote("two", "Another text")]),
        case("dup", "Same  question?", supporting=[quote("two", "Another text")], split="development"),
        case("other", "same question?", supporting=[quote("two", "Another text")], split="held-out"),
        case("again", "Twice?", supporting=[quote("two", "Another text")]),
        case("missing", relevant=positional("one:alpha/p9", "gone:body/p0")),
        case("ineligible", relevant=positional("draft:body/p0"), evidence=[fact("draft", "A draft")]),
        case("nowhere", evidence=[fact("one", "Beta stands quite alone"), fact("two", "It is short")]),
        case("twice", evidence=[fact("two", "Twice told.")]),
        case(
            "cut",
            supporting=[
                quote("one", "w38 Shared w100"),
                quote("one", f"{FIRST.rsplit(maxsplit=1)[-1]} {SHARED} Last"),
            ],
        ),
        case("grade", relevant=[*positional("one:beta/p0", grade=3), *positional("one:beta/p7", grade=-1)]),
        case("zero", relevant=positional("one:beta/p0", grade=0)),
        unsupported=[{"id": "cut", "question": "twice?"}],
    )
    text = refusal(dataset)
    for part in (
        "cases.yaml: case 'dup': the id stands 2 times",
        "cases.yaml: case 'cut': the id stands 2 times",
        "cases 'dup', 'other': the question 'Same  question?' stands in both splits",
        "cases 'again', 'cut': the question 'Twice?' is asked more than once",
        "case 'bare': no labels",
        "case 'missing': relevant[0]: chunk 'alpha/p9' does not exist in document 'one'; it has alpha/p0, alpha/p1, ",
        "case 'missing': relevant[1]: document 'gone' does not exist",
        "case 'ineligible': relevant[0]: document 'draft' is not eligible",
        "case 'ineligible': evidence[0].quotes[0]: document 'draft' is not eligible",
        "publication_state 'draft'",
        "case 'nowhere': evidence[0].quotes[0]: quote 'Beta stands quite alone' is nowhere in document 'one'",
        "% alike): 'Beta stands alone'",
        "case 'nowhere': evidence[1].quotes[0]: quote 'It is short' is nowhere in document 'two'",
        "it stands in 'one'",
        "case 'twice': evidence[0].quotes[0]: quote 'Twice told.' stands more than once in document 'two'",
        "case 'cut': supporting[1]: quote 'w38 Shared",
        "is cut by a chunk border of document 'one'",
        "case 'grade': relevant[0]: grade 3 of chunk 'beta/p0'",
        "case 'grade': relevant[1]: grade -1 of chunk 'beta/p7' in document 'one'; grades are 0, 1, 2; also, chunk",
        "case 'zero': every label has grade 0",
    ):
        assert part in text
    assert text.count("\n- ") == 16
    assert "supporting[0]" not in text


def test_a_misspelt_document_gets_its_eligible_likeness_proposed(tmp_path):
    documents = {
        "restore-backup": "Restored.",
        "restore-backups-2.md": markdown("restore-backups-2", "A draft.", publication_state="draft"),
    }
    labelled = case(
        "c",
        relevant=[{"document": "restore-backups", "chunk": "body/p0"}],
        supporting=[quote("other", "Restored.")],
    )
    text = refusal(load_dataset(write_dataset(tmp_path, documents, [labelled])))
    assert "document 'restore-backups' does not exist; did you mean 'restore-backup'?" in text
    assert "document 'other' does not exist; name one of the data set's documents" in text


def test_places_that_overlap_are_two_places(tmp_path):
    dataset = load_dataset(
        write_dataset(tmp_path, {"one": "ha ha ha"}, [case("c", supporting=[quote("one", "ha ha")])])
    )
    assert "stands more than once" in refusal(dataset)


def test_a_quote_across_a_heading_is_cut(tmp_path):
    documents = {"one": "Lead text.\n## Head\nText below."}
    dataset = load_dataset(
        write_dataset(tmp_path, documents, [case("c", supporting=[quote("one", "text. ## Head Text")])])
    )
    assert "is cut by a chunk border" in refusal(dataset)


def test_under_another_version_a_fact_can_be_lost(tmp_path):
    # The quote spans two paragraphs: one chunk under the own version, two under the other.
    spanning = "w38 Shared w100"
    dataset = make(
        tmp_path,
        case("c", evidence=[fact("one", spanning), fact("one", spanning, "Beta stands alone."),
                            fact("one", "It is short")]),
        case("d", evidence=[fact("one", spanning)], supporting=[quote("one", "Last w200"), quote("one", spanning)]),
    )  # fmt: skip
    assert resolve(dataset).facts["lost"].tolist() == [False] * 4
    labels = resolve(dataset, OTHER)
    assert labels.facts["lost"].tolist() == [True, False, False, True]
    assert grades(labels) == {"one/beta/p0": 2}
    assert grades(labels, "d") == {"one/alpha/p2": 1}
    assert labels.notices == (
        f"2 of 4 facts are lost to chunking: no {OTHER} chunk holds a quote",
        f"supporting quotes that no {OTHER} chunk holds: 1",
    )


def test_positional_labels_hold_for_the_own_version_only(tmp_path):
    dataset = make(
        tmp_path,
        case("both", relevant=positional("one:beta/p0"), evidence=[fact("one", "stands alone")]),
        case("only", relevant=positional("one:beta/p0")),
        case("also", relevant=positional("two:body/p0")),
    )
    text = refusal(dataset, OTHER)
    assert (
        f"positional labels hold for {OWN} only, not for {OTHER}; add evidence quotes to: only, also" in text
    )
    assert "both" not in text.partition(": only, also")[0]


def test_a_positional_list_does_not_count_under_another_version(tmp_path):
    dataset = make(
        tmp_path,
        case("c", relevant=positional("one:alpha/p0", "one:beta/p0"), evidence=[fact("one", "stands alone")]),
    )
    assert grades(resolve(dataset, OTHER)) == {"one/beta/p0": 2}


@pytest.mark.parametrize("found", ["no chunks", f"{OTHER}, {OWN}"])
def test_chunks_are_of_one_version(tmp_path, found):
    dataset = make(tmp_path, case("c", supporting=[quote("two", "Another")]))
    chunks = (
        []
        if found == "no chunks"
        else [c for v in (OWN, OTHER) for c in chunk_documents(dataset.documents, v)]
    )
    with pytest.raises(InputError, match=f"want one chunking version, found {found}"):
        resolve_labels(dataset, chunks)


def test_the_example_data_sets_under_both_versions():
    for name, version, judged, facts, places in (
        ("platform-runbooks", OWN, 140, 140, 147),
        ("platform-runbooks", OTHER, 138, 140, 147),
        ("worker-runbooks", OWN, 9, 9, 10),
        ("worker-runbooks", OTHER, 8, 9, 9),
    ):
        labels = resolve(load_dataset(name), version)
        assert (len(labels.judgments), len(labels.facts), len(labels.places)) == (judged, facts, places)
        assert not labels.facts["lost"].any()
        assert set(labels.judgments["grade"]) <= {1, 2}


@st.composite
def quoted_documents(draw):
    """A body of words that are all different, and a quote of some of them in a row."""
    blocks, count = [], 0
    for size in draw(st.lists(st.integers(1, 130), min_size=1, max_size=6)):
        block = [f"w{number:04}" for number in range(count, count + size)]
        for end in draw(st.sets(st.integers(0, size - 1), max_size=4)):
            block[end] += "."
        blocks.append(" ".join(block))
        count += size
    for number in draw(st.sets(st.integers(0, len(blocks) - 1), max_size=2)):
        blocks[number] = f"## Section {number}\n{blocks[number]}"
    body = "\n\n".join(blocks)
    flat = [word for word in body.split() if word.startswith("w")]
    first = draw(st.integers(0, len(flat) - 1))
    return body, " ".join(flat[first : first + draw(st.integers(1, 12))])


def anchored(body: str, text: str, chunking: str) -> Dataset:
    evidence = (Fact(fact="F", quotes=(Quote(document="one", quote=text),)),)
    return Dataset(
        name="drawn", version="1", description="", chunking=chunking, eligibility={}, judgments="complete",
        documents=(Document(document_id="one", title="T", document_type="t", publication_state="p", body=body),),
        cases=(Case(id="c", category="x", question="Q?", evidence=evidence),),
        unsupported=(), folder=Path(), cases_file="cases.yaml",
    )  # fmt: skip


def sentences_at(body: str, chunk: str, text: str) -> tuple[str, ...]:
    """The sentences of the body that the quote touches, where this chunk holds it."""
    start = fold(body).index(chunk) + chunk.index(text)
    position, touched = 0, []
    for part in sentences(body):
        if position < start + len(text) and position + len(part) > start:
            touched.append(part)
        position += len(part) + 1
    return tuple(touched)


@settings(max_examples=30)
@given(quoted_documents(), st.sampled_from([OWN, OTHER]))
def test_rechunking_never_changes_which_sentence_is_evidence(drawn, own):
    body, text = drawn
    dataset = anchored(body, text, own)
    evidence = set()
    for version in VERSIONS:
        chunks = {chunk.chunk_id: fold(chunk.text) for chunk in chunk_documents(dataset.documents, version)}
        holding = {chunk_id for chunk_id, chunk in chunks.items() if text in chunk}
        if text not in fold(body):
            assert "nowhere" in refusal(dataset, version)
        elif not holding and version == own:
            assert "cut by a chunk border" in refusal(dataset, version)
        else:
            labels = resolve(dataset, version)
            assert set(labels.places["chunk_id"]) == holding
            assert labels.facts["lost"].tolist() == [not holding]
            assert set(labels.judgments["chunk_id"]) == holding
            evidence |= {sentences_at(body, chunks[chunk_id], text) for chunk_id in holding}
    assert len(evidence) <= 1


@pytest.mark.slow
def test_cost_grows_with_the_labels_and_not_with_labels_times_chunks(tmp_path):
    """Ten times the labels over ten times the documents take far less than a hundred times as long."""

    def seconds(count: int) -> float:
        documents = {
            f"d{number}.md": markdown(f"d{number}", f"Text {words(30, number)}") for number in range(count)
        }
        cases = [
            case(f"c{number}", evidence=[fact(f"d{number}", f"Text w{number}")]) for number in range(count)
        ]
        dataset = load_dataset(write_dataset(tmp_path / str(count), documents, cases))
        chunks = list(chunk_documents(dataset.documents, OWN))
        start = time.process_time()
        assert len(resolve_labels(dataset, chunks).judgments) == count
        return time.process_time() - start

    small = max(seconds(200), 0.005)
    assert seconds(2000) / small < 50
