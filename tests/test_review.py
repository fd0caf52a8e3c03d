import json
from pathlib import Path

import pytest

from evalkit.chunking import chunk_documents
from evalkit.dataset import load_dataset
from evalkit.errors import InfrastructureError, InputError
from evalkit.lock import LOCK, read_lock
from evalkit.review import (
    LabelReview,
    accept_labels,
    check_dataset,
    check_labels,
    describe,
    diff,
    load_labelled,
)
from tests.datasets import OTHER, OWN, RUNBOOK, case, fact, write_dataset

DOCUMENTS = {
    "guide": (
        "## Stop\nComplete the writer first. Then wait for the readers, but not for ever.\n\n"
        "## Start\nOpen the channel before the first reader asks for anything at all.\n"
    ),
    "other": "## Else\nA text about something else entirely, with words of its own.\n",
}
POSITIONAL = case("where", relevant=[{"document": "guide", "chunk": "stop/p0"}])
ANCHORED = case("what", evidence=[fact("guide", "wait for the readers")])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "small", DOCUMENTS, [POSITIONAL, ANCHORED])


def check(folder: Path, version: str = OWN) -> LabelReview:
    dataset = load_dataset(folder)
    return check_labels(dataset, list(chunk_documents(dataset.documents, version)))


def accept(folder: Path, version: str = OWN) -> LabelReview:
    dataset = load_dataset(folder)
    return accept_labels(dataset, list(chunk_documents(dataset.documents, version)))


def edit(folder: Path, old: str, new: str, name: str = "guide") -> None:
    path = folder / "documents" / f"{name}.md"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def refusal(folder: Path, version: str | None = None) -> str:
    with pytest.raises(InputError) as raised:
        load_labelled(folder, version)
    return str(raised.value)


def test_without_a_lock_there_is_a_notice_and_no_fault(folder):
    review = check(folder)
    assert not review.locked
    assert review.faults == review.changes == review.dropped == ()
    assert len(review.unreviewed) == 2
    assert review.notices[0].startswith("no labels.lock")
    assert load_labelled(folder).labels.notices == review.notices
    assert describe(review).startswith(
        "no labels.lock yet\nnew: chunk 'stop/p0' in document 'guide' (case where)"
    )


def test_accepting_says_what_it_accepted_and_is_silent_afterwards(folder):
    accepted = accept(folder)
    assert [change.place for change in accepted.unreviewed] == [
        "chunk 'stop/p0' in document 'guide' (case where)",
        "sentence of quote 'wait for the readers' in document 'guide' (case what)",
    ]
    review = check(folder)
    assert review == LabelReview(True, (), (), (), (), ())
    assert describe(review) == "all labels stand on the texts that were reviewed"
    assert diff(review) == ""
    assert load_labelled(folder).labels.notices == ()


def test_the_lock_is_sorted_readable_and_the_same_every_time(folder):
    accept(folder)
    first = (folder / LOCK).read_bytes()
    rows = [json.loads(line) for line in first.splitlines()]
    assert [row["kind"] for row in rows] == ["chunk", "sentence"]
    assert rows[0]["text"] == "Complete the writer first. Then wait for the readers, but not for ever."
    assert rows[1]["text"] == "Then wait for the readers, but not for ever."
    write_dataset(folder, DOCUMENTS, [ANCHORED, POSITIONAL])
    accept(folder)
    assert (folder / LOCK).read_bytes() == first
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".tmp")]


def test_the_locks_of_the_example_data_sets_are_up_to_date(tmp_path):
    for name in ("worker-runbooks", "platform-runbooks"):
        labelled = load_labelled(name)
        assert labelled.labels.notices == ()
        assert check_labels(labelled.dataset, labelled.chunks) == LabelReview(True, (), (), (), (), ())
        assert load_labelled(name, OTHER).chunking == OTHER


def test_changed_text_of_a_chunk_stops_the_run_with_a_word_diff(folder):
    accept(folder)
    edit(folder, "but not for ever", "however long it takes")
    text = refusal(folder)
    assert (
        "labels.lock: chunk 'stop/p0' in document 'guide' (case where): not the text that was reviewed"
        in text
    )
    hint = f"look at `evalkit labels diff {folder}`, mend the labels, then `evalkit labels accept {folder}`"
    assert text.splitlines()[-1] == hint
    assert "reviewed: Complete the writer first. Then wait for the readers, [-but not for ever.-]" in text
    assert (
        "now:      Complete the writer first. Then wait for the readers, {+however long it takes.+}" in text
    )
    assert "sentence of quote 'wait for the readers'" in text
    assert text.count("\n- ") == 2
    assert "proposal" not in text


