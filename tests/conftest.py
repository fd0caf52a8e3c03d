"""What all tests share: outputs in a temporary folder, and example runs made once and copied."""

import fcntl
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

# Busy machines are slow at times: no deadline an example. No database: tests leave nothing behind.
settings.register_profile("evalkit", deadline=None, database=None, print_blob=True)
settings.register_profile("fast", settings.get_profile("evalkit"), max_examples=25)
settings.load_profile("evalkit")

# Thousands of files, 3 GB at a time: in memory where there is room, which is faster by a third than on a disk.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 8e9:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Without it jsonschema saves a second of grammars, and a check of addresses that no notebook has.
sys.modules["rfc3987_syntax"] = None
# What is imported stays until the end: to look through it for garbage, again and again, would take seconds.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    gc.collect()
    gc.freeze()


ENVIRONMENT = (
    "QDRANT_URL",
    "QDRANT_API_KEY",
    "QDRANT_PREFER_GRPC",
    "QDRANT_GRPC_PORT",
    "QDRANT_TIMEOUT",
    "OLLAMA_HOST",
    "OLLAMA_API_KEY",
    "EVALKIT_ALLOW_PLAIN_HTTP_HOSTS",
)


@pytest.fixture(autouse=True)
def outputs(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Nothing that a test writes lands in the project or the user's home, and no server of the user's is asked."""
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "outputs"
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(folder))
    for name, home in homes(tmp_path_factory).items():
        monkeypatch.setenv(name, home)
    return folder


def shared_base(factory: pytest.TempPathFactory) -> Path:
    """Temporary folder of all workers of this test run."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def homes(factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where Jupyter and IPython keep what they would keep in the user's home."""
    names = ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")
    return {name: str(shared_base(factory) / name.lower()) for name in names}


def made_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], None]) -> Path:
    """Let the first worker that needs a folder build it, and the others wait for it."""
    shared = shared_base(factory)
    folder, draft = shared / name, shared / f"{name}-draft"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            build(draft)
            draft.rename(folder)
    return folder


def copied(source: Path, target: Path) -> Path:
    """Copy a folder without reading and writing the holes that collections are mostly made of."""
    shutil.copytree(source, target, copy_function=_copy_data, dirs_exist_ok=True)
    return target


def _copy_data(source: str, target: str) -> None:
    with Path(source).open("rb") as read, Path(target).open("wb") as write:
        size = os.fstat(read.fileno()).st_size
        end = 0
        while end < size:
            try:
                start = os.lseek(read.fileno(), end, os.SEEK_DATA)
            except OSError:  # a hole up to the end
                break
            end = os.lseek(read.fileno(), start, os.SEEK_HOLE)
            os.pwrite(write.fileno(), os.pread(read.fileno(), end - start, start), start)
        write.truncate(size)


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set variables for a while, with no server of the user's; for fixtures that live longer than a test."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ENVIRONMENT:
            patch.delenv(name, raising=False)
        for name, value in values.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def untouched_outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs with both example data sets indexed and one run of each, recorded vectors, embedded engine.

    To be copied: nobody opens its collections, since the engine writes to what it opens.
    """

    def build(folder: Path) -> None:
        from evalkit.evaluation import evaluate
        from evalkit.indexing import index
        from evalkit.runs import write_run
        from evalkit.settings import EvaluateSettings, IndexSettings

        with environment(EVALKIT_OUTPUTS=str(folder)):
            for dataset in ("platform-runbooks", "worker-runbooks"):
                index(IndexSettings.checked(dataset=dataset))
                write_run(evaluate(EvaluateSettings.checked(dataset=dataset, ks=(1, 3, 5, 10))))

    return made_once(tmp_path_factory, "untouched-outputs", build)


@pytest.fixture(scope="session")
def example_outputs(untouched_outputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example outputs for all tests of a worker that only read."""
    return copied(untouched_outputs, tmp_path_factory.mktemp("example") / "outputs")


@pytest.fixture
def own_outputs(untouched_outputs: Path, outputs: Path) -> Path:
    """A copy of the example outputs for a test that writes; the outputs folder is set to it."""
    return copied(untouched_outputs, outputs)


@pytest.fixture(scope="session")
def example_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs with the whole report of worker-runbooks, pages with code too; read only."""

    def build(folder: Path) -> None:
        from evalkit.reporting import report

        with environment(EVALKIT_OUTPUTS=str(folder), **homes(tmp_path_factory)):
            report({"dataset": "worker-runbooks"}, code=True, progress=False)

    return made_once(tmp_path_factory, "example-report", build)


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """No notebook is executed: to try it fails the test."""
    from evalkit import notebooks

    def refuse(*_args: object, **_settings: object) -> None:
        raise AssertionError("a kernel would have started")

    monkeypatch.setattr(notebooks, "execute_notebook", refuse)


@pytest.fixture
def example_runs(example_outputs: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run ids of the example outputs by data set; the outputs folder is set to them."""
    from evalkit.runs import list_runs

    monkeypatch.setenv("EVALKIT_OUTPUTS", str(example_outputs))
    runs = list_runs()
    return dict(zip(runs["dataset"], runs["run_id"], strict=True))
