"""Index in forked children that kill themselves at every step; after each, look at what is left.

Run as a script, so that the children fork from a process that has never opened an engine. Prints one JSON line
per kill: the step, what the collection said afterwards, and how the next indexing ended.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import evalkit.qdrant_connection  # noqa: F401 - imported before the first fork
from evalkit import embedded_store
from evalkit.embedded_store import EmbeddedStore
from evalkit.errors import InputError
from evalkit.evaluation import evaluate
from evalkit.indexing import index
from evalkit.server_store import ServerStore
from evalkit.settings import EvaluateSettings, IndexSettings
from evalkit.stores import open_store

DATASET = "worker-runbooks"
embedded_store.FLUSH = 4  # a batch; what is not flushed is lost with the process
METHODS = ("create", "index_fields", "upsert", "delete", "finish", "write_state", "drop")


def in_child(work: Any, *values: Any) -> tuple[int, Any]:
    """Run `work` in a forked child; gives its wait status and what it returned, None when it was killed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.write(write, json.dumps(work(*values)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        said = stream.read()
    _, status = os.waitpid(pid, 0)
    return status, json.loads(said) if said else None


def index_with_steps(at: int | None, recreate: bool) -> int:
    """Index, and be killed at step number `at`; gives the number of steps."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def with_steps(method: Any) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            step()
            return method(*args, **kwargs)

        return wrapped

    store = ServerStore if os.environ.get("QDRANT_URL") else EmbeddedStore
    for name in METHODS:
        setattr(store, name, with_steps(getattr(store, name)))
    for owner, name in ((Path, "rename"), (Path, "replace"), (os, "fdopen")):
        setattr(owner, name, with_steps(getattr(owner, name)))
    index(IndexSettings.checked(dataset=DATASET, upsert_batch=4, recreate=recreate))
    return steps


def look() -> dict[str, Any]:
    """What the next user finds: the state, whether evaluation takes it, and what indexing makes of it."""
    settings = EvaluateSettings.checked(dataset=DATASET, ks=(1,))
    with open_store() as store:
        names = store.collections()
        found = store.read_state(names[0]) if names else None
    try:
        evaluate(settings)
        evaluated = "evaluated"
    except InputError as error:
        evaluated = "incomplete" if "incomplete" in str(error) else str(error)
    report = index(IndexSettings.checked(dataset=DATASET, upsert_batch=4))
    return {
        "collections": names,
        "state": None if found is None else found.state,
        "evaluated": evaluated,
        "outcome": report.outcome,
        "sent": report.counts["sent"],
        "points": report.verification.checked["points"],
    }


def drop() -> None:
    with open_store() as store:
        for name in store.collections():
            store.drop(name)


def main(recreate: bool) -> None:
    status, steps = in_child(index_with_steps, None, False)
    assert status == 0, status
    if recreate:  # what differs is at the start: the old collection goes, the new one comes
        steps = 8
    for at in range(1, steps + 1):
        if not recreate:
            in_child(drop)
        status, _ = in_child(index_with_steps, at, recreate)
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        status, left = in_child(look)
        print(json.dumps({"step": at, "status": status, **(left or {})}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] == "recreate")
