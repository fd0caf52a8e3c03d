"""BEIR folders read, made into data sets, written; runs exported and read back; rankings of other retrievers."""

import json
import shutil

import ir_measures
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval

from evalkit import beir
from evalkit.beir import read_corpus, read_judgments, read_queries
from evalkit.beir_import import import_beir
from evalkit.chunking import Chunk, ChunkKey, chunk_documents
from evalkit.dataset import load_dataset
from evalkit.errors import InputError
from evalkit.exchange import export_beir, export_trec, only_chunks, passage_id, rankings_from_file
from evalkit.labels import resolve_labels
from evalkit.runs import load_run
from evalkit.scorefiles import score_run_file
from evalkit.scoring import METRICS

CORPUS = [
    {"_id": "d1", "title": "Drain", "text": "One  paragraph.\n\nAnother one.", "metadata": {"url": "x"}},
    {"_id": "d2", "title": "", "text": "No title."},
    {"_id": "d3", "title": "Only a title", "text": ""},
    {"_id": "d4", "title": "", "text": " "},
    {"_id": 5, "title": None, "text": "A number as id, 文書."},
]
QUERIES = [
    {"_id": "q1", "text": "How to drain?"},
    {"_id": "q2", "text": "how  to DRAIN?"},
    {"_id": "q3", "text": "What else?"},
    {"_id": "q4", "text": "Nothing relevant?"},
    {"_id": "q5", "text": "Not judged?"},
    {"_id": "q6", "text": "Only lost documents?"},
]
QRELS = [
    ("q1", "d1", 3), ("q1", "d2", 1), ("q1", "d3", 0), ("q1", "gone", 1),
    ("q2", "d1", 1), ("q3", "5", 1), ("q3", "d2", -1), ("q4", "d1", 0), ("q6", "gone", 2), ("q7", "d1", 1),
]  # fmt: skip


def lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "collection"
    (made / "qrels").mkdir(parents=True)
    (made / "corpus.jsonl").write_text(lines(CORPUS), encoding="utf-8")
    (made / "queries.jsonl").write_text(lines(QUERIES), encoding="utf-8")
    (made / "qrels" / "test.tsv").write_text(beir.qrels_text(QRELS), encoding="utf-8")
    return made


# Reading and writing


def test_a_folder_is_read(folder):
    assert [one.id for one in read_corpus(folder)] == ["d1", "d2", "d3", "d4", "5"]
    assert next(read_corpus(folder)) == ("d1", "Drain", "One  paragraph.\n\nAnother one.")
    assert read_queries(folder)["q2"] == "how  to DRAIN?"
    assert read_judgments(folder, "test") == QRELS
    with pytest.raises(InputError, match=r"dev\.tsv: no such file; splits there: test"):
        read_judgments(folder, "dev")


def test_what_is_written_is_read_back(folder):
    passages = list(read_corpus(folder))
    (folder / "corpus.jsonl").write_text(beir.corpus_text(passages), encoding="utf-8")
    assert list(read_corpus(folder)) == passages
    queries = read_queries(folder)
    (folder / "queries.jsonl").write_text(beir.queries_text(queries.items()), encoding="utf-8")
    assert read_queries(folder) == queries
    with pytest.raises(InputError, match="white space"):
        beir.qrels_text([("q 1", "d", 1)])


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"{", "no JSON object"),
        (b"[1]", '"_id"'),
        (b'{"title": "t", "text": "x"}', '"_id"'),
        (b'{"_id": "d1", "title": "t", "text": "x"}', "earlier line"),
        (b'{"_id": "n", "title": 7, "text": "x"}', "title of 'n' is 7"),
        (b'{"_id": "\xff"}', "UTF-8"),
    ],
)
def test_faulty_lines_are_named(folder, line, wanted):
    path = folder / "corpus.jsonl"
    path.write_bytes(path.read_bytes() + b"\n" + line + b"\n" + b"nonsense\n")
    with pytest.raises(InputError) as error:
        list(read_corpus(folder))
    assert f"{path}:7: " in str(error.value)
    assert wanted in str(error.value)
    assert f"{path}:8: no JSON object" in str(error.value)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
