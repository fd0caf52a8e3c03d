"""The Ollama embedder against a fake server that speaks real HTTP and fails on demand."""

import json
import logging
import re
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fakes import ollama as fake
from fakes.http import cut, drip, hang, html, reset, slow, status, too_many, without
from fakes.ollama import EMBED, TAGS, VERSION, FakeOllama, made_vector
from ollama._client import _parse_host

from evalkit import transport
from evalkit.dataset import load_dataset
from evalkit.embedders import dataset_prompts, embed_cached, open_embedder
from evalkit.embedding import Prompt
from evalkit.errors import InfrastructureError, InputError
from evalkit.evaluation import evaluate
from evalkit.indexing import index
from evalkit.ollama_embedder import OllamaEmbedder
from evalkit.ollama_server import OllamaServer, server_url
from evalkit.runs import load_run, write_run
from evalkit.settings import EmbeddingSettings, EvaluateSettings, IndexSettings
from evalkit.transport import Deadline
from evalkit.vectors import VectorCache

pytestmark = pytest.mark.server

KEY = "s3cret-marker-0815"
RECORDED = (
    "section-paragraphs-80w-overlap1-v1",
    "paragraphs-v1",
)  # versions whose vectors are in data/embeddings


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.01)


@pytest.fixture
def server(monkeypatch):
    with FakeOllama() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        yield running


@pytest.fixture
def embedder(server):
    with OllamaEmbedder("embeddinggemma:300m", "embeddinggemma", timeout=20) as opened:
        yield opened


def prompts_of(*texts):
    return [Prompt(f"chunk {place}", text) for place, text in enumerate(texts)]


def live(**settings):
    return open_embedder(EmbeddingSettings.checked(embedder="ollama", **settings))


# Working


def test_a_data_set_is_embedded_and_a_second_run_embeds_nothing(server):
    prompts = dataset_prompts(load_dataset("worker-runbooks"), RECORDED, "embeddinggemma")
    distinct = {prompt.sha256 for prompt in prompts}
    with live(embed_batch=8) as embedder, VectorCache() as cache:
        first, embedded = embed_cached(embedder, cache, prompts)
        assert embedded == len(distinct)
        identity = embedder.identity
    with open_embedder(EmbeddingSettings.checked()) as recorded, VectorCache() as cache:
        assert np.array_equal(first, recorded.embed(prompts))
    assert identity.digest == f"sha256:{server.digests['embeddinggemma:300m']}"
    assert (identity.embedder, identity.model, identity.profile) == (
        "ollama",
        "embeddinggemma:300m",
        "embeddinggemma",
    )
    assert (identity.dimension, identity.server_version) == (768, "0.12.3")
    assert max(len(request.body["input"]) for request in server.requests if request.body) == 8
    assert all(request.body["truncate"] is False for request in server.requests if request.body)

    before = len(server.embedded)
    with live(embed_batch=8) as embedder, VectorCache() as cache:
        second, embedded = embed_cached(embedder, cache, prompts)
        assert embedded == 0
        assert embedder.counts == {
            "ollama_requests": 4,
            "ollama_retries": 0,
        }  # version, digest, canary, digest
    assert np.array_equal(first, second)
    assert len(server.embedded) == before + 1  # the canary


