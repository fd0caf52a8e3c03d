"""Every fault that the tests put between evalkit and its servers, with the outcome that is wanted.

A fault is tried while indexing and while evaluating. `Wanted` says what has to come of it: the end of the run, or
the error class and a part of the next step that the text must name.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from evalkit.errors import InfrastructureError, InputError
from tests.fakes import ollama
from tests.fakes.http import (
    Fault,
    Reply,
    changed,
    cut,
    drip,
    hang,
    html,
    reset,
    slow,
    status,
    too_many,
    without,
)

WRITE, QUERY = "PUT .*/points$", "/query/batch$"
COUNT, READ = "/points/count$", "POST .*/points$"


@dataclass(frozen=True)
class Wanted:
    """``error`` None: the run ends well, with `retries` requests repeated."""

    error: type[Exception] | None = None
    says: str = ""
    retries: int = 0


@dataclass(frozen=True)
class Row:
    """One fault of one server: what is made to happen at each stage (None: does not apply), and what is wanted.

    `before` is done between indexing and evaluating, or before indexing: "down", "dropped", "changed", ….
    """

    server: str
    fault: str
    index: Fault | None = None
    evaluate: Fault | None = None
    indexed: Wanted | None = None
    evaluated: Wanted | None = None
    before: str = ""


def _both(server: str, name: str, fault: Fault, wanted: Wanted) -> Row:
    index, evaluate = {
        "Qdrant": (replace(fault, path=WRITE, after=1), replace(fault, path=QUERY, after=1)),
        "Ollama": (replace(fault, path=ollama.EMBED, after=1), replace(fault, path=ollama.EMBED, after=1)),
    }[server]
    return Row(server, name, index, evaluate, wanted, wanted)


def _anywhere(server: str, look: str, slow_step: str, start: str) -> list[Row]:
    """Faults of the transport, the same for both servers."""

    def infra(says: str) -> Wanted:
        return Wanted(InfrastructureError, says)

    rows = [
        ("answers late", slow(0.1), Wanted()),
        ("503 for two requests, then well", status(503, times=2), Wanted(retries=2)),
        ("429 with Retry-After, then well", too_many("0", times=2), Wanted(retries=2)),
        ("drops a connection, then well", reset(times=1), Wanted(retries=1)),
        ("cuts an answer in the middle, then well", cut(times=1), Wanted(retries=1)),
        ("hangs", hang(seconds=600.0), infra(slow_step)),
        ("answers a byte at a time", drip(0.2), infra(slow_step)),
        ("500 to everything", status(500), infra(look)),
        ("429 to everything", too_many("0"), infra("after 4 attempts")),
        ("429, come back in a day", too_many("86400"), infra("120 s that is waited at most")),
        ("cuts every answer", cut(), infra(start)),
        ("answers with a page of HTML", html(times=None), infra("check")),
    ]
    return [
        Row(server, "refuses connections", None, None, infra(start), infra(start), before="down"),
        *(_both(server, name, fault, wanted) for name, fault, wanted in rows),
    ]


def _result(change: Callable[[object], object], path: str, times: int | None = None) -> Fault:
    return changed(lambda body: body | {"result": change(body["result"])}, path, times)


def first_hits(
    change: Callable[[list[dict[str, object]]], list[dict[str, object]]], times: int | None = None
) -> Fault:
    """Change the first ranking of each answer."""
    return _result(lambda answers: [{"points": change(answers[0]["points"])}, *answers[1:]], QUERY, times)


def _first_vector(change: Callable[[list[float]], list[float]]) -> Fault:
    """Change the first vector that is read back; payloads are read before vectors."""

    def changed_first(points: list[dict[str, list[float]]]) -> object:
        return [points[0] | {"vector": change(points[0]["vector"])}, *points[1:]]

    return replace(_result(changed_first, READ), after=1)


def _other_text(points: list[dict[str, dict[str, object]]]) -> object:
    return [points[0] | {"payload": points[0]["payload"] | {"text": "other"}}, *points[1:]]


LOST = Fault(
    "lost", reply=Reply({"result": {"operation_id": 1, "status": "completed"}, "status": "ok", "time": 0})
)
BUILDING = Wanted(InfrastructureError, "stays marked as building.*index again")
CHANGED = Wanted(InputError, "was changed since it was indexed.*index with recreate")
WRONG_HITS = Wanted(InfrastructureError, "a score of such an answer would be wrong. Run again")


def _read_back(name: str, fault: Fault) -> Row:
    return Row("Qdrant", name, fault, fault, BUILDING, CHANGED)


def _in_rankings(name: str, fault: Fault, wanted: Wanted = WRONG_HITS) -> Row:
    return Row("Qdrant", name, None, fault, None, wanted)


QDRANT = [
    *_anywhere("Qdrant", "server's log", "QDRANT_TIMEOUT", "start Qdrant or check QDRANT_URL"),
    _both(
        "Qdrant",
        "JSON without the field `result`",
        without("result"),
        Wanted(InfrastructureError, "QDRANT_URL"),
    ),
    Row("Qdrant", "says that points are stored and stores none", replace(LOST, path=WRITE), None, BUILDING),
    _read_back("counts one point too many", _result(lambda count: {"count": count["count"] + 1}, COUNT, 1)),
    _read_back(
        "leaves a point out when it is read back",
        _result(lambda points: points[1:], READ, 1),
    ),
    _read_back("gives another text back than was stored", _result(_other_text, READ, 1)),
    _read_back("stored vector of another size", _first_vector(lambda vector: vector[:-1])),
    _read_back("stored vector holds NaN", _first_vector(lambda vector: [float("nan"), *vector[1:]])),
    _read_back("stored vector points elsewhere", _first_vector(lambda vector: [-one for one in vector])),
    _in_rankings(
        "answers fewer questions than were asked",
        _result(lambda answers: answers[1:], QUERY),
        Wanted(InfrastructureError, "Qdrant answered 3 of 4 questions.*run again"),
    ),
    _in_rankings("one hit is missing from a ranking", first_hits(lambda hits: hits[:-1])),
    _in_rankings("more hits than asked for", first_hits(lambda hits: [*hits, hits[-1] | {"id": 1}])),
    _in_rankings("one passage twice in a ranking", first_hits(lambda hits: [hits[0], hits[0], *hits[2:]])),
    _in_rankings("hits in the wrong order", first_hits(lambda hits: hits[::-1])),
    _in_rankings("score is NaN", first_hits(lambda hits: [hits[0] | {"score": float("nan")}, *hits[1:]])),
    _in_rankings(
        "a hit that the filter does not allow",
        first_hits(
            lambda hits: [
                hits[0] | {"payload": hits[0]["payload"] | {"publication_state": "draft"}},
                *hits[1:],
            ]
        ),
        Wanted(InputError, "which the filter does not allow.*index it again with recreate"),
    ),
    Row(
        "Qdrant",
        "vanishes in the middle",
        reset(WRITE),
        reset(QUERY),
        Wanted(InfrastructureError, "start Qdrant"),
        Wanted(InfrastructureError, "start Qdrant"),
        before="vanishing",
    ),
    Row(
        "Qdrant",
        "collection gone since it was indexed",
        evaluated=Wanted(InputError, "no collection .*index the data set"),
        before="dropped",
    ),
    Row("Qdrant", "point deleted since it was indexed", evaluated=CHANGED, before="point deleted"),
    Row("Qdrant", "point added since it was indexed", evaluated=CHANGED, before="point added"),
]

NOT_OLLAMA = Wanted(InfrastructureError, "check OLLAMA_HOST")


def _wrong_vectors(name: str, fault: Fault, says: str) -> Row:
    return _both("Ollama", name, fault, Wanted(InfrastructureError, says))


OLLAMA = [
    *_anywhere("Ollama", "server's log", "raise `embed_timeout`", "(`ollama serve`|the server's log)"),
    _both("Ollama", "JSON without the field `embeddings`", without("embeddings"), NOT_OLLAMA),
    _wrong_vectors("one vector too few", ollama.too_few(), "use a smaller `embed_batch`"),
    _wrong_vectors("one vector too many", ollama.too_many_vectors(), "use a smaller `embed_batch`"),
    _wrong_vectors("vector of another size", ollama.wrong_size(), "pull the model again"),
    _wrong_vectors("vector holds NaN", ollama.not_a_number(), "not finite"),
    _both("Ollama", "vector holds null", ollama.null_value(), NOT_OLLAMA),
    _wrong_vectors("vector not of unit length", ollama.not_normalised(), "length 3 found, 1 wanted"),
    _wrong_vectors("vector of zeros", ollama.all_zeros(), "all zeros"),
    Row(
        "Ollama",
        "model digest changes between two requests",
        *itertools.repeat(ollama.other_digest(after=1), 2),
        *itertools.repeat(Wanted(InfrastructureError, "changed while it was embedding.*start again"), 2),
    ),
    Row(
        "Ollama",
        "vanishes in the middle",
        *itertools.repeat(reset(ollama.EMBED), 2),
        *itertools.repeat(Wanted(InfrastructureError, "`ollama serve`"), 2),
        before="vanishing",
    ),
    Row(
        "Ollama",
        "model digest other than the one that indexed",
        evaluated=Wanted(InputError, "model digest: found .*index with recreate"),
        before="other digest",
    ),
    Row(
        "Ollama", "server version other than the one that indexed", evaluated=Wanted(), before="other version"
    ),
    Row(
        "Ollama",
        "model removed",
        indexed=Wanted(InputError, "`ollama pull"),
        evaluated=Wanted(InputError, "`ollama pull"),
        before="model removed",
    ),
]

ROWS = [*QDRANT, *OLLAMA]
