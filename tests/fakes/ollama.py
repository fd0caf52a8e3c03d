"""A fake Ollama: `/api/version`, `/api/tags` and `/api/embed` over real HTTP, with the recorded vectors.

A prompt with a recorded vector gets that vector, every other one a unit vector made from its hash. Faults come
from `FaultQueue`; what a server would do by itself (another digest, a context that is too short, a model that is
gone) is set on the fake.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evalkit.embedding import Prompt
from evalkit.recorded import open_recorded

from .http import FakeServer, Fault, Reply, Request, changed

EMBED, TAGS, VERSION = "/api/embed", "/api/tags", "/api/version"
RECORDED = Path(__file__).parents[2] / "data" / "embeddings"


def made_vector(text: str, dimension: int = 768) -> list[float]:
    """A unit vector that depends on the text alone."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32).tolist()


class FakeOllama(FakeServer):
    """One server with the models of `digests`.

    Attributes
    ----------
    digests
        Model name with tag -> digest, as `/api/tags` lists them; may change between requests.
    context_words
        An input of more words is refused with 400, and its whole batch with it (None: no limit).
    poison
        An input that holds this text fails its whole batch with 500.
    key
        If set, requests without it as bearer token are answered 401.
    embedded
        Every text that came to `/api/embed`, in order.
    """

    def __init__(
        self, model: str = "embeddinggemma:300m", dimension: int = 768, recorded: bool = True
    ) -> None:
        super().__init__()
        self.digests = {model: hashlib.sha256(model.encode()).hexdigest()}
        self.version = "0.12.3"
        self.dimension = dimension
        self.context_words: int | None = None
        self.poison: str | None = None
        self.key: str | None = None
        self.embedded: list[str] = []
        self._recorded = open_recorded(RECORDED) if recorded else None

    def answer(self, request: Request) -> Reply:
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return Reply({"error": "unauthorized"}, 401)
        answers: dict[str, Callable[[Request], Reply]] = {
            f"GET {VERSION}": lambda _: Reply({"version": self.version}),
            f"GET {TAGS}": lambda _: Reply({"models": [self._listed(name) for name in self.digests]}),
            f"POST {EMBED}": self._embed,
        }
        found = answers.get(request.line)
        return found(request) if found else Reply(b"404 page not found", 404, {"Content-Type": "text/plain"})

    def vector(self, text: str) -> list[float]:
        prompt = Prompt("", text)
        if self._recorded is not None and prompt.sha256 in self._recorded:
            return self._recorded.vectors([prompt])[0].tolist()
        return made_vector(text, self.dimension)

    def _listed(self, name: str) -> dict[str, Any]:
        details = {
            "family": "gemma3",
            "format": "gguf",
            "parameter_size": "307M",
            "quantization_level": "BF16",
        }
        return {
            "name": name,
            "model": name,
            "modified_at": "2025-10-01T12:00:00.000000001Z",
            "size": 621875917,
            "digest": self.digests[name],
            "details": details,
        }

    def _embed(self, request: Request) -> Reply:
        body = request.body
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        self.embedded += texts
        name = body["model"] if ":" in body["model"] else f"{body['model']}:latest"
        if name.lower() not in {one.lower() for one in self.digests}:
            return Reply({"error": f'model "{name}" not found, try pulling it first'}, 404)
        if self.context_words is not None and any(len(text.split()) > self.context_words for text in texts):
            if body.get("truncate", True):
                texts = [" ".join(text.split()[: self.context_words]) for text in texts]
            else:
                return Reply({"error": "the input length exceeds the context length"}, 400)
        if self.poison is not None and any(self.poison in text for text in texts):
            return Reply({"error": "failed to encode response: json: unsupported value: NaN"}, 500)
        vectors = [self.vector(text) for text in texts if text]  # an empty text gives no vector
        return Reply({"model": body["model"], "embeddings": vectors, "total_duration": 1, "load_duration": 1})


def _vectors_changed(change: Callable[[list[list[float]]], Any], **where: Any) -> Fault:
    return changed(lambda body: body | {"embeddings": change(body["embeddings"])}, path=EMBED, **where)


def too_few(**where: Any) -> Fault:
    """One vector less than prompts."""
    return _vectors_changed(lambda vectors: vectors[:-1], **where)


def too_many_vectors(**where: Any) -> Fault:
    """One vector more than prompts."""
    return _vectors_changed(lambda vectors: [*vectors, vectors[-1]], **where)


def wrong_size(**where: Any) -> Fault:
    """The last vector is one number short."""
    return _vectors_changed(lambda vectors: [*vectors[:-1], vectors[-1][:-1]], **where)


def other_model(dimension: int = 384, **where: Any) -> Fault:
    """All vectors have another size."""
    return _vectors_changed(lambda vectors: [made_vector("x", dimension) for _ in vectors], **where)


def not_a_number(**where: Any) -> Fault:
    """A NaN in the last vector."""
    return _vectors_changed(lambda vectors: [*vectors[:-1], [float("nan"), *vectors[-1][1:]]], **where)


def null_value(**where: Any) -> Fault:
    """A null in the last vector."""
    return _vectors_changed(lambda vectors: [*vectors[:-1], [None, *vectors[-1][1:]]], **where)


def not_normalised(**where: Any) -> Fault:
    """The last vector is three times too long."""
    return _vectors_changed(lambda vectors: [*vectors[:-1], [3.0 * one for one in vectors[-1]]], **where)


def all_zeros(**where: Any) -> Fault:
    """The last vector is zero."""
    return _vectors_changed(lambda vectors: [*vectors[:-1], [0.0] * len(vectors[-1])], **where)


def other_digest(**where: Any) -> Fault:
    """The list of models names another digest."""
    return changed(
        lambda body: {"models": [one | {"digest": "f" * 64} for one in body["models"]]}, path=TAGS, **where
    )