def test_missing_and_empty_files_are_refused(folder, name):
    (folder / name).write_bytes(b"")
    with pytest.raises(InputError, match=rf"{name}: is empty"):
        list(read_corpus(folder)) and read_queries(folder)
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: cannot be read"):
        list(read_corpus(folder)) and read_queries(folder)


# A data set of a BEIR folder


def test_a_folder_becomes_a_data_set_and_all_that_differs_is_counted(folder, tmp_path):
    report = import_beir(folder, tmp_path / "imported")
    dataset = load_dataset(tmp_path / "imported")
    assert (dataset.name, dataset.chunking, dataset.judgments) == ("imported", "whole-document-v1", "partial")
    assert [document.document_id for document in dataset.documents] == ["d1", "d2", "d3", "5"]
    assert [document.body for document in dataset.documents][2:] == ["Only a title", "A number as id, 文書."]
    assert [case.id for case in dataset.cases] == ["q1", "q3"]
    assert (report.documents, report.cases, report.labels) == (4, 2, 5)
    text = report.describe()
    for words in (
        "1 documents have neither text nor title",
        "1 documents have no text; their title stands for it, such as 'd3'",
        "1 grades above 2 became 2",
        "1 grades below 0 became 0",
        "2 judged documents are not in the corpus; their labels are left out, such as 'gone'",
        "2 queries have no relevant document in the corpus and are set aside",
        "1 queries repeat the text of an earlier query and are set aside, such as 'q2'",
        "1 judged queries have no text in queries.jsonl and are set aside, such as 'q7'",
        "1 queries have no judgments in this split and are left out, such as 'q5'",
    ):
        assert words in text
    assert len(report.notices) == 9


def test_labels_of_the_new_data_set_pass_the_guard(folder, tmp_path):
    import_beir(folder, tmp_path / "imported")
    dataset = load_dataset(tmp_path / "imported")
    chunks = list(chunk_documents(dataset.documents, dataset.chunking))
    assert [chunk.text for chunk in chunks][:2] == ["One paragraph.\n\nAnother one.", "No title."]
    judged = resolve_labels(dataset, chunks).judgments
    assert judged[["case_id", "document_id", "chunk_id", "grade"]].to_numpy().tolist() == [
        ["q1", "d1", "document", 2],
        ["q1", "d2", "document", 1],
        ["q1", "d3", "document", 0],
        ["q3", "5", "document", 1],
        ["q3", "d2", "document", 0],
    ]


def test_nothing_is_left_behind_when_an_import_is_refused(folder, tmp_path):
    target = tmp_path / "imported"
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nQ1\tD1\t1\n")
    with pytest.raises(InputError, match=r"do the ids of the files fit together\?(.|\n)*'Q1'.*'q1'"):
        import_beir(folder, target)
    (folder / "corpus.jsonl").write_text(lines([{"_id": " d1", "title": "t", "text": "x"}]))
    with pytest.raises(InputError):
        import_beir(folder, target)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "outputs") == ["collection"]
    target.mkdir()
    with pytest.raises(InputError, match="exists"):
        import_beir(folder, target)


# Runs of ours in other tools


@pytest.fixture
def run(example_runs):
    return load_run(example_runs["platform-runbooks"])


