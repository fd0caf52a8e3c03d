"""A live Ollama server as an embedder: nothing is cut silently, and every answer is checked before it counts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from evalkit.embedding import ModelIdentity, Prompt, Vectors, check_vectors
from evalkit.errors import SHOWN, InfrastructureError, InputError, bullets
from evalkit.ollama_server import OllamaServer, Refused
from evalkit.transport import Deadline

FINAL = frozenset({400, 404, 413})  # what the input or the model causes: no other attempt helps


class OllamaEmbedder:
    """Embeds with a model of an Ollama server; see `Embedder`.

    Opening asks the server for its version and for the digest of the model. After each embedding request the
    digest is asked for again: vectors count only if it is still the same.

    Parameters
    ----------
    model, profile
        Name as ``ollama list`` shows it (without a tag: ``latest``), and a known prompt profile.
    batch_size
        Prompts a request.
    timeout
        Seconds that one request may take as a whole.
    deadline
        End of all requests and retries; None for no limit.

    Raises
    ------
    InputError
        The server does not have the model, a key would go over plain http, or ``OLLAMA_HOST`` is no address.
    InfrastructureError
        The server is down, too slow, or not an Ollama server.
    """

    live = True

    def __init__(
        self,
        model: str,
        profile: str,
        batch_size: int = 32,
        timeout: float = 60.0,
        deadline: Deadline | None = None,
    ) -> None:
        self.batch_size = batch_size
        self.counts: Counter[str] = Counter(ollama_requests=0, ollama_retries=0)
        self._server = OllamaServer(timeout, deadline or Deadline(), self.counts)
        try:
            version = self._server.version()
            digest = self._server.digest(model)
        except BaseException:
            self.close()
            raise
        self.identity = ModelIdentity("ollama", model, digest, profile, None, version)

    def embed(self, prompts: Sequence[Prompt]) -> Vectors:
        """Embed prompts in one request.

        Parameters
        ----------
        prompts
            Texts that are not blank; no more than `batch_size`.

        Returns
        -------
        NDArray[float32]
            Shape (prompts, dimension), in order, rows of unit length; no prompts give no rows.

        Raises
        ------
        InputError
            Blank prompts, or ones that the server refuses (too long): they are named, a long list capped.
        InfrastructureError
            The server failed after all attempts, the digest of the model changed, or another number or size of
            vectors came back, or some that are not finite or not of unit length.
        """
        blank = [prompt.name for prompt in prompts if not prompt.text.strip()]
        if blank:
            raise InputError(
                f"nothing to embed for {len(blank)} prompts:{bullets(blank, SHOWN)}\ngive them a text"
            )
        if not prompts:
            return np.empty((0, self.identity.dimension or 0), np.float32)
        vectors = self._checked([prompt.name for prompt in prompts], self._rows(prompts))
        now = self._server.digest(self.identity.model)
        if now != self.identity.digest:
            raise InfrastructureError(
                f"model {self._here} changed while it was embedding: digest {self.identity.digest} before, {now} "
                "now; nothing of the last batch was kept; start again, and leave the model alone meanwhile"
            )
        if self.identity.dimension is None:
            self.identity = replace(self.identity, dimension=vectors.shape[1])
        return vectors

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def _here(self) -> str:
        return f"{self.identity.model} at {self._server.url}"

    def _rows(self, prompts: Sequence[Prompt]) -> Sequence[Sequence[float]]:
        try:
            return self._send(prompts, FINAL)
        except Refused as refused:
            if refused.code == 404:
                raise InputError(
                    f"{self._here} is gone ({refused}); get it with `ollama pull {self.identity.model}` and leave it "
                    "there while this runs"
                ) from None
        except InfrastructureError:
            # One input that the model cannot digest fails its whole batch with 500: worth finding.
            if self._server.last_status != 500:
                raise
        raise self._blamed(prompts)

    def _send(self, prompts: Sequence[Prompt], final: frozenset[int]) -> Sequence[Sequence[float]]:
        what = f"embedding {len(prompts)} prompts, the first for {prompts[0].name}"
        return self._server.embed(self.identity.model, [prompt.text for prompt in prompts], what, final)

    def _checked(self, names: list[str], rows: Sequence[Sequence[float]]) -> Vectors:
        what = f"vectors from {self._here}"
        if len(rows) != len(names):
            raise InfrastructureError(
                f"{what}: {len(names)} prompts sent, {len(rows)} vectors came back, the first prompt for {names[0]}; "
                "which belongs to which cannot be told; update Ollama, or use a smaller `embed_batch`"
            )
        size = self.identity.dimension or len(rows[0])
        odd = [
            f"{name}: {len(row)} numbers" for name, row in zip(names, rows, strict=True) if len(row) != size
        ]
        if odd or not size:
            raise InfrastructureError(
                f"{what}: {size or 'some'} numbers in each wanted:{bullets(odd, SHOWN)}\nupdate Ollama, or "
                "pull the model again"
            )
        with np.errstate(over="ignore"):  # what does not fit into float32 is found as not finite
            vectors = np.asarray(rows, np.float32)
        check_vectors(vectors, size, names, what)
        return vectors

    def _blamed(self, prompts: Sequence[Prompt]) -> InputError | InfrastructureError:
        """Find out which prompts of a refused batch are at fault, and make the error that names them."""
        if refused := self._refused([Prompt("a one-letter prompt", "a")]):
            _, answer = refused[0]
            text = f"{self._here} refuses even a one-letter prompt ({answer}); "
            if answer.code == 500:
                return InfrastructureError(f"{text}look into the server's log, then start again")
            return InputError(f"{text}is it an embedding model? `ollama show {self.identity.model}` tells")
        found = self._refused(prompts)
        if not found:
            return InfrastructureError(
                f"{self._here} refused {len(prompts)} prompts together and takes each alone, the first for "
                f"{prompts[0].name}; use a smaller `embed_batch`"
            )
        lines = [
            f"{prompt.name}: {len(prompt.text.split())} words, {len(prompt.text)} characters ({answer})"
            for prompt, answer in found
        ]
        text = f"{self._here} refuses:{bullets(lines, SHOWN)}\n"
        if any(answer.code == 500 for _, answer in found):
            return InfrastructureError(f"{text}it fails on these texts; update Ollama, or use another model")
        return InputError(
            f"{text}nothing is ever cut silently: shorten these texts, choose a chunking version with smaller "
            "chunks, or a model with a longer context"
        )

    def _refused(self, prompts: Sequence[Prompt]) -> list[tuple[Prompt, Refused]]:
        """Bisect prompts for those that are refused alone; stops once there are enough to show."""
        try:
            self._send(prompts, FINAL | {500})
        except Refused as answer:
            if len(prompts) == 1:
                return [(prompts[0], answer)]
            middle = len(prompts) // 2
            found = self._refused(prompts[:middle])
            return found if len(found) >= SHOWN else found + self._refused(prompts[middle:])
        return []
