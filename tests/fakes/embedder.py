"""An embedder that computes vectors from hashes and counts what it was asked."""

import hashlib
from collections import Counter
from typing import Self

import numpy as np

from evalkit.embedding import ModelIdentity


class HashEmbedder:
    """Unit vectors that depend on the prompt alone; ``live``, so that the vector cache keeps them."""

    live = True

    def __init__(
        self, dimension: int = 8, digest: str = "sha256:made", profile: str = "text-only", batch_size: int = 7
    ):
        self.identity = ModelIdentity("ollama", "made:1", digest, profile, None, "0.1")
        self.dimension = dimension
        self.batch_size = batch_size
        self.counts: Counter[str] = Counter()
        self.embedded: list[str] = []

    def embed(self, prompts):
        assert len(prompts) <= self.batch_size
        self.embedded += [prompt.name for prompt in prompts]
        return np.stack([self._vector(prompt.text) for prompt in prompts])

    def _vector(self, text: str):
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).normal(size=self.dimension)
        return (vector / np.linalg.norm(vector)).astype(np.float32)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
