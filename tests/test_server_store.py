"""What only a server has: settings from the environment, keys, faults on the wire, waiting for its index."""

import logging
import time

import grpc
import numpy as np
import pytest

from evalkit import transport
from evalkit.errors import InfrastructureError, InputError
from evalkit.points import CollectionState, Fingerprint, Point
from evalkit.qdrant_connection import Connection, connect
from evalkit.server_store import ServerStore
from evalkit.settings import ServerSettings
from evalkit.stores import open_store
from evalkit.transport import Deadline
from tests.fakes import http
from tests.fakes.qdrant import Engine, FakeQdrant
from tests.fakes.qdrant_grpc import FakeQdrantGrpc

pytestmark = pytest.mark.server

MARKER = "marker-key-never-to-be-seen"
STATE = CollectionState("building", Fingerprint("corpus", "digest", "profile"))
FIRST = Point("00000000-0000-0000-0000-000000000001", np.array([1, 0], dtype=np.float32), {"text": "one"})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.001)


@pytest.fixture
def server(tmp_path):
    with FakeQdrant(tmp_path) as fake:
        yield fake


@pytest.fixture
def store(server):
    with ServerStore(Connection(server.url, timeout=5.0)) as opened:
        opened.create("made", 2, STATE, ServerSettings())
        opened.upsert("made", [FIRST])
        yield opened


# The environment


def test_the_environment_names_server_key_and_limits(tmp_path, monkeypatch):
    with FakeQdrant(tmp_path, key=MARKER) as server:
        monkeypatch.setenv("QDRANT_URL", f" {server.url.removeprefix('http://')}/ ")
        monkeypatch.setenv("QDRANT_API_KEY", MARKER)
        monkeypatch.setenv("QDRANT_TIMEOUT", "2.5")
        with open_store() as store:
            assert (store.kind, store.version, store.collections()) == ("server", "1.16.0", [])
    assert all(request.headers["api-key"] == MARKER for request in server.requests)


def test_grpc_is_chosen_by_the_environment(tmp_path, monkeypatch):
    with FakeQdrantGrpc(Engine(tmp_path), key=MARKER) as server:
        monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("QDRANT_API_KEY", MARKER)
        monkeypatch.setenv("QDRANT_PREFER_GRPC", "true")
        monkeypatch.setenv("QDRANT_GRPC_PORT", str(server.port))
        with open_store() as store:
            assert store.collections() == []
    assert server.calls == ["List"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("QDRANT_URL", "ftp://somewhere"),
        ("QDRANT_URL", "http://"),
        ("QDRANT_URL", "http://host:port"),
        ("QDRANT_URL", "http://two words"),
        ("QDRANT_URL", f"http://user:{MARKER}@host:6333"),
        ("QDRANT_API_KEY", f"{MARKER}\nsecond line"),
        ("QDRANT_API_KEY", f"{MARKER}\u00e9"),
        ("QDRANT_PREFER_GRPC", "perhaps"),
        ("QDRANT_GRPC_PORT", "70000"),
        ("QDRANT_TIMEOUT", "soon"),
        ("QDRANT_TIMEOUT", "0"),
        ("QDRANT_TIMEOUT", "nan"),
    ],
)
def test_values_that_cannot_be_used_are_named_before_anything_is_asked(monkeypatch, name, value):
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=name) as caught:
        connect()
    assert MARKER not in str(caught.value)


def test_a_key_does_not_leave_the_machine_in_the_clear(monkeypatch):
    monkeypatch.setenv("QDRANT_URL", "http://qdrant.example:6333")
    monkeypatch.setenv("QDRANT_API_KEY", MARKER)
    with pytest.raises(InputError, match="https") as caught:
        connect()
    assert MARKER not in str(caught.value)


@pytest.mark.parametrize(
    ("version", "error"),
    [("1.15.5", InputError), ("0.9", InputError), ("yes", InfrastructureError)],
)
def test_a_server_without_collection_metadata_is_refused(tmp_path, version, error):
    with FakeQdrant(tmp_path, version=version) as server, pytest.raises(error, match=version):
        Connection(server.url)


