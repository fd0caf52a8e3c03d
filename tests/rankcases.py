"""Made rankings and judgments for the tests of scoring."""

import random

import pandas as pd

KS = (1, 3, 5, 10, 100)
TREC_MEASURES = {"P.1,3,5,10,100", "recall.1,3,5,10,100", "recip_rank", "ndcg_cut.1,3,5,10,100"}


def made(seed, queries=40, depth=110, corpus=300, ties=False, shuffled=False):
    """Dictionaries of a run and of judgments; some judged queries lack a ranking, some rankings lack judgments."""
    source = random.Random(seed)
    documents = [f"d{number:03d}" for number in range(corpus)]
    run, qrels = {}, {}
    for number in range(queries):
        name = f"q{number}"
        if number % 9 != 4:
            picked = source.sample(documents, depth + source.randint(-100, 20))
            scores = source.sample(range(10_000), len(picked))
            scores = [score % 5 for score in scores] if ties else scores
            rows = list(zip(picked, map(float, scores), strict=True))
            run[name] = dict(rows if shuffled else sorted(rows, key=lambda row: -row[1]))
        if number % 11 != 5:
            judged = source.sample(documents, source.randint(1, 40))
            qrels[name] = {document: source.randint(-1, 3) for document in judged}
    return run, qrels


def frames(run, qrels):
    """The same as DataFrames."""
    rows = [(query, *row) for query, ranking in run.items() for row in ranking.items()]
    judged = [(query, *row) for query, grades in qrels.items() for row in grades.items()]
    return (
        pd.DataFrame(rows, columns=["query_id", "document_id", "score"]),
        pd.DataFrame(judged, columns=["query_id", "document_id", "grade"]),
    )


def trec_text(run):
    """The same as TREC run."""
    return "".join(
        f"{query} Q0 {document} {rank} {score} tag\n"
        for query, ranking in run.items()
        for rank, (document, score) in enumerate(ranking.items(), 1)
    )


def qrels_text(qrels):
    """The same as TREC qrels."""
    return "".join(
        f"{query} 0 {document} {grade}\n" for query, held in qrels.items() for document, grade in held.items()
    )