def test_a_whole_evaluation_gives_what_the_recorded_vectors_give(server, monkeypatch, example_runs, tmp_path):
    expected = load_run(example_runs["worker-runbooks"])
    outputs = tmp_path / "live"
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(outputs))
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    server.key = KEY
    server.faults.add(status(503, path=EMBED, times=1), too_many("0", path=EMBED, times=1, after=1))
    chosen = {"dataset": "worker-runbooks", "embedder": "ollama"}
    index(IndexSettings.checked(**chosen))
    run = write_run(evaluate(EvaluateSettings.checked(ks=(1, 3, 5, 10), **chosen)))
    for table in ("rankings", "scores"):
        pd.testing.assert_frame_equal(getattr(run, table), getattr(expected, table), rtol=1e-6)
    record = json.loads((run.folder / "run.json").read_text())
    assert record["model"]["server_version"] == "0.12.3"
    assert record["model"]["notes"]["canary"].startswith("cosine 1.0000")
    assert record["counts"]["ollama_retries"] == 0
    files = [path for path in outputs.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_model_without_a_tag_is_the_latest(server):
    server.digests["tiny:latest"] = "ab" * 32
    with live(model="Tiny", profile="text-only") as embedder:
        assert embedder.identity.digest == "sha256:" + "ab" * 32
        assert embedder.identity.dimension is None
        assert np.allclose(embedder.embed(prompts_of("hello")), [made_vector("hello")])
        assert embedder.identity.dimension == 768
        assert embedder.embed([]).shape == (0, 768)


def test_nothing_is_left_open(server):
    embedder = live()
    embedder.close()
    embedder.close()


# Canary


def test_canary_of_the_same_model(server, caplog):
    with live() as embedder:
        assert embedder.identity.notes["canary"].startswith("cosine 1.0000 between")
        assert embedder.identity.warnings == []
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("dimension", "found"), [(768, "cosine -?0.0"), (384, "vectors of 384 numbers live, of 768 recorded")]
)
def test_canary_of_another_model_is_reported(server, caplog, dimension, found):
    server._recorded, server.dimension = None, dimension
    with live() as embedder:
        [warning] = embedder.identity.warnings
        assert "this is not the model that the recorded vectors came from" in warning
        assert "this is not the model" in embedder.identity.notes["canary"]
    assert re.search(found, warning)
    assert warning in caplog.messages


def test_canary_tolerates_what_another_precision_does(server):
    canary = open_embedder(EmbeddingSettings.checked())._recorded.canary
    exact = np.asarray(server.vector(canary.text))
    other = np.asarray(made_vector("noise"))

    def blend(body):
        vector = exact + 0.1 * other
        return body | {"embeddings": [(vector / np.linalg.norm(vector)).tolist()]}

    server.faults.add(fake.changed(blend, path=EMBED, times=1))
    with live() as embedder:
        assert embedder.identity.notes["canary"].startswith("cosine 0.99")
        assert embedder.identity.warnings == []


def test_canary_is_not_done_for_another_profile_or_without_recorded_vectors(server, tmp_path):
    with live(profile="text-only") as embedder:
        assert embedder.identity.notes["canary"].startswith("not done: the recorded vectors in")
    with live(embeddings=str(tmp_path / "none")) as embedder:
        assert "not done" in embedder.identity.notes["canary"]
        assert "no such folder" in embedder.identity.notes["canary"]
    assert server.embedded == []


# Address and keys


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
        ("gpu", "http://gpu:11434"),
        ("gpu:1", "http://gpu:1"),
        (":1", "http://127.0.0.1:1"),
        ("http://gpu", "http://gpu:80"),
        ("https://gpu", "https://gpu:443"),
        ("https://gpu:1/ollama/", "https://gpu:1/ollama"),
        ("[::1]:1", "http://[::1]:1"),
    ],
)
def test_address(monkeypatch, host, url):
    if host is not None:
        monkeypatch.setenv("OLLAMA_HOST", host)
    assert server_url() == url == _parse_host(host)


@pytest.mark.parametrize(
    "host", ["ftp://gpu", "gpu:eleven", "http://me:hidden@gpu", "http://[gpu", "gpu:99999"]
)
def test_no_address(monkeypatch, host):
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(InputError, match=r"OLLAMA_HOST") as caught:
        server_url()
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("host", ["http://me:hidden/x@gpu", "gpu:99999", "http://[gpu"])
def test_no_address_is_invalid_input_from_a_fresh_process_too(monkeypatch, host):
    """Ollama's package reads the variable when it is imported, and would show what it cannot read."""
    monkeypatch.setenv("OLLAMA_HOST", host)
    call = (
        "import sys; from evalkit.cli import main; sys.argv[1:] = ['index', '--embedder', 'ollama']; main()"
    )
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("InputError: OLLAMA_HOST is no address")
    assert "hidden" not in done.stderr