@pytest.mark.parametrize("version", ["1.16.0", "1.17.0-dev", "2.0.1"])
def test_newer_versions_are_taken(tmp_path, version):
    with FakeQdrant(tmp_path, version=version) as server, ServerStore(Connection(server.url)) as store:
        assert store.version == version


# Faults over REST


@pytest.mark.parametrize("key", [None, "another"])
def test_a_key_that_is_missing_or_wrong_is_an_input_error(tmp_path, key):
    with FakeQdrant(tmp_path, key=MARKER) as server, ServerStore(Connection(server.url, key)) as store:
        with pytest.raises(InputError, match=r"401.*QDRANT_API_KEY") as caught:
            store.exists("made")
        assert server.count("exists") == 1  # asking again would not help
    assert MARKER not in str(caught.value)


def test_a_key_without_the_right_is_an_input_error(server, store):
    server.faults.add(http.status(403, "PUT .*/points"))
    with pytest.raises(InputError, match=r"403.*QDRANT_API_KEY"):
        store.upsert("made", [FIRST])


PASSING = {
    "429": http.too_many("0", times=2),
    "429 with a broken number": http.too_many("0.5x", times=2),
    "429 with a date that has passed": http.too_many("Mon, 01 Jan 2024 00:00:00 GMT", times=2),
    "500": http.status(500, times=2),
    "503": http.status(503, times=3),
    "504 of a proxy": http.html(times=1, code=504),
    "reset": http.reset(times=2),
    "cut": http.cut(times=2),
}
OPERATIONS = {
    "version": lambda _, url: Connection(url).close(),
    "upsert": lambda store, _: store.upsert("made", [FIRST]),
    "count": lambda store, _: store.count("made"),
    "scroll": lambda store, _: list(store.scroll("made", vectors=True)),
    "retrieve": lambda store, _: store.retrieve("made", [FIRST.id], vectors=False),
    "query": lambda store, _: store.query("made", FIRST.vector[None], {}, 3),
    "state": lambda store, _: store.write_state("made", STATE),
    "delete": lambda store, _: store.delete("made", [FIRST.id]),
    "create": lambda store, _: store.create("other", 2, STATE, ServerSettings()),
    "drop": lambda store, _: store.drop("made"),
}


@pytest.mark.parametrize(
    ("fault", "operation"),
    [(fault, "query") for fault in PASSING]
    + [("cut", operation) for operation in OPERATIONS if operation != "query"],
)
def test_what_passes_is_asked_again_logged_and_counted(server, store, fault, operation, caplog):
    server.faults.add(PASSING[fault])
    with caplog.at_level(logging.WARNING, logger="evalkit"):
        OPERATIONS[operation](store, server.url)
    assert server.faults.hit
    assert len(caplog.records) == len(server.faults.hit)
    if operation != "version":
        assert store.counts["store_retries"] == len(server.faults.hit)


LASTING = {
    "500": (http.status(500), "500.*log"),
    "429": (http.too_many("0"), "429"),
    "429, come back tomorrow": (http.too_many("86400"), "waiting 86400 s"),
    "reset": (http.reset(), "cannot be reached.*start Qdrant"),
    "cut": (http.cut(), "cannot be reached"),
    "sign-in page": (http.html(times=None), "not Qdrant.*QDRANT_URL"),
    "refused by a proxy": (http.html(times=None, code=403), "not Qdrant"),
    "redirect": (http.status(302, headers={"Location": "/login"}), "302"),
    "no result": (http.without("result"), "does not answer like Qdrant"),
    "null": (http.changed(lambda _: None), "does not answer like Qdrant"),
    "list": (http.changed(lambda _: []), "does not answer like Qdrant"),
    "no JSON": (http.status(200, body=b"{", headers={"Content-Type": "application/json"}), "does not answer"),
}


