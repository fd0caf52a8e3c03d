"""Work in forked children that are killed at every step, and look at what they leave; run by `test_kills`.

A step is whatever changes the outputs folder: a file opened for writing, a folder made, a rename, a removal. The
children are forked from a process that has never opened an engine. Prints one JSON line a kill.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pyarrow.parquet as pq

import evalkit.qdrant_connection  # noqa: F401 - imported before the first fork
from evalkit import all_runs, embedded_store, indexing, pages
from evalkit.evaluation import Evaluation, evaluate, new_run_id
from evalkit.indexing import index
from evalkit.pages import NotebookPage
from evalkit.reporting import write_overview, write_pages
from evalkit.rescoring import score_run_again
from evalkit.runs import TABLES, Run, list_runs, load_run, write_run
from evalkit.settings import EvaluateSettings, IndexSettings
from evalkit.stores import open_store
from tests.datasets import case, write_dataset
from tests.fakes.embedder import HashEmbedder

OUTPUTS = Path(os.environ["EVALKIT_OUTPUTS"])
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.copyfile")


def forked(work: Callable[[], Any]) -> int:
    """Run `work` in a forked child; give the signal that ended it, or 0."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    return ended_by(pid)


def killed_after(batches: int, work: Callable[[Callable[[object], Any]], Any]) -> int:
    """Run `work` in a child, and kill it from outside when it has told of so many batches; give its signal."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        told = 0

        def tell(_: object) -> None:
            nonlocal told
            told += os.write(write, b".")
            if told == batches + 2:  # where the kill comes late the child does not get to its end before
                time.sleep(600)

        work(tell)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        told.read(batches)
        os.kill(pid, signal.SIGKILL)
    return ended_by(pid)


def ended_by(pid: int) -> int:
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or status == 0, status
    return os.WTERMSIG(status)


def killed_at(step: int, work: Callable[[], Any]) -> int:
    """Run `work` in a child that kills itself before its step number `step`; gives its signal, 0 when it was done."""

    def child() -> None:
        left = step

        def note() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            writes = event in CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR))
            if writes and str(arguments[-1 if event == "shutil.copyfile" else 0]).startswith(str(OUTPUTS)):
                note()

        write_table = pq.write_table

        def watched(*values: Any, **more: Any) -> None:  # written below Python, out of sight of `watch`
            note()
            write_table(*values, **more)

        pq.write_table = watched
        sys.addaudithook(watch)
        work()

    return forked(child)


def is_whole(run: Run, evaluation: Evaluation) -> bool:
    return all(getattr(run, name).equals(getattr(evaluation, name)) for name in TABLES)


def runs(evaluation: Evaluation) -> None:
    """Kill the storing of a run."""
    step, ended = 0, signal.SIGKILL
    while ended:
        step += 1
        run_id = new_run_id(evaluation.record.started)
        new = replace(evaluation, record=evaluation.record.model_copy(update={"run_id": run_id}))
        ended = killed_at(step, lambda new=new: write_run(new))
        there = list(list_runs()["run_id"])
        whole = is_whole(load_run(run_id), evaluation) if run_id in there else None
        latest = load_run("latest").run_id
        print(json.dumps({"of": "run", "signal": ended, "whole": whole, "latest": latest in there}))


def report(evaluation: Evaluation) -> None:
    """Kill the writing of a run's report and of the list of runs."""
    run = load_run("latest")
    folder = OUTPUTS.parent / "executed"
    folder.mkdir()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Made")])
    nbformat.write(notebook, folder / "evaluate.ipynb")
    done = [NotebookPage("evaluate", notebook)]

    def work() -> None:
        write_pages(run, done, folder)
        write_overview()

    work()
    for module, page, given in (  # rendered once: the writing is what is killed
        (pages, "notebook_page", (done[0], run, done)),
        (pages, "front_page", (run, done)),
        (all_runs, "overview_page", ()),
    ):
        text = getattr(module, page)(*given)
        setattr(module, page, lambda *_, text=text, **__: text)
    step, ended = 0, signal.SIGKILL
    while ended:
        step += 1
        if step % 2:  # a report that is there is replaced as a whole, too
            shutil.rmtree(run.folder / "report", ignore_errors=True)
        ended = killed_at(step, work)
        place = run.folder / "report"
        names = sorted(path.name for path in place.iterdir()) if place.exists() else None
        ends = [
            path.read_text(encoding="utf-8").rstrip().endswith("</html>")
            for path in (*place.glob("*.html"), OUTPUTS / pages.OVERVIEW)
            if path.exists()
        ]
        whole = is_whole(load_run(run.run_id), evaluation)
        print(json.dumps({"of": "report", "signal": ended, "report": names, "ends": all(ends), "run": whole}))


def engine() -> None:
    """Kill indexing while the embedded engine is at work, and let the next one end, again and again."""
    documents = {
        f"doc-{number:03}": "\n\n".join(f"## S{part}\n\nText {number} {part}." for part in range(8))
        for number in range(24)
    }
    cases = [case("one", relevant=[{"document": "doc-001", "chunk": "s1/p0"}])]
    dataset = write_dataset(OUTPUTS.parent / "large", documents, cases)
    indexing.open_embedder = lambda _: HashEmbedder(32, batch_size=64)
    embedded_store.FLUSH = 16  # of 192 points: kills come between and into flushes
    chosen = {"dataset": str(dataset), "embed_batch": 64, "upsert_batch": 8, "verify_sample": 1000}

    def put(progress: Callable[[object], Any] = lambda _: None, recreate: bool = False) -> str:
        return index(IndexSettings.checked(**chosen, recreate=recreate), progress).outcome

    def content() -> str:
        with open_store() as store:
            (name,) = store.collections()
            points = [
                (point.id, point.payload, point.vector.tolist()) for point in store.scroll(name, vectors=True)
            ]
            return repr((store.read_state(name), points))

    notes = OUTPUTS.parent / "notes.txt"

    def undisturbed() -> None:
        put()
        notes.write_text(content())

    assert forked(undisturbed) == 0
    for batches in (1, 3, 8, 13, 22):  # of 24
        ended = killed_after(batches, lambda told: put(told, recreate=True))
        states = [json.loads(path.read_text())["state"] for path in OUTPUTS.glob("collections/*/state.json")]

        def finish(ended: int = ended, states: list[str] = states) -> None:
            outcome = put()
            same = content() == notes.read_text()
            print(json.dumps({"signal": ended, "states": states, "outcome": outcome, "same": same}))

        assert forked(finish) == 0


def main() -> None:
    if sys.argv[1] == "engine":
        engine()
        return

    def prepare() -> None:
        index(IndexSettings.checked(dataset="worker-runbooks"))
        write_run(evaluate(EvaluateSettings.checked(dataset="worker-runbooks", ks=(1, 3))))

    assert forked(prepare) == 0
    evaluation = score_run_again(load_run("latest"))
    report(evaluation)  # first, while the list of runs is short
    runs(evaluation)


if __name__ == "__main__":
    main()