def test_an_exported_run_scores_the_same_in_other_tools(run, tmp_path):
    run_file, qrels_file = export_trec(run, tmp_path / "out")
    with run_file.open() as ranked, qrels_file.open() as judged:
        parsed, qrels = pytrec_eval.parse_run(ranked), pytrec_eval.parse_qrel(judged)
    found = pytrec_eval.RelevanceEvaluator(qrels, {"P.10", "recall.10", "recip_rank"}).evaluate(parsed)
    ours = run.scores[run.scores["k"] == 10].set_index("case_id")
    assert set(found) == set(ours.index)
    for column, name in (("precision", "P_10"), ("recall", "recall_10"), ("reciprocal_rank", "recip_rank")):
        wanted = [found[case][name] for case in ours.index]
        np.testing.assert_allclose(ours[column], wanted, rtol=0, atol=1e-12)

    measures = [
        ir_measures.P @ 10,
        ir_measures.R @ 10,
        ir_measures.RR @ 10,
        ir_measures.nDCG(gains={1: 1, 2: 3}) @ 10,
    ]
    means = ir_measures.calc_aggregate(
        measures, ir_measures.read_trec_qrels(str(qrels_file)), ir_measures.read_trec_run(str(run_file))
    )
    for column, measure in zip(METRICS, measures, strict=True):
        assert ours[column].mean() == pytest.approx(means[measure], abs=1e-12)

    scores = score_run_file(run_file, qrels_file, (1, 3, 5, 10))
    for column, part in scores.metrics._asdict().items():
        table = run.scores.pivot(index="case_id", columns="k", values=column).loc[list(scores.queries)]
        np.testing.assert_allclose(part, table.to_numpy(), rtol=0, atol=1e-12)


def test_an_exported_run_is_read_back_as_it_was(run, tmp_path):
    ours = run.rankings[run.rankings["k"] == 10].sort_values(["case_id", "rank"])
    ids = ["case_id", "rank", "document_id", "chunk_id"]
    for path in (export_trec(run, tmp_path / "out")[0], run.folder / "rankings.parquet"):
        again = rankings_from_file(path)
        assert again[ids].to_numpy().tolist() == ours[ids].to_numpy().tolist()


def test_a_run_as_beir_folder_is_scored_and_imported_again(run, tmp_path):
    folder = tmp_path / "exported"
    export_beir(run, folder)
    scores = score_run_file(folder / "run.trec", folder, (10,))
    ours = run.scores[run.scores["k"] == 10]
    assert scores.means()["ndcg"][0] == pytest.approx(ours["ndcg"].mean(), abs=1e-12)
    report = import_beir(folder, tmp_path / "again")
    assert report.cases == ours["case_id"].nunique()
    assert load_dataset(tmp_path / "again").documents[0].document_id.count("#") == 1
    with pytest.raises(InputError, match="exists"):
        export_beir(run, folder)