@pytest.mark.parametrize(
    ("fault", "operation"),
    [(fault, "query") for fault in LASTING]
    + [("no result", operation) for operation in ("count", "scroll", "version")],
)
def test_what_lasts_is_an_infrastructure_error_with_a_next_step(server, store, fault, operation):
    made, text = LASTING[fault]
    server.faults.add(http.without("version") if operation == "version" else made)
    before = len(server.requests)
    with pytest.raises(InfrastructureError, match=text) as caught:
        OPERATIONS[operation](store, server.url)
    assert server.url in str(caught.value)
    assert len(server.requests) - before <= transport.ATTEMPTS


def test_a_server_that_is_down_is_an_infrastructure_error(server, store):
    server.vanish()
    with pytest.raises(InfrastructureError, match=r"cannot be reached.*QDRANT_URL"):
        store.count("made")
    server.listen()
    assert store.count("made") == 1


@pytest.mark.parametrize("fault", [http.hang(), http.drip(0.05)], ids=["hangs", "drips"])
def test_a_server_that_never_finishes_ends_in_time(server, monkeypatch, fault):
    monkeypatch.setattr(transport, "ATTEMPTS", 2)
    with ServerStore(Connection(server.url, timeout=0.2)) as store:
        server.faults.add(fault)
        with pytest.raises(InfrastructureError, match=r"in time.*QDRANT_TIMEOUT"):
            store.exists("made")
        assert store.counts["store_retries"] == 1


def test_a_slow_server_is_waited_for(server, store):
    server.faults.add(http.slow(0.3, times=1))
    assert store.count("made") == 1
    assert store.counts["store_retries"] == 0


def test_no_request_starts_after_the_deadline(server):
    deadline = Deadline(0.5)
    with ServerStore(Connection(server.url, deadline=deadline)) as store:
        server.faults.add(http.hang())
        with pytest.raises(InfrastructureError):
            store.exists("made")
        time.sleep(deadline.remaining())
        asked = len(server.requests)
        with pytest.raises(InfrastructureError, match="deadline"):
            store.exists("made")
        assert len(server.requests) == asked


def test_what_the_server_refuses_is_an_input_error_in_its_own_words(server, store):
    server.faults.add(http.status(400, body={"status": {"error": "Wrong input: bad thing"}}))
    with pytest.raises(InputError, match="Wrong input: bad thing"):
        store.count("made")


def test_errors_and_logs_never_show_a_key(tmp_path, caplog):
    with FakeQdrant(tmp_path, key=MARKER) as server, ServerStore(Connection(server.url, MARKER)) as store:
        server.faults.add(http.status(500))
        with caplog.at_level(logging.DEBUG), pytest.raises(InfrastructureError) as caught:
            store.exists("made")
    assert MARKER not in caplog.text
    assert MARKER not in repr(caught.value)
    assert caught.value.__cause__ is None


# Creating, waiting, large requests


def test_a_creation_whose_answer_was_lost_is_not_taken_for_somebody_elses(server):
    with ServerStore(Connection(server.url)) as store:
        server.faults.add(http.cut("PUT /collections/made$", times=1))
        store.create("made", 2, STATE, ServerSettings())
        assert store.read_state("made") == STATE
        other = CollectionState("building", Fingerprint("other", "digest", "profile"))
        with pytest.raises(InputError, match="exists"):
            store.create("made", 2, other, ServerSettings())


def test_layout_settings_reach_the_server(server):
    settings = ServerSettings(
        shards=3, replicas=2, vectors_on_disk=True, quantized=True, hnsw_m=8, hnsw_ef_construct=32
    )
    with ServerStore(Connection(server.url)) as store:
        assert store.create("made", 2, STATE, settings) == ()
        store.create("plain", 2, STATE, ServerSettings())
    made, plain = (request.body for request in server.requests if request.method == "PUT")
    assert made["vectors"] == {"size": 2, "distance": "Cosine", "on_disk": True}
    assert (made["shard_number"], made["replication_factor"], made["write_consistency_factor"]) == (3, 2, 2)
    assert made["hnsw_config"] == {"m": 8, "ef_construct": 32}
    assert made["quantization_config"] == {"scalar": {"type": "int8", "always_ram": True}}
    assert plain.keys() == {"vectors", "metadata"}