def test_key_goes_to_the_server_and_nowhere_else(server, monkeypatch, caplog):
    server.key = KEY
    caplog.set_level(logging.DEBUG)
    with pytest.raises(InfrastructureError, match=r"HTTP status 401: unauthorized; set OLLAMA_API_KEY"):
        live()
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    server.faults.add(status(500, path=EMBED, body={"error": f"bad key Bearer {KEY}"}))
    with pytest.raises(InfrastructureError, match=r"bad key Bearer <OLLAMA_API_KEY>") as caught:
        live()
    seen, error = [], caught.value
    while error is not None:
        seen.append(f"{error} {error!r}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert KEY not in "".join(seen)
    assert KEY not in caplog.text


def test_key_over_plain_http_is_refused(monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    monkeypatch.setenv("OLLAMA_HOST", "gpu.example.com")
    with pytest.raises(InputError, match=r"EVALKIT_ALLOW_PLAIN_HTTP_HOSTS=gpu.example.com") as caught:
        live()
    assert KEY not in str(caught.value)


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    live().close()


def test_a_redirect_is_not_followed(server):
    server.faults.add(status(302, headers={"Location": "https://login.example.com/?token=abc"}))
    with pytest.raises(
        InfrastructureError, match=r"redirect to 'https://login.example.com/'; set OLLAMA_HOST"
    ):
        live()


# Faults that pass


@pytest.mark.parametrize(
    "fault",
    [
        status(503, times=2),
        status(500, times=3),
        status(502, times=1),
        too_many("0", times=2),
        reset(times=2),
        cut(times=1),
        slow(0.05, times=3),
    ],
    ids=lambda fault: fault.name,
)
@pytest.mark.parametrize("path", [VERSION, TAGS, EMBED])
def test_transient_faults_are_retried_and_counted(server, fault, path):
    server.faults.add(replace(fault, path=path))
    with live() as embedder:
        assert np.array_equal(embedder.embed(prompts_of("hello")), np.float32([made_vector("hello")]))
        hits = 0 if fault.name == "slow" else fault.times
        assert embedder.counts["ollama_retries"] == hits
        assert embedder.counts["ollama_requests"] == len(server.requests)


def test_a_server_that_comes_back(server, embedder, monkeypatch):
    server.vanish()
    monkeypatch.setattr(
        transport.time, "sleep", lambda _: server.port and server._http is None and server.listen()
    )
    assert embedder.embed(prompts_of("hello")).shape == (1, 768)
    assert embedder.counts["ollama_retries"] == 1


# Faults that stay


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (reset(), r"connection to http://127.0.0.1:\d+ broke .*after 4 attempts"),
        (cut(), "connection .* broke .*after 4 attempts"),
        (status(503), "HTTP status 503: made error 503, still so after 4 attempts"),
        (status(500, body=[1]), r"HTTP status 500: \[1\]"),
        (too_many("9999"), "HTTP status 429.*waiting 9999 s .* would pass"),
        (too_many("later"), "HTTP status 429.*after 4 attempts"),
        (status(418), "HTTP status 418: made error 418; look into the server's log"),
        (status(403), "HTTP status 403.*OLLAMA_API_KEY"),
        (
            html(),
            "answered something that Ollama does not send, such as the page of a proxy; check OLLAMA_HOST",
        ),
        (html(code=502), "HTTP status 502: <!doctype html>.*after 4 attempts"),
        (status(200, body=[]), "something that Ollama does not send"),
        (status(200, body={}), "something that Ollama does not send"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("path", [VERSION, TAGS, EMBED])
def test_lasting_faults_are_infrastructure_errors(server, fault, text, path):
    server.faults.add(replace(fault, path=path))
    with pytest.raises(InfrastructureError, match=text) as caught:
        live()
    assert ("embedding" if path == EMBED else "asking Ollama") in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (fake.too_few(), "2 prompts sent, 1 vectors came back, the first prompt for chunk 0"),
        (fake.too_many_vectors(), "2 prompts sent, 3 vectors came back"),
        (fake.wrong_size(), r"768 numbers in each wanted:\n- chunk 1: 767 numbers"),
        (fake.not_a_number(), r"1 of 2 vectors .*\n- chunk 1: 1 values are not finite, the first is nan"),
        (fake.null_value(), "something that Ollama does not send"),
        (fake.not_normalised(), r"- chunk 1: length 3 found, 1 wanted"),
        (fake.all_zeros(), r"- chunk 1: all zeros"),
        (fake.other_digest(), "changed while it was embedding: digest sha256:.* before, sha256:ffff.* now"),
        (without("embeddings", path=EMBED), "something that Ollama does not send"),
        (without("models", path=TAGS), "something that Ollama does not send"),
        (status(404, path=TAGS), "is OLLAMA_HOST the address of an Ollama server"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_wrong_answers_are_infrastructure_errors_and_nothing_is_kept(server, embedder, fault, text):
    prompts = prompts_of("first", "second")
    server.faults.add(fault)
    with VectorCache() as cache:
        with pytest.raises(InfrastructureError, match=f"(?s){text}"):
            embed_cached(embedder, cache, prompts)
        server.faults.clear()
        vectors, embedded = embed_cached(embedder, cache, prompts)
    assert embedded == 2
    assert np.array_equal(vectors, np.float32([made_vector("first"), made_vector("second")]))


def test_another_size_than_before(server, embedder):
    embedder.embed(prompts_of("hello"))
    server.faults.add(fake.other_model(384))
    with pytest.raises(InfrastructureError, match=r"768 numbers in each wanted:\n- chunk 0: 384 numbers"):
        embedder.embed(prompts_of("again"))


def test_empty_vectors(server, embedder):
    server.faults.add(fake._vectors_changed(lambda vectors: [[] for _ in vectors]))
    with pytest.raises(InfrastructureError, match=r"some numbers in each wanted"):
        embedder.embed(prompts_of("hello"))


def test_a_value_beyond_float32(server, embedder):
    server.faults.add(fake._vectors_changed(lambda vectors: [[1e300, *vectors[0][1:]]]))
    with pytest.raises(InfrastructureError, match=r"chunk 0: 1 values are not finite, the first is inf"):
        embedder.embed(prompts_of("hello"))


def test_batches_before_a_fault_are_kept(server):
    server.faults.add(fake.not_a_number(after=2))
    with (
        OllamaEmbedder("embeddinggemma:300m", "embeddinggemma", batch_size=2) as embedder,
        VectorCache() as cache,
    ):
        with pytest.raises(InfrastructureError, match=r"chunk 5"):
            embed_cached(embedder, cache, prompts_of(*"abcdef"))
        server.faults.clear()
        assert embed_cached(embedder, cache, prompts_of(*"abcdef"))[1] == 2


def test_server_down(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{port}")
    with pytest.raises(
        InfrastructureError, match=f"nothing answers at http://127.0.0.1:{port}.*`ollama serve`"
    ) as caught:
        live()
    assert "11434" not in str(caught.value)


def test_an_address_without_a_port_gets_a_hint(monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1")
    server = OllamaServer(1.0, Deadline(), Counter())
    assert "without a port http means 80" in server._start_it()
    assert "OLLAMA_HOST=http://127.0.0.1:11434" in server._start_it()
    server.close()


# Time


def test_a_hanging_server_meets_the_time_out(server, monkeypatch):
    monkeypatch.setattr(transport, "ATTEMPTS", 2)
    server.faults.add(hang(path=EMBED))
    with pytest.raises(
        InfrastructureError,
        match=r"no whole answer from .* in 0.2 s, still so after 2 attempts.*embed_timeout",
    ):
        live(embed_timeout=0.2)
    assert server.count(EMBED) == 2


def test_a_dripping_server_meets_the_time_out(server, monkeypatch):
    monkeypatch.setattr(transport, "ATTEMPTS", 1)
    server.faults.add(drip(0.05, path=EMBED))
    with pytest.raises(InfrastructureError, match=r"no whole answer"):
        live(embed_timeout=0.4)


@pytest.mark.parametrize("fault", [hang(path=EMBED), too_many("30", path=EMBED), status(503, path=EMBED)])
def test_the_deadline_ends_everything(server, monkeypatch, fault):
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.5)
    server.faults.add(fault)
    with pytest.raises(InfrastructureError, match=r"deadline"):
        open_embedder(EmbeddingSettings.checked(embedder="ollama"), Deadline(1.0))


def test_no_request_after_the_deadline(server):
    deadline = Deadline(30)
    with OllamaEmbedder("embeddinggemma:300m", "embeddinggemma", deadline=deadline) as embedder:
        deadline._end = 0.0
        before = len(server.requests)
        with pytest.raises(InfrastructureError, match=r"deadline of 30 s passed while embedding 1 prompts"):
            embedder.embed(prompts_of("hello"))
        assert len(server.requests) == before


# Input


def test_model_missing(server):
    server.digests["other:1b"] = "00" * 32
    with pytest.raises(InputError, match=r"`ollama pull bge-m3:latest`.*embeddinggemma:300m, other:1b"):
        live(model="bge-m3", profile="text-only")
    server.digests.clear()
    with pytest.raises(InputError, match=r"`ollama pull embeddinggemma:300m`.*one of those it has: none"):
        live()


def test_model_removed_meanwhile(server, embedder):
    server.digests.clear()
    with pytest.raises(InputError, match=r"is gone .*`ollama pull embeddinggemma:300m`"):
        embedder.embed(prompts_of("hello"))


def test_a_model_without_a_profile_is_refused_before_anything_is_asked(server):
    with pytest.raises(InputError, match=r"no known prompt profile"):
        live(model="bge-m3")
    assert server.requests == []


def test_too_long_inputs_are_named(server, embedder):
    server.context_words = 5
    texts = ["short"] * 13
    texts[3], texts[9] = "one two three four five six", "a b c d e f g"
    with pytest.raises(InputError) as caught:
        embedder.embed(prompts_of(*texts))
    text = str(caught.value)
    assert "- chunk 3: 6 words, 27 characters (HTTP status 400" in text
    assert "- chunk 9: 7 words" in text
    assert text.count("- chunk") == 2
    assert "nothing is ever cut silently" in text


def test_many_too_long_inputs_end_soon(server, embedder):
    server.context_words = 1
    with pytest.raises(InputError) as caught:
        embedder.embed(prompts_of(*["too long"] * 32))
    assert str(caught.value).count("- chunk") >= 10
    assert server.count(EMBED) < 40


def test_a_text_that_the_model_fails_on_is_named(server, embedder):
    server.poison = "poison"
    with pytest.raises(InfrastructureError, match=r"(?s)refuses:\n- chunk 6: 2 words, .*NaN.*another model"):
        embedder.embed(prompts_of(*["fine"] * 6, "some poison", "fine"))


def test_a_model_that_cannot_embed(server, embedder):
    server.faults.add(status(400, path=EMBED, body={"error": "this model does not support embeddings"}))
    with pytest.raises(InputError, match=r"refuses even a one-letter prompt .*is it an embedding model"):
        embedder.embed(prompts_of("a", "b"))


def test_a_batch_that_only_fails_as_a_whole(server, embedder):
    server.faults.add(status(413, path=EMBED, times=1), status(413, path=EMBED, times=1, after=1))
    with pytest.raises(
        InfrastructureError, match=r"refused 2 prompts together and takes each alone.*embed_batch"
    ):
        embedder.embed(prompts_of("a", "b"))


@pytest.mark.parametrize("blank", ["", "  \n"])
def test_blank_prompts_are_named_and_not_sent(server, embedder, blank):
    with pytest.raises(InputError, match=r"nothing to embed for 1 prompts:\n- chunk 1"):
        embedder.embed(prompts_of("fine", blank))
    assert server.embedded == []
