"""Secrets of the environment turn up nowhere, over a whole passing and a whole failing run."""

import base64
import logging
import re
import socket
import traceback
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evalkit import reporting, transport
from evalkit.cli import app
from evalkit.errors import InfrastructureError, InputError
from evalkit.notebooks import run_notebook
from tests.fakes.http import status
from tests.fakes.ollama import EMBED, FakeOllama
from tests.fakes.qdrant import FakeQdrant
from tests.faults.catalogue import QUERY, WRITE

pytestmark = pytest.mark.server

SECRETS = {
    "QDRANT_API_KEY": "marker-qdrant-4711",
    "OLLAMA_API_KEY": "marker-ollama-4712",
    "HF_TOKEN": "marker-hub-4713",
    "DATABASE_PASSWORD": "marker-database-4714",
    "HTTPS_PROXY": "http://someone:marker-proxy-4715@proxy.example:3128",
}
MARKERS = re.findall(r"marker-[a-z]+-[0-9]+", " ".join(SECRETS.values()))
CHOSEN = ["--dataset", "worker-runbooks", "--embedder", "ollama"]


@pytest.fixture
def servers(tmp_path, monkeypatch):
    """Two servers that want their keys, and an environment full of secrets."""
    qdrant, ollama = FakeQdrant(tmp_path / "engine", key=SECRETS["QDRANT_API_KEY"]), FakeOllama()
    ollama.key = SECRETS["OLLAMA_API_KEY"]
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.001)
    with qdrant, ollama:
        monkeypatch.setenv("QDRANT_URL", qdrant.url)
        monkeypatch.setenv("OLLAMA_HOST", ollama.url)
        yield {"Qdrant": qdrant, "Ollama": ollama}


def secrets_in(text: str) -> list[str]:
    """Markers that a text shows, as they are or as basic authentication would carry them."""
    encoded = [base64.b64encode(marker.encode()).decode().rstrip("=")[:-2] for marker in MARKERS]
    return [one for one in (*MARKERS, *encoded) if one in text]


def assert_no_secret_in_files(*folders: Path) -> None:
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files
    found = {str(path): secrets_in(path.read_bytes().decode("latin-1")) for path in files}
    for path in files:
        if path.suffix == ".parquet":  # compressed: its bytes show nothing
            found[f"{path}, read"] = secrets_in(pq.read_table(path).to_pandas().to_csv())
    assert {path: shown for path, shown in found.items() if shown} == {}


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    text = result.output + result.stderr
    if result.exception and not isinstance(result.exception, SystemExit):
        text += "".join(traceback.format_exception(result.exception))
    return result.exit_code, text