def test_searches_never_leave_out_what_is_not_indexed_yet(server, store):
    store.query("made", FIRST.vector[None], {"text": ("one",)}, 3, 0.5, hnsw_ef=7)
    store.query("made", FIRST.vector[None], {}, 3, exact=True)
    approximate, exact = (
        request.body["searches"][0] for request in server.requests if request.path.endswith("query/batch")
    )
    rescored = {"ignore": False, "rescore": True}
    assert approximate["params"] == {"hnsw_ef": 7, "exact": False, "quantization": rescored}
    assert approximate["score_threshold"] == 0.5
    assert exact["params"] == {"exact": True, "quantization": rescored | {"ignore": True}}


def test_writing_waits_until_the_points_are_stored(server, store):
    store.delete("made", [FIRST.id])
    writes = [request for request in server.requests if "/points" in request.path]
    assert len(writes) == 2
    assert all(request.query["wait"] == ["true"] for request in writes)


def test_finish_waits_for_green(server, store):
    server.engine.yellow = 3
    before = server.count("GET /collections/made$")
    store.finish("made")
    assert server.count("GET /collections/made$") - before == 4


@pytest.mark.parametrize(
    ("field", "value"), [("status", "red"), ("optimizer_status", {"error": "no space left"})]
)
def test_a_failing_optimizer_is_an_infrastructure_error(server, store, field, value):
    def fail(body):
        body["result"][field] = value
        return body

    server.faults.add(http.changed(fail, "GET /collections/made$"))
    with pytest.raises(InfrastructureError, match=r"made.*log"):
        store.finish("made")


def test_a_large_write_is_split(server, store, monkeypatch):
    monkeypatch.setattr("evalkit.server_store.REQUEST_BYTES", 1000)
    points = [Point(f"00000000-0000-0000-0000-{n:012}", FIRST.vector, {"text": "x" * 100}) for n in range(5)]
    before = server.count("PUT .*/points")
    store.upsert("made", points)
    assert server.count("PUT .*/points") - before == 5
    assert store.count("made") == 5


def test_named_vectors_are_something_elses(server, store):
    def named(body):
        body["result"]["config"]["params"]["vectors"] = {"text": {"size": 2, "distance": "Cosine"}}
        return body

    server.faults.add(http.changed(named, "GET /collections/made$"))
    with ServerStore(Connection(server.url)) as fresh, pytest.raises(InputError, match="named vectors"):
        fresh.dimension("made")


# Faults over gRPC


@pytest.fixture
def grpc_server(tmp_path):
    with FakeQdrantGrpc(Engine(tmp_path), key=MARKER) as fake:
        yield fake


def over_grpc(fake, key=MARKER):
    return ServerStore(Connection("http://127.0.0.1", key, grpc_port=fake.port, timeout=5.0))


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL]
)
def test_grpc_failures_that_pass_are_asked_again(grpc_server, code):
    with over_grpc(grpc_server) as store:
        grpc_server.failures += [code, code]
        assert store.collections() == []
        assert store.counts["store_retries"] == 2


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (grpc.StatusCode.UNAVAILABLE, InfrastructureError, "QDRANT_GRPC_PORT"),
        (grpc.StatusCode.UNKNOWN, InfrastructureError, "UNKNOWN"),
        (grpc.StatusCode.PERMISSION_DENIED, InputError, "QDRANT_API_KEY"),
        (grpc.StatusCode.INVALID_ARGUMENT, InputError, "made error"),
    ],
)
def test_grpc_failures_have_a_class_and_a_next_step(grpc_server, code, error, text):
    with over_grpc(grpc_server) as store:
        grpc_server.failures += [code] * transport.ATTEMPTS
        with pytest.raises(error, match=text) as caught:
            store.collections()
    assert MARKER not in str(caught.value)


def test_a_wrong_key_over_grpc_is_an_input_error(grpc_server):
    with over_grpc(grpc_server, "another") as store, pytest.raises(InputError, match="QDRANT_API_KEY"):
        store.collections()


def test_grpc_at_a_rest_port_is_an_infrastructure_error(server):
    with pytest.raises(InfrastructureError, match="QDRANT_GRPC_PORT"):
        Connection("http://127.0.0.1", grpc_port=server.port, timeout=1.0)
