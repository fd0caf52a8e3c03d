"""Work on a disk of 100 MB that is filled and made read-only; run by `test_disks` in a mount namespace of its own.

Prints a JSON line an attempt: what was tried, how it ended and what is left. Each attempt is a forked process, as
the engine would be ended by the system if it touched a full disk.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evalkit.embedded_store
import evalkit.qdrant_connection  # noqa: F401 - imported before the first fork
from evalkit.errors import InfrastructureError
from evalkit.evaluation import evaluate
from evalkit.indexing import index
from evalkit.reporting import write_overview, write_pages
from evalkit.runs import load_run, write_run
from evalkit.settings import EvaluateSettings, IndexSettings
from tests.faults.test_disks import KEPT_FREE

DATASET = "worker-runbooks"


def main() -> None:
    outputs = Path(os.environ["EVALKIT_OUTPUTS"])
    ballast = outputs / "ballast"

    def attempt(name: str, work: Callable[[], Any]) -> None:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                done = work()
                said = {"done": done if isinstance(done, str) else type(done).__name__}
            except InfrastructureError as error:
                said = {"error": str(error)}
            left = [str(path.relative_to(outputs)) for path in sorted(outputs.glob("*/*"))]
            print(json.dumps({"name": name, "left": left, **said}), flush=True)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            print(json.dumps({"name": name, "error": f"ended by signal {os.WTERMSIG(status)}"}), flush=True)

    def fill(keep: int) -> None:
        with ballast.open("wb") as stream:
            stream.truncate(0)
            stream.write(b"0" * max(shutil.disk_usage(outputs).free - keep, 0))

    def put(**more: Any) -> str:
        return index(IndexSettings.checked(dataset=DATASET, **more)).outcome

    def ask() -> Any:
        return evaluate(EvaluateSettings.checked(dataset=DATASET, ks=(1,)))

    def store_on_a_full_disk() -> Any:
        found = ask()
        fill(0)
        return write_run(found)

    for keep in KEPT_FREE:
        fill(keep)
        attempt(f"index, {keep} bytes free", put)
    ballast.unlink()
    attempt("index", put)
    attempt("evaluate", lambda: write_run(ask()).run_id)
    attempt("store, full", store_on_a_full_disk)
    attempt("evaluate, full", ask)
    attempt("report, full", lambda: write_pages(load_run("latest"), [], outputs))
    attempt("overview, full", write_overview)
    attempt("latest, full", lambda: load_run("latest").run_id)
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(outputs)], check=True)
    attempt("index, read-only", put)
    attempt("index anew, read-only", lambda: put(recreate=True))
    attempt("evaluate, read-only", ask)
    attempt("report, read-only", lambda: write_pages(load_run("latest"), [], outputs))
    attempt("latest, read-only", lambda: load_run("latest").run_id)
    subprocess.run(["mount", "-o", "remount,rw", str(outputs)], check=True)
    attempt("index again", put)
    attempt("evaluate again", lambda: write_run(ask()).run_id)


if __name__ == "__main__":
    main()