@pytest.mark.notebook
@pytest.mark.slow
def test_a_passing_run_shows_no_secret(servers, outputs, tmp_path, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(reporting, "NOTEBOOKS", ("evaluate",))
    commands = [
        ["index", *CHOSEN],
        ["evaluate", *CHOSEN],
        ["verify", "latest"],
        ["gate", "latest", "--min", "complete@3=0.5", "--junit", str(outputs / "junit.xml")],
    ]
    said = [run(*command) for command in commands]
    assert [code for code, _ in said] == [0] * len(said), said
    reporting.report({"dataset": "worker-runbooks", "embedder": "ollama"}, code=True, progress=False)
    assert all(
        request.headers["api-key"] == SECRETS["QDRANT_API_KEY"] for request in servers["Qdrant"].requests
    )
    assert {request.headers["authorization"] for request in servers["Ollama"].requests} == {
        f"Bearer {SECRETS['OLLAMA_API_KEY']}"
    }
    assert secrets_in("".join(text for _, text in said)) == []
    assert secrets_in(caplog.text) == []
    assert secrets_in("".join(capfd.readouterr())) == []
    assert_no_secret_in_files(outputs)


ECHO = f"what came was api-key: {MARKERS[0]}, Authorization: Bearer {MARKERS[1]}"


def echo(code: int, path: str):
    """A server that repeats in its error what it was sent."""
    return status(code, path, body={"error": ECHO, "status": {"error": ECHO}})


@pytest.mark.parametrize(
    ("server", "command", "fault"),
    [
        *[("Qdrant", "index", echo(code, WRITE)) for code in (400, 401, 403, 409, 422, 500)],
        *[("Qdrant", "evaluate", echo(code, QUERY)) for code in (400, 404, 500)],
        *[("Ollama", "index", echo(code, EMBED)) for code in (302, 400, 401, 404, 500, 503)],
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_failing_run_shows_no_secret(servers, outputs, server, command, fault, caplog):
    caplog.set_level(logging.DEBUG)
    if command == "evaluate":
        assert run("index", *CHOSEN)[0] == 0
    servers[server].faults.add(fault)
    code, text = run(command, *CHOSEN)
    assert code in (2, 3), text
    assert servers[server].faults.hit
    assert secrets_in(text) == []
    assert secrets_in(caplog.text) == []
    if outputs.exists():
        assert_no_secret_in_files(outputs)


@pytest.mark.notebook
@pytest.mark.slow
def test_a_failing_notebook_shows_no_secret(servers, outputs, tmp_path, capfd):
    assert run("index", *CHOSEN)[0] == 0
    servers["Qdrant"].faults.add(echo(500, QUERY))
    with pytest.raises(InfrastructureError) as caught:
        run_notebook("evaluate", {"embedder": "ollama"}, tmp_path / "out.ipynb", progress=False)
    assert secrets_in("".join(traceback.format_exception(caught.value))) == []
    assert secrets_in("".join(capfd.readouterr())) == []
    assert (outputs / "failed" / "evaluate.failed.ipynb").exists()
    assert_no_secret_in_files(outputs)


@pytest.mark.parametrize("name", ["QDRANT_URL", "OLLAMA_HOST"])
@pytest.mark.parametrize("host", ["127.0.0.1:1", "server.example", "[broken"])
def test_a_password_in_an_address_is_refused_and_not_shown(servers, monkeypatch, name, host):
    monkeypatch.setenv(name, f"http://someone:marker-proxy-4715@{host}")
    code, text = run("index", *CHOSEN)
    assert code == 2
    assert name in text
    assert secrets_in(text) == []


@pytest.fixture
def names(monkeypatch):
    """Host names that lead to this machine, though they do not sound like it."""
    look_up = socket.getaddrinfo

    def found(host, *values, **more):
        known = isinstance(host, str) and host.endswith(".example")
        return look_up("127.0.0.1" if known else host, *values, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    monkeypatch.delenv("HTTPS_PROXY", raising=False)


@pytest.mark.parametrize(("server", "variable"), [("Qdrant", "QDRANT_URL"), ("Ollama", "OLLAMA_HOST")])
def test_a_key_goes_over_plain_http_only_to_a_host_that_is_allowed_by_name(
    servers, names, monkeypatch, server, variable
):
    fake = servers[server]
    monkeypatch.setenv(variable, f"http://{server.lower()}.example:{fake.port}")
    monkeypatch.setenv("EVALKIT_ALLOW_PLAIN_HTTP_HOSTS", "another.example")
    code, text = run("index", *CHOSEN)
    assert code == 2
    assert "unencrypted" in text
    assert f"EVALKIT_ALLOW_PLAIN_HTTP_HOSTS={server.lower()}.example" in text
    assert fake.requests == []
    monkeypatch.setenv("EVALKIT_ALLOW_PLAIN_HTTP_HOSTS", f"another.example, {server.upper()}.example")
    assert run("index", *CHOSEN)[0] == 0
    assert fake.requests


def test_errors_of_the_client_keep_no_secret_in_their_chain(servers):
    from evalkit.indexing import index
    from evalkit.settings import IndexSettings

    servers["Qdrant"].faults.add(echo(500, WRITE))
    with pytest.raises((InfrastructureError, InputError)) as caught:
        index(IndexSettings.checked(dataset="worker-runbooks", embedder="ollama"))
    error = caught.value
    while error is not None:  # also what a traceback would not show
        assert secrets_in(f"{error!r} {vars(error)}") == []
        error = error.__cause__ or error.__context__