def test_a_sentence_that_was_turned_around_its_quote_stops_the_run(folder):
    write_dataset(folder, DOCUMENTS, [ANCHORED])
    accept(folder)
    edit(folder, "Then wait for", "Never wait for")
    assert "[-Then-] wait for the readers" in refusal(folder)
    assert "[-Then-] wait for the readers" in refusal(folder, OTHER)


def test_accepting_a_change_says_so_and_lets_the_run_pass(folder):
    accept(folder)
    edit(folder, "but not for ever", "however long it takes")
    accepted = accept(folder)
    assert "changed: chunk 'stop/p0'" in describe(accepted)
    assert "{+however long it takes.+}" in diff(accepted)
    assert check(folder).changes == ()
    assert load_labelled(folder).labels.notices == ()


def test_anchored_labels_follow_by_themselves(folder):
    write_dataset(folder, DOCUMENTS, [ANCHORED])
    accept(folder)
    before = load_labelled(folder).labels.judgments
    edit(folder, "## Stop\n", "## Before\nA new section, and a new paragraph.\n\n## Shutdown\nAnother.\n\n")
    after = load_labelled(folder).labels
    assert before["chunk_id"].tolist() == ["stop/p0"]
    assert after.judgments["chunk_id"].tolist() == ["shutdown/p0"]
    assert after.notices == ()
    assert load_labelled(folder, OTHER).labels.judgments["chunk_id"].tolist() == ["shutdown/p1"]


def test_wrapping_a_paragraph_anew_changes_nothing(folder):
    accept(folder)
    edit(folder, "Then wait for the readers", "Then\nwait  for\tthe readers")
    assert load_labelled(folder).labels.notices == ()


def test_a_text_that_moved_gives_a_proposed_label(folder):
    accept(folder)
    edit(folder, "## Stop\n", "## Stop\nOne more paragraph, " + "which is long, " * 24 + "comes first.\n\n")
    review = check(folder)
    (change,) = review.changes
    assert change.proposal.label == "{document: guide, chunk: stop/p1}"
    assert change.proposal.likeness == 100
    assert "proposal: {document: guide, chunk: stop/p1} (100 % alike)" in refusal(folder)
    assert load_dataset(folder).cases[0].relevant[0].chunk == "stop/p0"


def test_a_text_that_moved_to_another_document_gives_a_proposed_label(folder):
    accept(folder)
    sentence = "Complete the writer first. Then wait for the readers, but not for ever."
    edit(folder, sentence, "See elsewhere. Here we wait for the readers.")
    edit(folder, "## Else", f"## Moved\n{sentence.replace('ever', 'hours')}\n\n## Else", "other")
    (chunk, _) = check(folder).changes
    assert chunk.proposal.label == "{document: other, chunk: moved/p0}"
    assert chunk.proposal.likeness < 100
    assert "there:    Complete the writer first. Then wait for the readers, but not for {+hours.+}" in diff(
        check(folder)
    )


def test_no_proposal_leads_to_text_that_is_not_eligible(folder):
    accept(folder)
    sentence = "Complete the writer first. Then wait for the readers, but not for ever."
    edit(folder, sentence, "See elsewhere. Here we wait for the readers.")
    edit(folder, "## Else", f"## Moved\n{sentence}\n\n## Else", "other")
    edit(folder, "published", "draft", "other")
    assert check(folder).changes[0].proposal is None


def test_a_heading_that_was_renamed_shows_what_was_reviewed_and_where_it_is(folder):
    accept(folder)
    edit(folder, "## Stop", "## Shutdown")
    text = refusal(folder)
    assert "case 'where': relevant[0]: chunk 'stop/p0' does not exist in document 'guide'" in text
    assert "now:      (gone)\n    proposal: {document: guide, chunk: shutdown/p0} (100 % alike)" in text


def test_a_changed_quote_proposes_its_closest_match_and_never_takes_it(folder):
    write_dataset(folder, DOCUMENTS, [ANCHORED])
    accept(folder)
    edit(folder, "wait for the readers", "wait for all readers")
    text = refusal(folder)
    assert "quote 'wait for the readers' is nowhere in document 'guide'" in text
    assert "% alike): 'wait for all readers'" in text
    (change,) = check(folder).changes
    assert change.now is None
    assert change.proposal.label == "quote: wait for all readers"
    assert change.proposal.text == "Then wait for all readers, but not for ever."
    assert "there:    Then wait for {+all+} readers, but not for ever." in diff(check(folder))
    with pytest.raises(InputError, match="are not accepted"):
        accept(folder)


