"""Processes that index and evaluate one data set at the same moment. Run as a script; prints a line of JSON each."""

import json
import os
import sys

import evalkit.embedded_store
import evalkit.qdrant_connection  # imported before the fork
from evalkit.evaluation import evaluate
from evalkit.indexing import index
from evalkit.settings import EvaluateSettings, IndexSettings

DATASET = "platform-runbooks"


def work() -> dict[str, object]:
    report = index(IndexSettings.checked(dataset=DATASET, upsert_batch=32))
    run = evaluate(EvaluateSettings.checked(dataset=DATASET, ks=(3,)))
    return {
        "outcome": report.outcome,
        "points": report.verification.checked["points"],
        "complete": float(run.scores["complete"].mean()),
        "rankings": len(run.rankings),
    }


def main(number: int) -> None:
    evalkit.embedded_store.LOCK_WAIT = 120.0  # on a busy machine each takes longer
    go, start = os.pipe()
    children = []
    for _ in range(number):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(start)
            os.read(go, 1)  # ends when the parent closes the other side
            try:
                said: dict[str, object] = work()
            except Exception as error:
                said = {"error": type(error).__name__, "text": str(error)}
            os.write(write, json.dumps(said).encode())
            os._exit(0)
        os.close(write)
        children.append(read)
    os.close(start)
    for read in children:
        with os.fdopen(read) as stream:
            print(stream.read())
        os.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]))
