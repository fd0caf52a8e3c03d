"""What all tests share: outputs in a temporary folder, and example runs made once a worker."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Busy machines are slow at times: no deadline an example. No database: tests leave nothing behind.
settings.register_profile("evalkit", deadline=None, database=None, print_blob=True)
settings.load_profile("evalkit")

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
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path_factory.getbasetemp() / name.lower()))
    return folder


@pytest.fixture(scope="session")
def example_outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs with both example data sets indexed and one run of each, recorded vectors, embedded engine.

    Read only: tests that write use a copy (`shutil.copytree`) or their own outputs.
    """
    from evalkit.evaluation import evaluate
    from evalkit.indexing import index
    from evalkit.runs import write_run
    from evalkit.settings import EvaluateSettings, IndexSettings

    folder = tmp_path_factory.mktemp("example-outputs")
    before = {name: os.environ.pop(name, None) for name in (*ENVIRONMENT, "EVALKIT_OUTPUTS")}
    os.environ["EVALKIT_OUTPUTS"] = str(folder)
    try:
        for dataset in ("platform-runbooks", "worker-runbooks"):
            index(IndexSettings.checked(dataset=dataset))
            write_run(evaluate(EvaluateSettings.checked(dataset=dataset, ks=(1, 3, 5, 10))))
    finally:
        del os.environ["EVALKIT_OUTPUTS"]
        os.environ.update({name: value for name, value in before.items() if value is not None})
    return folder


@pytest.fixture
def example_runs(example_outputs: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run ids of the example outputs by data set; the outputs folder is set to them."""
    from evalkit.runs import list_runs

    monkeypatch.setenv("EVALKIT_OUTPUTS", str(example_outputs))
    runs = list_runs()
    return dict(zip(runs["dataset"], runs["run_id"], strict=True))