def test_new_and_dropped_labels_are_told(folder):
    accept(folder)
    new = case("when", relevant=[{"document": "guide", "chunk": "start/p0"}])
    write_dataset(folder, DOCUMENTS, [ANCHORED, new])
    review = check(folder)
    assert describe(review) == (
        "new: chunk 'start/p0' in document 'guide' (case when)\n"
        "no longer labelled: chunk 'stop/p0' in document 'guide'"
    )
    assert load_labelled(folder).labels.notices == (
        "labelled texts not in labels.lock: 1; review, then `evalkit labels accept DATASET`",
    )
    accept(folder)
    assert {key.label for key in read_lock(folder, [])} == {"start/p0", "wait for the readers"}


def test_under_another_version_only_sentences_are_compared(folder):
    both = POSITIONAL | {"evidence": [fact("guide", "Complete the writer first")]}
    write_dataset(folder, DOCUMENTS, [both, ANCHORED])
    accept(folder)
    assert check(folder, OTHER) == LabelReview(True, (), (), (), (), ())
    edit(folder, "but not for ever", "however long it takes")
    assert [change.key.kind for change in check(folder, OTHER).changes] == ["sentence"]
    with pytest.raises(InputError, match=f"labels are accepted under {OWN}, the data set's own"):
        accept(folder, OTHER)


def test_labels_with_faults_are_not_accepted(folder):
    accept(folder)
    before = (folder / LOCK).read_bytes()
    write_dataset(
        folder, DOCUMENTS, [ANCHORED, case("bare"), case("bad", evidence=[fact("guide", "no such text")])]
    )
    with pytest.raises(InputError) as raised:
        accept(folder)
    assert "case 'bare': no labels" in str(raised.value)
    assert "case 'bad': evidence[0]" in str(raised.value)
    assert (folder / LOCK).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda text: text.replace("Then wait", "Never wait"), "labels.lock:1: the text does not have the hash"),
        (lambda text: text + "<<<<<<< HEAD\n", "labels.lock:3: not JSON"),
        (lambda text: text + text.splitlines()[0] + "\n", "labels.lock:3: chunk 'stop/p0' of document 'guide'"),
        (lambda text: text.replace('"kind": "chunk"', '"kind": "passage"'), "labels.lock:1: kind: should be 'chunk'"),
        (lambda text: text.replace('"sha256"', '"md5"'), "labels.lock:2: sha256 is missing"),
        (lambda text: "\udcff" + text, "labels.lock:1: not UTF-8"),
    ],
)  # fmt: skip
def test_a_lock_that_was_edited_is_refused_with_all_other_faults(folder, change, part):
    accept(folder)
    write_dataset(folder, DOCUMENTS, [POSITIONAL, ANCHORED, case("bare")])
    path = folder / LOCK
    path.write_bytes(change(path.read_text()).encode(errors="surrogateescape"))
    text = refusal(folder)
    assert part in text
    assert "case 'bare': no labels" in text
    write_dataset(folder, DOCUMENTS, [POSITIONAL, ANCHORED])
    assert part in "\n".join(check(folder).faults)
    with pytest.raises(InputError, match="was edited; restore it"):
        accept(folder)


def test_a_lock_that_cannot_be_written_leaves_the_old_one(folder, monkeypatch):
    accept(folder)
    before = (folder / LOCK).read_bytes()
    edit(folder, "but not for ever", "however long it takes")

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        accept(folder)
    assert (folder / LOCK).read_bytes() == before
    assert not [path for path in folder.iterdir() if path.name.startswith(".tmp")]


def test_faults_of_files_chunking_labels_and_lock_come_together(folder):
    accept(folder)
    edit(folder, "but not for ever", "however long it takes")
    (folder / "documents" / "bad.md").write_text("no front matter")
    (folder / "documents" / "slugs.md").write_text(
        "---\n" + "".join(f"{k}: {v}\n" for k, v in {"document_id": "slugs", "title": "T", **RUNBOOK}.items())
        + "---\n## A\nx\n## A\ny\n"
    )  # fmt: skip
    cases = (folder / "cases.yaml").read_text() + "- {id: u, question: U?, split: none}\n"
    (folder / "cases.yaml").write_text(cases.replace("unsupported: []\n", "unsupported:\n"))
    text = refusal(folder)
    for part in (
        "documents/bad.md:1",
        "a second section 'a'",
        "case 'u': split",
        "chunk 'stop/p0'",
        "sentence of quote",
    ):
        assert part in text


