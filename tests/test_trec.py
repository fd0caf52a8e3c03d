"""TREC, BEIR and Parquet files: layouts, faults with file and line, order, bounded memory, what is printed."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evalkit import blocks, trec
from evalkit.errors import InputError
from evalkit.scorefiles import read_categories, score_files, score_run_file
from evalkit.scoring import score
from evalkit.trec import read_qrels, run_batches, write_qrels, write_run
from tests.rankcases import KS, frames, made, qrels_text, trec_text

RUN = "q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 1e-1 tag\nq2 Q0 d1 1 -3 tag\n"
ROWS = [("q1", "d1", 2.5), ("q1", "d2", 0.1), ("q2", "d1", -3.0)]
QRELS = "q1 0 d1 1\nq2 0 d9 2\n"


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows_of(path):
    return [tuple(row.values()) for batch in run_batches(path) for row in batch.to_pylist()]


def same(one, other):
    assert one.queries == other.queries
    assert all(np.array_equal(a, b) for a, b in zip(one.metrics, other.metrics, strict=True))


# Layouts


@pytest.mark.parametrize(
    "text",
    [
        RUN,
        RUN.replace(" ", "\t"),
        RUN.replace("\n", "\r\n"),
        RUN.replace(" ", "   "),
        RUN.replace(" ", " \t "),
        "\n" + RUN.replace("q2", "\n  q2") + "  \n",
        RUN.replace("tag\n", "tag  \n"),
        RUN.rstrip("\n"),
        "\ufeff" + RUN,
    ],
)
def test_every_spacing_of_a_run_gives_the_same_rows(tmp_path, text):
    assert rows_of(written(tmp_path, "run", text)) == ROWS
    assert rows_of(written(tmp_path, "run.gz", gzip.compress(text.encode()))) == ROWS


@pytest.mark.thorough
def test_spacing_may_change_in_the_middle_of_a_large_file(tmp_path):
    lines = [f"q{number // 1000} Q0 d{number} 1 {-number} tag\n" for number in range(100_000)]
    wanted = rows_of(written(tmp_path, "run", "".join(lines)))
    lines[70_000:] = [line.replace(" ", "  ") for line in lines[70_000:]]
    assert rows_of(written(tmp_path, "run", "".join(lines))) == wanted
    assert len(wanted) == 100_000


def test_quotes_and_hashes_are_ordinary_characters(tmp_path):
    path = written(tmp_path, "run", 'q"1 Q0 "d,1 1 1 t\nq"1 Q0 a\\"#p/0 2 0.5 t\n')
    assert rows_of(path) == [('q"1', '"d,1', 1.0), ('q"1', 'a\\"#p/0', 0.5)]


def test_ids_that_look_like_missing_values_stay_ids(tmp_path):
    assert rows_of(written(tmp_path, "run", "NA Q0 null 1 1 t\nnan Q0 NULL 1 1 t\n")) == [
        ("NA", "null", 1.0),
        ("nan", "NULL", 1.0),
    ]


@pytest.mark.parametrize(
    "text",
    [
        QRELS,
        QRELS.replace(" ", "\t"),
        QRELS.replace(" ", "  "),
        "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td9\t2\n",
    ],
)
def test_qrels_of_trec_and_beir(tmp_path, text):
    for content in (text.encode(), gzip.compress(text.encode()), text.replace("\n", "\r\n").encode()):
        table = read_qrels(written(tmp_path, "qrels", content))
        assert table.to_pydict() == {"query_id": ["q1", "q2"], "document_id": ["d1", "d9"], "grade": [1, 2]}


@pytest.mark.parametrize("ids", [str, int])
def test_parquet_under_usual_names_with_text_or_whole_numbers(tmp_path, ids):
    table = pa.table({"qid": list(map(ids, "112")), "docno": list(map(ids, "787")), "score": [2.5, 0.1, -3]})
    pq.write_table(table, tmp_path / "run.parquet")
    assert rows_of(tmp_path / "run.parquet") == [("1", "7", 2.5), ("1", "8", 0.1), ("2", "7", -3.0)]
    ranked = table.drop_columns(["score"]).append_column("rank", pa.array([1, 2, 1]))
    pq.write_table(ranked, tmp_path / "ranked.parquet")
    assert [score for *_, score in rows_of(tmp_path / "ranked.parquet")] == [-1.0, -2.0, -1.0]
    judged = pa.table(
        {"query_id": ["q1"], "doc_id": pa.array(["d1"]).dictionary_encode(), "relevance": [2.0]}
    )
    pq.write_table(judged, tmp_path / "qrels.parquet")
    assert read_qrels(tmp_path / "qrels.parquet").to_pydict() == {
        "query_id": ["q1"],
        "document_id": ["d1"],
        "grade": [2],
    }


# Faults


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("q1 Q0 d1 1 0.5", "5 fields, wanted 6"),
        ("q1 Q0 d1 1 0.5 tag more", "7 fields, wanted 6"),
        ("q1 Q0 d1 1 high tag", "score 'high' is not a number"),
        ("q1 Q0 d1 1 1_0 tag", "score '1_0' is not a number"),
        ("q1 Q0  1 0.5 tag", "5 fields, wanted 6"),
    ],
)
@pytest.mark.parametrize("before", [0, 5_000])  # the latter are beyond the sample, and some blocks
def test_a_malformed_line_of_a_run_is_named(tmp_path, monkeypatch, line, wanted, before):
    monkeypatch.setattr(trec, "_BLOCK", 1 << 14)
    good = [f"q{number} Q0 d 1 1 tag" for number in range(before)]
    text = "\n".join([*good, "p1 Q0 d1 1 1 tag", "", line, "p2 Q0 d1 1 1 tag", ""])
    path = written(tmp_path, "run.txt", text)
    with pytest.raises(InputError, match=rf"run\.txt:{before + 3}: {wanted}"):
        rows_of(path)
    packed = written(tmp_path, "run.gz", gzip.compress(text.encode()))
    with pytest.raises(InputError, match=rf"run\.gz:{before + 3}: {wanted}"):
        rows_of(packed)


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = written(tmp_path, "run", b"q1 Q0 d1 1 1 tag\nq1 Q0 d\xff2 2 0 tag\n")
    with pytest.raises(InputError, match=r"run:2: not UTF-8 at byte 8"):
        rows_of(path)


@pytest.mark.parametrize(
    ("line", "wanted"), [("q 0 d", "3 fields"), ("q 0 d 1.5", "grade '1.5'"), ("q 0 d x", "grade 'x'")]
)
def test_a_malformed_line_of_qrels_is_named(tmp_path, line, wanted):
    with pytest.raises(InputError, match=rf"qrels:2: {wanted}"):
        read_qrels(written(tmp_path, "qrels", f"q 0 e 1\n{line}\n"))
    with pytest.raises(InputError, match=r"test\.tsv:3: 2 fields, wanted 3"):
        read_qrels(written(tmp_path, "test.tsv", "query-id\tcorpus-id\tscore\nq\td\t1\nq\td\n"))


@pytest.mark.parametrize("content", ["", "\n\n", "query-id\tcorpus-id\tscore\n"])
def test_an_empty_file_is_refused(tmp_path, content):
    with pytest.raises(InputError, match="file"):
        read_qrels(written(tmp_path, "file", content))
    with pytest.raises(InputError, match="file"):
        rows_of(written(tmp_path, "file", content))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    whole = gzip.compress(RUN.encode() * 1000)
    for name, content in (
        ("cut.gz", whole[:-50]),
        ("bad.gz", whole[:20] + b"\0" * 40),
        ("x.parquet", b"PAR1 no"),
    ):
        with pytest.raises(InputError, match=name):
            rows_of(written(tmp_path, name, content))
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            rows_of(path)


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"qid": ["a"], "score": [1.0]}, "no column for the document"),
        ({"qid": ["a"], "docid": [None], "score": [1.0]}, "'docid' has gaps|type null"),
        ({"qid": [1.5], "docid": ["d"], "score": [1.0]}, "'qid' has type double"),
        ({"qid": ["a"], "docid": ["d"], "score": ["high"]}, "score"),
        ({"qid": ["a"], "docid": ["d"], "score": [None]}, "score"),
        (
            {"qid": pa.array([], "str"), "docid": pa.array([], "str"), "score": pa.array([], pa.float64())},
            "no rows",
        ),
    ],
)
def test_faulty_parquet_is_refused(tmp_path, columns, wanted):
    pq.write_table(pa.table(columns), tmp_path / "run.parquet")
    with pytest.raises(InputError, match=wanted):
        rows_of(tmp_path / "run.parquet")


PIECES = st.sampled_from(
    [
        *b"q1 q2 Q0 d1 d2 1 0.5 nan inf 1e999 tag - , #".split(),
        *[b'"', b"\xff", b"\xc3\xa9", b"\0", b"\xef\xbb\xbf", b"\xe2\x80\xa8"],
        *[b" ", b" ", b" ", b" ", b"\t", b"\n", b"\n", b"\r", b"\r\n", b"\x0b"],
    ]
)
LINES = st.lists(
    st.sampled_from(
        [b"q1 Q0 d1 1 1 t\n", b"q1 Q0 d2 2 0.5 t\n", b"q2 0 d1 1\n", b"q1 0 d1 1\n", b"q1\td1\t1\n"]
    )
    | PIECES,
    max_size=14,
).map(b"".join)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(b"q1 Q0 d1 1 0.5 ", b"q1 0 d1 1")
@example(b"\x1f\x8b", b"PAR1")
@given(LINES | st.binary(max_size=60), LINES | st.just(b"q1 0 d1 1\n"))
def test_any_bytes_give_scores_or_an_error_that_names_the_file(tmp_path, run, qrels):
    paths = written(tmp_path, "fuzz-run", run), written(tmp_path, "fuzz-qrels", qrels)
    message = ""
    try:
        scores = score_run_file(*paths)
    except InputError as error:
        message = str(error)
    else:
        assert all(((part >= 0) & (part <= 1)).all() for part in scores.metrics)
    named = ("fuzz-run", "fuzz-qrels", "query '", "hardly anything joins", "no query has a relevant document")
    assert not message or any(words in message for words in named)


# Scores of files


@pytest.mark.parametrize("ties", ["given", "trec"])
def test_files_of_every_kind_give_the_scores_of_dictionaries(tmp_path, ties):
    run, qrels = made(1, ties=True)
    wanted = score(run, qrels, KS, ties=ties)
    frame, judged = frames(run, qrels)
    plain = written(tmp_path, "run.trec", trec_text(run)), written(tmp_path, "qrels.trec", qrels_text(qrels))
    packed = [written(tmp_path, f"{path.name}.gz", gzip.compress(path.read_bytes())) for path in plain]
    tables = tmp_path / "run.parquet", tmp_path / "qrels.parquet"
    frame.to_parquet(tables[0])
    judged.to_parquet(tables[1])
    for pair in (plain, packed, tables):
        scores = score_run_file(*pair, KS, ties=ties)
        same(scores, wanted)
        assert scores.report == wanted.report
        assert scores.ties == wanted.ties


def test_a_query_longer_than_any_batch_and_many_short_ones(tmp_path):
    run = {"long": {f"d{number}": -number for number in range(150_000)}}
    run |= {f"q{number}": {"d1": 1.0, f"e{number}": 0.5} for number in range(5_000)}
    qrels = {"long": {"d149999": 1, "d70000": 1}, "q7": {"e7": 1}, "q4999": {"d1": 1}}
    paths = written(tmp_path, "run", trec_text(run)), written(tmp_path, "qrels", qrels_text(qrels))
    scores = score_run_file(*paths, (1, 2, 70_001, 150_000))
    assert scores.metrics.recall.tolist() == [[0, 0, 0.5, 1], [0, 1, 1, 1], [1, 1, 1, 1]]


def test_rows_of_a_query_may_be_scattered_over_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(trec, "_BLOCK", 1 << 12)
    monkeypatch.setattr(blocks, "_PARTITION_ROWS", 500)
    run, qrels = made(2, queries=90)
    lines = trec_text(run).splitlines(keepends=True)
    mixed = [lines[place] for place in np.random.default_rng(1).permutation(len(lines))]
    paths = written(tmp_path, "run", "".join(mixed)), written(tmp_path, "qrels", qrels_text(qrels))
    scores = score_run_file(*paths, KS)
    same(scores, score(run, qrels, KS))
    assert sorted(scores.report.unknown) == sorted(score(run, qrels, KS).report.unknown)


def test_a_document_twice_is_found_in_scattered_files_too(tmp_path):
    lines = [f"q{number % 3} Q0 d{number // 3} 1 {number} t\n" for number in range(300)]
    paths = (
        written(tmp_path, "run", "".join([*lines, "q1 Q0 d4 1 0 t\n"])),
        written(tmp_path, "qrels", "q1 0 d5 1\n"),
    )
    with pytest.raises(InputError, match=r"'q1': document 'd4' stands twice"):
        score_run_file(*paths)


def test_a_nan_score_is_refused_with_the_query(tmp_path):
    paths = (
        written(tmp_path, "run", "q1 Q0 d 1 2 t\nq2 Q0 d 1 nan t\n"),
        written(tmp_path, "qrels", "q1 0 d 1\n"),
    )
    with pytest.raises(InputError, match=r"query 'q2'.*NaN"):
        score_run_file(*paths)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    code = (
        "import resource, sys; from pathlib import Path; from evalkit.scorefiles import score_run_file; "
        "scores = score_run_file(Path(sys.argv[1]), Path(sys.argv[2])); "
        "print(scores.metrics.recall[:, -1].mean(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for queries in (200, 2000):
        run, qrels = tmp_path / f"run-{queries}", tmp_path / f"qrels-{queries}"
        with run.open("w") as stream:
            for query in range(queries):
                stream.write(
                    "".join(f"{query} Q0 d{query}-{rank} {rank} {-rank} t\n" for rank in range(1000))
                )
        qrels.write_text("".join(f"{query} 0 d{query}-{query % 20} 1\n" for query in range(queries)))
        done = subprocess.run(
            [sys.executable, "-c", code, str(run), str(qrels)], capture_output=True, text=True, check=True
        )
        recall, peak = done.stdout.split()
        assert float(recall) == 0.5
        peaks.append(int(peak) / 1024)
    grown = run.stat().st_size / 2**20
    assert grown > 40
    assert peaks[1] - peaks[0] < grown / 3


# What is printed


@pytest.fixture
def files(tmp_path):
    run = "a Q0 d 1 2 t\na Q0 e 2 1 t\nb Q0 e 1 2 t\nb Q0 d 2 2 t\nx Q0 d 1 1 t\n"
    return written(tmp_path, "run", run), written(tmp_path, "qrels", "a 0 d 2\nb 0 d 1\nc 0 d 1\nz 0 d 0\n")


def test_the_table_has_n_beside_means_and_names_what_did_not_join(files, tmp_path):
    categories = written(tmp_path, "categories", "query_id,category\na,easy\nb,hard\n")
    text = score_files(*files, (1, 2), per_query=True, categories=categories)
    assert text == (
        "k  n  precision  recall  reciprocal_rank    ndcg\n"
        "1  3     0.3333  0.3333           0.3333  0.3333\n"
        "2  3     0.3333  0.6667           0.5000  0.5436\n"
        "\n"
        "category       k  n  precision  recall  reciprocal_rank    ndcg\n"
        "(no category)  1  1     0.0000  0.0000           0.0000  0.0000\n"
        "(no category)  2  1     0.0000  0.0000           0.0000  0.0000\n"
        "easy           1  1     1.0000  1.0000           1.0000  1.0000\n"
        "easy           2  1     0.5000  1.0000           1.0000  1.0000\n"
        "hard           1  1     0.0000  0.0000           0.0000  0.0000\n"
        "hard           2  1     0.5000  1.0000           0.5000  0.6309\n"
        "\n"
        "query_id  k  precision  recall  reciprocal_rank    ndcg\n"
        "a         1     1.0000  1.0000           1.0000  1.0000\n"
        "a         2     0.5000  1.0000           1.0000  1.0000\n"
        "b         1     0.0000  0.0000           0.0000  0.0000\n"
        "b         2     0.5000  1.0000           0.5000  0.6309\n"
        "c         1     0.0000  0.0000           0.0000  0.0000\n"
        "c         2     0.0000  0.0000           0.0000  0.0000\n"
        "\n"
        "worst and best case of equal scores\n"
        "K=1: equal scores cross K in 1 queries; precision 0.3333 to 0.6667, recall 0.3333 to 0.6667, "
        "reciprocal_rank 0.3333 to 0.6667, ndcg 0.3333 to 0.6667\n"
        "K=2: equal scores cross K in 0 queries; precision 0.3333 to 0.3333, recall 0.6667 to 0.6667, "
        "reciprocal_rank 0.5000 to 0.6667, ndcg 0.5436 to 0.6667\n"
        "\n"
        "joined: 2 of 3 scored queries have a ranking; 2 of 3 judged documents stand in the ranking of their query\n"
        "note: 1 judged queries have no ranking and score 0: 'c'\n"
        "note: 1 queries have no relevant document among their judgments and are set aside: 'z'\n"
        "note: 1 rankings belong to queries without judgments and are not scored: 'x'"
    )


def test_json_holds_the_same(files):
    content = json.loads(score_files(*files, (1, 2), per_query=True, as_json=True))
    assert content["means"][1] == {
        "k": 2, "n": 3, "precision": pytest.approx(1 / 3), "recall": pytest.approx(2 / 3), "reciprocal_rank": 0.5,
        "ndcg": pytest.approx((1 + 0.6309297535714575) / 3),
    }  # fmt: skip
    assert len(content["per_query"]) == 6
    assert "by_category" not in content
    assert content["ties"][0]["crossing"] == 1
    assert content["join"]["queries_missing_in_run"] == 1
    assert len(content["notices"]) == 3


def test_gain_and_ties_are_passed_on(files):
    linear = json.loads(score_files(*files, (2,), gain="linear", ties="trec", as_json=True))
    assert linear["means"][0]["reciprocal_rank"] == pytest.approx((1 + 0.5) / 3)


def test_qrels_may_be_a_beir_folder(files, tmp_path):
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    with pytest.raises(InputError, match=r"no qrels/test\.tsv"):
        score_files(files[0], folder)
    written(folder / "qrels", "dev.tsv", "query-id\tcorpus-id\tscore\na\td\t1\n")
    assert json.loads(score_files(files[0], folder, as_json=True))["means"][0]["n"] == 1
    written(folder / "qrels", "test.tsv", "query-id\tcorpus-id\tscore\na\td\t1\nb\td\t1\n")
    assert json.loads(score_files(files[0], folder, as_json=True))["means"][0]["n"] == 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("a\teasy\nb\n", ":2: 'b'"), ("a,\n", ":1: 'a,'"), ("a,x\na,y\n", ":2: query 'a' has category 'x'")],
)
def test_faulty_categories_are_refused_with_their_line(tmp_path, text, wanted):
    with pytest.raises(InputError, match=wanted):
        read_categories(written(tmp_path, "categories", text))
    with pytest.raises(InputError, match="absent"):
        read_categories(tmp_path / "absent")


# Writing


def test_what_is_written_is_read_back(tmp_path):
    rows = [("q1", "d#1/p0", 2.0), ("q1", "ü%20", 1.0), ("q2", "d", 1.0)]
    text = write_run(rows, "mine")
    assert text.splitlines()[1] == "q1 Q0 ü%20 2 1.0 mine"
    assert rows_of(written(tmp_path, "run", text)) == rows
    judged = write_qrels([("q1", "d", 2), ("q2", "d", 0)])
    assert read_qrels(written(tmp_path, "qrels", judged)).to_pydict()["grade"] == [2, 0]


@pytest.mark.parametrize("name", ["", "two words", "a\tb", "line\n"])
def test_ids_that_trec_files_cannot_carry_are_refused(name):
    with pytest.raises(InputError, match="white space"):
        write_run([(name, "d", 1.0)], "tag")
    with pytest.raises(InputError, match="white space"):
        write_qrels([("q", name, 1)])


def test_a_column_that_stands_twice_is_refused(tmp_path):
    columns = [pa.array(["q1"]), pa.array(["q1"]), pa.array(["d1"]), pa.array([1.0])]
    names = ["query_id", "query_id", "doc_id", "score"]
    pq.write_table(pa.Table.from_arrays(columns, names=names), tmp_path / "run.parquet")
    with pytest.raises(InputError, match=r"run\.parquet: column 'query_id' stands there 2 times"):
        list(run_batches(tmp_path / "run.parquet"))