def test_a_run_whose_data_set_has_changed_is_not_exported_with_its_corpus(run, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(load_dataset("platform-runbooks").folder, folder)
    first = sorted((folder / "documents").iterdir())[0]
    first.write_text(first.read_text(encoding="utf-8") + "\nMore.\n", encoding="utf-8")
    parameters = run.record.parameters | {"dataset": str(folder)}
    changed = type(run)(run.run_id, run.folder, run.record.model_copy(update={"parameters": parameters}))
    with pytest.raises(InputError, match="has changed since run"):
        export_beir(changed, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Rankings of other retrievers


def test_passages_are_named_by_one_id_without_white_space():
    assert passage_id("a#b c%", "slug/p0") == "a%23b%20c%25#slug/p0"
    assert passage_id("plain", "body/p1") == "plain#body/p1"


def test_rankings_name_passages_or_documents_of_one_chunk(tmp_path):
    path = tmp_path / "run"
    path.write_text("q Q0 a%23b%20c%25#slug/p0 1 1 t\nq Q0 whole 2 3 t\np Q0 whole 1 1 t\n")
    table = rankings_from_file(path, {"whole": "document"})
    assert table.to_numpy().tolist() == [
        ["p", 1, "whole", "document", 1.0],
        ["q", 1, "whole", "document", 3.0],
        ["q", 2, "a#b c%", "slug/p0", 1.0],
    ]


def test_a_ranking_in_parquet_with_chunk_ids(tmp_path):
    rows = pd.DataFrame(
        {"case_id": ["q", "q"], "rank": [2, 1], "document_id": ["d", "d"], "chunk_id": ["p0", "p1"]}
    )
    rows.to_parquet(tmp_path / "run.parquet")
    assert rankings_from_file(tmp_path / "run.parquet")["chunk_id"].tolist() == ["p1", "p0"]
    pq.write_table(pa.table({"qid": ["q"], "docid": ["d#p0"], "score": [1.0]}), tmp_path / "other.parquet")
    assert rankings_from_file(tmp_path / "other.parquet")["chunk_id"].tolist() == ["p0"]


ROWS = {
    "case_id": ["p", "q"],
    "k": [3, 3],
    "rank": [1, 1],
    "document_id": ["d", "d"],
    "chunk_id": ["p0", "p1"],
    "score": [0.5, 0.4],
}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"score": ["9.5", "11.5"]}, "column score: wanted numbers, found (large_)?string"),
        ({"score": [True, False]}, "column score: wanted numbers, found bool"),
        ({"score": [None, None], "rank": ["first", "first"]}, "(?s)column rank: .*column score: "),
        ({"rank": [1, None]}, "column rank: 1 of 2 rows have none"),
        ({"chunk_id": ["p0", None]}, "column chunk_id: 1 of 2 rows have none"),
        ({"k": ["3", "10"]}, "column k: wanted whole numbers"),
        ({"k": pd.array([3, None], dtype="Int64")}, "column k: 1 of 2 rows have none"),
        ({"k": [3, 5]}, "case 'p': has rankings, but none at the largest k = 5"),
        ({"score": [0.5, float("nan")]}, "'q': a score is not a number"),
    ],
)
def test_parquet_columns_that_are_no_rankings_are_refused(tmp_path, change, wanted):
    pd.DataFrame(ROWS | change).to_parquet(tmp_path / "run.parquet")
    with pytest.raises(InputError, match=wanted):
        rankings_from_file(tmp_path / "run.parquet")


def test_a_parquet_file_without_rows_is_refused(tmp_path):
    pd.DataFrame(ROWS).iloc[:0].to_parquet(tmp_path / "run.parquet")
    with pytest.raises(InputError, match="no rows"):
        rankings_from_file(tmp_path / "run.parquet")


@pytest.mark.parametrize("index", ["case_id", "score", "k", ["case_id", "rank"]])
def test_an_index_of_pandas_is_a_column_like_the_others(tmp_path, index):
    pd.DataFrame(ROWS).set_index(index).to_parquet(tmp_path / "run.parquet")
    table = rankings_from_file(tmp_path / "run.parquet")
    assert table[["case_id", "chunk_id", "score"]].to_numpy().tolist() == [["p", "p0", 0.5], ["q", "p1", 0.4]]
    assert table["score"].dtype == "float64"


def test_only_documents_of_one_chunk_can_stand_for_it():
    keys = [("a", "p0"), ("b", "p0"), ("b", "p1")]
    chunks = [Chunk(ChunkKey(document, "v", chunk), "t", "d", "s", "text") for document, chunk in keys]
    assert only_chunks(chunks) == {"a": "p0"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("q Q0 several 1 1 t\n", "'several' is not one chunk"),
        ("q Q0 d#p0 1 1 t\nq Q0 d#p0 2 0 t\n", "'q': 'd' 'p0' stands twice"),
        ("q Q0 d#p0 1 nan t\n", "'q': a score is not a number"),
        ("q Q0 d#p0 1 t\n", "run:1: 5 fields"),
    ],
)
def test_rankings_that_cannot_be_used_are_refused(tmp_path, text, wanted):
    path = tmp_path / "run"
    path.write_text(text)
    with pytest.raises(InputError, match=wanted):
        rankings_from_file(path)