def test_a_fault_of_a_case_hides_no_other_fault_of_it_or_of_others(folder):
    accept(folder)
    quotes = [
        {"document": "guide", "quote": "never said"},
        {"document": "guide"},
        {"document": "gone", "quote": "x"},
        {"document": "guide", "quote": "wait for the readers"},
    ]
    faulty = case(
        "faulty",
        "What about next?",
        split="none",
        evidence=["no mapping", {"fact": "", "quotes": quotes}],
        supporting=[{"document": "other", "quote": "said nowhere"}],
        relevant=[{"document": "guide"}, {"document": "guide", "chunk": "stop/p9", "grade": 5}],
    )
    unnamed = {
        "category": "plain",
        "question": "What about next?",
        "evidence": [fact("guide", "not there either")],
    }
    following = case("next", evidence=[fact("guide", "nor this")])
    write_dataset(folder, DOCUMENTS, [POSITIONAL, ANCHORED, faulty, unnamed, following])
    text = refusal(folder)
    for part in (
        "case 'faulty': split: ",
        "case 'faulty': evidence[0]: ",
        "case 'faulty': evidence[1].fact: is empty",
        "case 'faulty': evidence[1].quotes[1].quote is missing",
        "case 'faulty': evidence[1].quotes[0]: quote 'never said' is nowhere in document 'guide'",
        "case 'faulty': evidence[1].quotes[2]: document 'gone' does not exist",
        "case 'faulty': supporting[0]: quote 'said nowhere' is nowhere in document 'other'",
        "case 'faulty': relevant[0].chunk is missing",
        "case 'faulty': relevant[1]: grade 5 of chunk 'stop/p9' in document 'guide'; grades are 0, 1, 2; also, chunk",
        "id is missing",
        "evidence[0].quotes[0]: quote 'not there either' is nowhere",
        "cases 'next', 'faulty': the question 'What about next?' is asked more than once",
        "case 'next': evidence[0].quotes[0]: quote 'nor this' is nowhere",
    ):
        assert part in text, part
    assert text.count("\n- ") == 13


def test_the_lock_is_compared_for_what_can_be_read_of_a_faulty_case(folder):
    accept(folder)
    edit(folder, "Then wait for", "Then hardly wait for")
    write_dataset(folder, {}, [POSITIONAL, {**ANCHORED, "split": "none"}])
    review = check_dataset(folder)
    assert [change.key.kind for change in review.changes] == ["chunk", "sentence"]
    assert review.dropped == ()


def test_labels_on_a_document_that_cannot_be_read_are_no_faults(folder):
    accept(folder)
    path = folder / "documents" / "guide.md"
    path.write_text(path.read_text().replace("---\n", "", 1))
    text = refusal(folder)
    assert text == (
        f"data set {str(folder)!r}: 1 fault\n- documents/guide.md:1: no front matter; begin the file with "
        "document_id, title, document_type, publication_state between two lines of ---\n"
        "not checked: labels on 'guide', until documents/guide.md can be read"
    )
    review = check_dataset(folder)
    assert (review.changes, review.dropped, len(review.faults)) == ((), (), 1)
    assert "not checked: labels on 'guide', until documents/guide.md can be read" in describe(review)


def test_a_broken_document_hides_no_fault_of_labels_on_others(folder):
    edit(folder, "title: Title of guide\n", "")
    more = case("more", evidence=[fact("other", "not in there"), fact("typo", "x"), fact("guide", "y")])
    write_dataset(folder, {}, [POSITIONAL, ANCHORED, more])
    text = refusal(folder)
    for part in (
        "documents/guide.md: title is missing",
        "case 'more': evidence[0].quotes[0]: quote 'not in there' is nowhere",
        "case 'more': evidence[1].quotes[0]: document 'typo' does not exist",
        "not checked: labels on 'guide', until documents/guide.md can be read",
    ):
        assert part in text
    assert text.count("\n- ") == 3


