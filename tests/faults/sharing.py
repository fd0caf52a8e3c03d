"""Index a data set, then let three processes evaluate it at the same moment; run by `test_sharing`.

Prints a line of JSON each: the run, or the error. Forked from a process that has never opened an engine.
"""

import json
import os
import sys

import evalkit.embedded_store
import evalkit.ollama_server
import evalkit.qdrant_connection  # imported before the fork
from evalkit.evaluation import evaluate
from evalkit.indexing import index
from evalkit.runs import write_run
from evalkit.settings import EvaluateSettings, IndexSettings


def main(dataset: str) -> None:
    evalkit.embedded_store.LOCK_WAIT = 120.0  # on a busy machine each takes longer
    chosen = {"dataset": dataset, "embedder": "ollama", "embeddings": "none", "embed_batch": 1}
    if os.fork() == 0:
        index(IndexSettings.checked(**chosen))
        os._exit(0)
    os.wait()
    go, start = os.pipe()
    for _ in range(3):
        if os.fork() == 0:
            os.close(start)
            os.read(go, 1)  # ends when the parent closes the other side
            try:
                said = {"run": write_run(evaluate(EvaluateSettings.checked(ks=(1, 3), **chosen))).run_id}
            except Exception as error:
                said = {"error": f"{type(error).__name__}: {error}"}
            os.write(sys.stdout.fileno(), f"{json.dumps(said)}\n".encode())  # one write, one line
            os._exit(0)
    os.close(start)
    for _ in range(3):
        os.wait()


if __name__ == "__main__":
    main(sys.argv[1])
