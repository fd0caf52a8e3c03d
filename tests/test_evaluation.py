"""The two example data sets against figures computed outside the project by plain loops."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evalkit.dataset import load_dataset
from evalkit.embedded_store import EmbeddedStore
from evalkit.errors import InfrastructureError, InputError
from evalkit.evaluation import evaluate, small_corpus
from evalkit.indexing import index
from evalkit.measures import MEASURES, means
from evalkit.rescoring import score_run_again
from evalkit.runs import load_run
from evalkit.settings import EvaluateSettings, IndexSettings
from evalkit.summary import summarize
from evalkit.views import overview
from tests.htmlparts import text_of

EXPECTED = Path(__file__).parent / "expected"
DATASETS = ("worker-runbooks", "platform-runbooks")


def expected(dataset, what):
    return json.loads((EXPECTED / f"{dataset}-{what}.json").read_text())


@pytest.fixture(params=DATASETS)
def run(request, example_runs):
    return load_run(example_runs[request.param])


def test_rankings_as_measured_outside(run):
    for case_id, hits in expected(run.record.dataset.name, "rankings").items():
        rows = run.rankings[(run.rankings["case_id"] == case_id) & (run.rankings["k"] == 5)]
        assert list(rows["document_id"]) == [hit["document_id"] for hit in hits]
        assert list(rows["chunk_id"]) == [hit["chunk_id"] for hit in hits]
        assert list(rows["score"]) == pytest.approx([hit["score"] for hit in hits], abs=1e-4)


def test_scores_as_computed_outside(run):
    figures = expected(run.record.dataset.name, "scores")
    assert set(figures["cases"]) == set(run.scores["case_id"])
    for row in run.scores.to_dict("records"):
        wanted = figures["cases"][row["case_id"]][str(row["k"])]
        for measure in MEASURES:
            assert row[measure] == pytest.approx(wanted[measure], abs=1e-5), (
                row["case_id"],
                row["k"],
                measure,
            )


def test_means_and_category_means_with_their_n(run):
    figures = expected(run.record.dataset.name, "scores")["means"]
    for category, scores in [("all", run.scores), *run.scores.groupby("category")]:
        for row in means(scores).to_dict("records"):
            wanted = figures[category][str(row["k"])]
            assert row["n"] == wanted["n"]
            for measure in MEASURES:
                assert row[measure] == pytest.approx(wanted[measure], abs=1e-5)


def test_the_table_that_the_readme_shows(example_runs):
    run = load_run(example_runs["worker-runbooks"])
    table = means(run.scores).set_index("k").loc[[1, 3, 5]].round(3)
    assert table[[*MEASURES, "n"]].to_numpy().tolist() == [
        [1.000, 0.857, 1.000, 1.000, 0.929, 0.857, 7],
        [0.429, 1.000, 1.000, 1.000, 1.000, 1.000, 7],
        [0.257, 1.000, 1.000, 1.000, 1.000, 1.000, 7],
    ]


def test_chunks_and_facts_count_differently(example_runs):
    first = load_run(example_runs["worker-runbooks"]).scores.query("k == 1").set_index("case_id")
    assert first.loc["drain-deadline", ["recall", "coverage"]].tolist() == [0.5, 1.0]
    assert first.loc["shutdown-sequence", ["recall", "coverage", "complete"]].tolist() == [0.5, 0.5, 0.0]


def test_unsupported_questions_stand_apart(example_runs):
    run = load_run(example_runs["worker-runbooks"])
    unsupported = run.questions[~run.questions["answerable"]]
    assert set(unsupported["case_id"]) == {"ingress-timeout", "record-retention"}
    assert unsupported["accepted"].all()
    assert (unsupported["result_count"] == unsupported["k"].clip(upper=7)).all()
    assert not set(unsupported["case_id"]) & set(run.scores["case_id"])
    assert run.rankings.loc[run.rankings["case_id"] == "ingress-timeout", "grade"].isna().all()


def test_checks_and_counts_are_recorded(example_runs):
    record = load_run(example_runs["worker-runbooks"]).record
    assert record.checks.prefix == {"pairs": 27, "differing": []}
    assert record.checks.exact_search["compared"] == 9
    assert record.checks.exact_search["recall"] == 1
    assert record.checks.exact_search["approximate_index"] is False
    assert record.checks.ties == {"1": [], "3": [], "5": [], "10": []}
    assert record.counts["documents"] == 7
    assert record.counts["chunks"] == 11
    assert record.counts["eligible_chunks"] == 7
    assert record.search.filter == {
        "chunking_version": ("section-paragraphs-80w-overlap1-v1",),
        "document_type": ("runbook",),
        "publication_state": ("published",),
    }


def test_equal_inputs_give_equal_bytes(example_runs, tmp_path, monkeypatch):
    from evalkit.runs import TABLES, write_run

    first = load_run(example_runs["worker-runbooks"])
    monkeypatch.chdir(tmp_path)
    evaluation = evaluate(EvaluateSettings.checked(dataset="worker-runbooks", ks=(1, 3, 5, 10)))
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path / "elsewhere"))
    second = write_run(evaluation)
    assert first.run_id != second.run_id
    for table in TABLES:
        name = f"{table}.parquet"
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes(), name


def test_a_threshold_empties_rankings_and_scores_zero(example_runs):
    evaluation = evaluate(EvaluateSettings.checked(dataset="worker-runbooks", threshold=0.99))
    assert evaluation.rankings.empty
    assert (evaluation.scores[list(MEASURES)] == 0).all(axis=None)
    assert not evaluation.questions["accepted"].any()
    assert evaluation.questions["top_score"].isna().all()
    assert len(evaluation.scores) == 21


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", "Another text."),
        ("chunk_id", "elsewhere/p0"),
        ("chunk_id", [1]),
        ("whole payload", "of another passage"),
        ("id", "00000000-0000-0000-0000-000000000000"),
    ],
)
def test_what_changes_in_the_collection_after_its_verification_is_refused(
    example_runs, monkeypatch, field, value
):
    """Tables hold the texts of the corpus, so a hit must be a passage of it."""
    asked = EmbeddedStore.query

    def changed(*given, **named):
        rankings = asked(*given, **named)
        hit = rankings[2][0]
        if field == "id":
            rankings[2][0] = replace(hit, id=value)
        elif field == "whole payload":
            hit.payload.update(next(one.payload for hits in rankings for one in hits if one.id != hit.id))
        else:
            hit.payload[field] = value
        return rankings

    monkeypatch.setattr(EmbeddedStore, "query", changed)
    with pytest.raises(InputError, match="another payload or id than was indexed") as caught:
        evaluate(EvaluateSettings(dataset="worker-runbooks"))
    third = load_dataset("worker-runbooks").questions[2].id
    assert "1 hit with" in str(caught.value)
    assert f"case {third}: " in str(caught.value)


@pytest.mark.parametrize("retention", ["snippet", "hash", "none"])
def test_retention(example_runs, retention):
    texts = evaluate(EvaluateSettings.checked(dataset="worker-runbooks", retention=retention)).rankings[
        "text"
    ]
    if retention == "none":
        assert texts.isna().all()
    else:
        assert set(texts.str.len()) <= ({64} if retention == "hash" else set(range(1, 201)))


def test_nothing_indexed_is_said(outputs):
    with pytest.raises(InputError, match="index"):
        evaluate(EvaluateSettings.checked(dataset="worker-runbooks"))
    assert not (outputs / "runs").exists()


def test_a_passed_deadline_ends_the_run(example_runs):
    with pytest.raises(InfrastructureError, match="deadline"):
        evaluate(EvaluateSettings.checked(dataset="worker-runbooks", deadline=0.001))


@pytest.mark.parametrize(
    ("k", "eligible", "said"),
    [
        (3, 7, []),
        (4, 8, ["K = 4 of 8 eligible passages: a ranking holds half of the corpus or more"]),
        (10, 11, ["K = 10 of 11 eligible passages: a ranking holds half of the corpus or more"]),
        (11, 11, ["K = 11 of 11 eligible passages: a ranking holds the whole corpus"]),
        (1, 1, ["K = 1 of 1 eligible passage: a ranking holds the whole corpus"]),
    ],
)
def test_a_k_near_the_size_of_the_corpus_is_pointed_out(k, eligible, said):
    found = list(small_corpus((1, k) if k > 1 else (1,), {"eligible_chunks": eligible}))
    assert [text.split("; ")[0] for text in found] == said


def test_a_k_near_the_size_of_the_corpus_is_noticed_in_the_run_its_summary_and_its_page(example_runs):
    small, large = (load_run(example_runs[name]) for name in ("worker-runbooks", "platform-runbooks"))
    (notice,) = small.record.notices
    assert notice.startswith("K = 10 of 7 eligible passages: a ranking holds the whole corpus")
    assert large.record.notices == ()
    assert notice in summarize(small).splitlines()
    assert notice in text_of(overview.verdict(small))
    assert score_run_again(small).record.notices[-1] == notice


@pytest.mark.thorough
def test_indexing_again_embeds_nothing(own_outputs):
    assert index(IndexSettings.checked(dataset="worker-runbooks")).counts["embedded"] == 0


@pytest.mark.thorough
def test_where_an_approximate_index_stands_exact_search_is_asked_for_too(outputs):
    index(IndexSettings.checked(dataset="platform-runbooks", hnsw_m=4, hnsw_ef_construct=4))
    found = evaluate(EvaluateSettings.checked(dataset="platform-runbooks", ks=(10,), hnsw_ef=1))
    exact = evaluate(EvaluateSettings.checked(dataset="platform-runbooks", ks=(10,), exact=True))
    compared = found.record.checks.exact_search
    assert (compared["approximate_index"], compared["compared"]) == (True, 132)
    assert exact.record.checks.exact_search == {}
    key = ["case_id", "document_id", "chunk_id"]
    both = found.rankings[key].merge(exact.rankings[key]).groupby("case_id").size()
    assert compared["recall"] == pytest.approx(
        both.reindex(exact.questions["case_id"], fill_value=0).mean() / 10
    )
    assert compared["recall"] < 1
