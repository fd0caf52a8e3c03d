"""A made data set of any size: documents, questions and unit vectors, the same at every call.

Ten passages a document, one fact a question, every third question with two. The vector of a passage is a random
direction, that of a question its first passage's with noise, so that searches have something to find.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evalkit.embedding import ModelIdentity, Prompt

FOLDER = Path(__file__).resolve().parent / "workloads"
DIMENSION = 768
PASSAGES = 10  # of a document
BLOCK = 10_000
SEED = 20250117
NOISE = 0.06
CHUNKING = "paragraphs-v1"
NUMBER = 7  # digits
DESCRIPTION = f"""\
name: made
version: 1
documents: documents.jsonl
cases: cases.jsonl
chunking: {CHUNKING}
eligibility: {{document_type: runbook, publication_state: published}}
judgments: complete
"""


def ensure(chunks: int, questions: int) -> Path:
    """Make a data set with its vectors unless it is there, and give its folder."""
    folder = FOLDER / f"made-{chunks}-{questions}"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        texts = _texts(chunks)
        (folder / "dataset.yaml").write_text(DESCRIPTION, encoding="utf-8")
        _write_documents(folder / "documents.jsonl", texts)
        _write_cases(folder / "cases.jsonl", texts, questions)
        _write_vectors(folder, chunks, questions)
        (folder / "complete").touch()
    return folder


def passage_of(question: int, chunks: int) -> int:
    """Tell which passage a question asks for."""
    return question * 7919 % chunks


def rows(file: Path, numbers: list[int]) -> NDArray[np.float32]:
    """Read rows of a file of vectors; neighbouring ones in one read."""
    size = 4 * DIMENSION
    with file.open("rb") as stream:
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            stream.seek(numbers[0] * size)
            return np.fromfile(stream, np.float32, len(numbers) * DIMENSION).reshape(-1, DIMENSION)
        found = np.empty((len(numbers), DIMENSION), np.float32)
        for place, number in enumerate(numbers):
            stream.seek(number * size)
            found[place] = np.fromfile(stream, np.float32, DIMENSION)
    return found


class MadeEmbedder:
    """Looks the vector up that belongs to the number in a prompt; `evalkit.embedding.Embedder`."""

    def __init__(self, folder: Path, live: bool = False) -> None:
        self.identity = ModelIdentity(
            "ollama" if live else "recorded",
            "made",
            "sha256:made",
            "text-only",
            DIMENSION,
            "0" if live else None,
        )
        self.batch_size = 32
        self.live = live
        self.counts: Counter[str] = Counter()
        self._folder = folder

    def embed(self, prompts: list[Prompt]) -> NDArray[np.float32]:
        if not prompts:
            return np.empty((0, DIMENSION), np.float32)
        kind = prompts[0].text.partition(" ")[0]
        start = len(kind) + 1
        numbers = [int(prompt.text[start : start + NUMBER]) for prompt in prompts]
        return rows(self._folder / f"{kind.lower()}.f32", numbers)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _texts(chunks: int) -> list[str]:
    """Sixty words a passage; the first two name it."""
    source = np.random.default_rng(SEED)
    letters = np.array(list("aeiouklmnprst"))
    words = ["".join(letters[source.integers(0, len(letters), n)]) for n in source.integers(3, 10, 5000)]
    chosen = source.integers(0, len(words), (chunks, 58))
    return [
        f"Passage {number:0{NUMBER}d} {' '.join([words[word] for word in row])}."
        for number, row in enumerate(chosen.tolist())
    ]


def _write_documents(file: Path, texts: list[str]) -> None:
    with file.open("w", encoding="utf-8") as stream:
        for first in range(0, len(texts), PASSAGES):
            passages = enumerate(texts[first : first + PASSAGES])
            document = {
                "document_id": f"document-{first // PASSAGES:0{NUMBER}d}",
                "title": f"Document {first // PASSAGES}",
                "document_type": "runbook",
                "publication_state": "published",
                "body": "\n\n".join(f"## Part {part}\n\n{text}" for part, text in passages),
            }
            stream.write(json.dumps(document) + "\n")


def _write_cases(file: Path, texts: list[str], questions: int) -> None:
    def fact(passage: int) -> dict[str, object]:
        quote = " ".join(texts[passage].split()[:12])
        document = f"document-{passage // PASSAGES:0{NUMBER}d}"
        return {"fact": f"What passage {passage} says.", "quotes": [{"document": document, "quote": quote}]}

    with file.open("w", encoding="utf-8") as stream:
        for number in range(questions):
            first = passage_of(number, len(texts))
            passages = [first, (first + 1) % len(texts)] if number % 3 == 0 else [first]
            case = {
                "id": f"case-{number:0{NUMBER}d}",
                "category": f"category {number % 10}",
                "split": "development" if number % 2 else "held-out",
                "question": f"Question {number:0{NUMBER}d}: what does passage {first} say?",
                "evidence": [fact(passage) for passage in passages],
            }
            stream.write(json.dumps(case) + "\n")


def _write_vectors(folder: Path, chunks: int, questions: int) -> None:
    source = np.random.default_rng(SEED + 1)
    with (folder / "passage.f32").open("wb") as stream:
        for first in range(0, chunks, BLOCK):
            stream.write(_unit(source.standard_normal((min(BLOCK, chunks - first), DIMENSION))).tobytes())
    wanted = [passage_of(number, chunks) for number in range(questions)]
    noise = source.standard_normal((questions, DIMENSION)) * NOISE
    near = rows(folder / "passage.f32", wanted) + noise
    (folder / "question.f32").write_bytes(_unit(near).tobytes())


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