def test_quotes_of_a_document_that_cannot_be_cut_are_checked_and_its_chunks_are_not(folder):
    accept(folder)
    edit(folder, "## Start", "## Stop")
    more = case("more", evidence=[fact("guide", "not in there")])
    write_dataset(folder, {}, [POSITIONAL, ANCHORED, more])
    text = refusal(folder)
    assert "a second section 'stop'" in text
    assert "case 'more': evidence[0].quotes[0]: quote 'not in there' is nowhere in document 'guide'" in text
    assert "not checked: labels on 'guide', until documents/guide.md can be cut" in text
    assert text.count("\n- ") == 2


def test_lines_of_documents_that_cannot_be_read_hide_no_other_fault(folder):
    write_dataset(
        folder, {}, [POSITIONAL, case("more", supporting=[{"document": "other", "quote": "no"}])],
        documents="documents.jsonl",
    )  # fmt: skip
    written = {"title": "T", **RUNBOOK, "body": "Text."}
    lines = ["no JSON", json.dumps({"document_id": "guide", **written, "colour": "red"})]
    (folder / "documents.jsonl").write_text(
        "\n".join([*lines, json.dumps({"document_id": "other", **written})])
    )
    text = refusal(folder)
    for part in (
        "documents.jsonl:1: ",
        "documents.jsonl:2: unknown field colour",
        "supporting[0]: quote 'no' is nowhere",
        "not checked: labels on 'guide', until documents.jsonl:2 can be read",
    ):
        assert part in text
    assert text.count("\n- ") == 3


def test_labels_are_checked_when_no_document_or_no_chunking_can_be_had(folder):
    twice = [case("twice", "Same?", supporting=[{"document": "guide", "quote": "never said"}])] * 2
    write_dataset(folder, {}, twice, chunking="v0")
    text = refusal(folder)
    assert "dataset.yaml: chunking version 'v0' is unknown" in text
    assert "case 'twice': the id stands 2 times" in text
    assert "supporting[0]: quote 'never said' is nowhere in document 'guide'" in text
    for path in (folder / "documents").iterdir():
        path.write_text("no front matter")
    text = refusal(folder)
    assert "case 'twice': the id stands 2 times" in text
    assert "not checked: labels on 'guide', until documents/guide.md, documents/other.md can be read" in text


def test_faults_of_files_are_listed_beside_those_of_the_description(folder):
    (folder / "documents" / "bad.md").write_text("no front matter")
    write_dataset(folder, {}, [case("wrong", split="none")], colour="red")
    text = refusal(folder)
    for part in ("dataset.yaml: unknown field colour", "documents/bad.md:1", "case 'wrong': split"):
        assert part in text


def test_an_unknown_chunking_version_is_refused(folder):
    assert "- chunking: chunking version 'v0' is unknown" in refusal(folder, "v0")
    write_dataset(folder, DOCUMENTS, [ANCHORED], chunking="v0")
    assert "- dataset.yaml: chunking version 'v0' is unknown" in refusal(folder)


def test_a_data_set_without_chunks_is_refused(folder):
    for path in (folder / "documents").iterdir():
        path.unlink()
    assert "matches no file" in refusal(folder)
    (folder / "dataset.yaml").write_text("name: [")
    assert check_dataset(folder).faults[0].startswith("dataset.yaml:2: not usable YAML")


def test_the_data_set_that_the_docs_describe(tmp_path):
    text = (Path(__file__).parent.parent / "docs" / "data-sets.md").read_text(encoding="utf-8")
    blocks = [block.partition("\n") for block in text.split("```")[1::2]]
    by_language: dict[str, list[str]] = {}
    for language, _, block in blocks:
        by_language.setdefault(language, []).append(block)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "backups.md").write_text(by_language["markdown"][0])
    (tmp_path / "dataset.yaml").write_text(by_language["yaml"][0])
    (tmp_path / "cases.yaml").write_text(by_language["yaml"][1])
    labels = load_labelled(tmp_path).labels
    assert labels.judgments["grade"].tolist() == [2]
    (tmp_path / "documents.jsonl").write_text(by_language["json"][0].replace("...", "Text."))
    (tmp_path / "cases.jsonl").write_text(by_language["json"][1])
    described = (
        by_language["yaml"][0]
        .replace("documents/*.md", "documents.jsonl")
        .replace("cases.yaml", "cases.jsonl")
    )
    (tmp_path / "dataset.yaml").write_text(described)
    lines = load_labelled(tmp_path)
    assert lines.labels.judgments["chunk_id"].tolist() == ["restore/p0"]
    assert [question.id for question in lines.dataset.unsupported] == ["tape-room"]
