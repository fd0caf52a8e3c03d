"""Options that several commands share, their texts read, and a progress bar."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from evalkit.errors import InputError

DatasetOption = Annotated[str, typer.Option(help="Name under data/ or path of a folder with dataset.yaml.")]
EmbedderOption = Annotated[
    str, typer.Option(help="recorded (data/embeddings, offline) or ollama (OLLAMA_HOST).")
]
ModelOption = Annotated[str, typer.Option(help="Embedding model.")]
ProfileOption = Annotated[str | None, typer.Option(help="Prompt profile; default: the model's own.")]
ChunkingOption = Annotated[str | None, typer.Option(help="Chunking version; default: the data set's own.")]
EmbeddingsOption = Annotated[
    str | None, typer.Option(help="Folder of recorded vectors; default: data/embeddings.")
]
CollectionOption = Annotated[str | None, typer.Option(help="Collection; default: named after the settings.")]

ParameterOption = Annotated[
    list[str] | None,
    typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="A parameter of the notebooks; repeatable."),
]
TimeoutOption = Annotated[float, typer.Option(help="Seconds that each notebook may take.")]


def cutoffs(text: str) -> tuple[int, ...]:
    """Read ``1,3,5``.

    Raises
    ------
    InputError
        Something between the commas is no whole number.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--k {text!r}: wanted whole numbers with commas, such as 1,3,5") from None


def pairs(texts: list[str], option: str = "--parameter", example: str = "ks=[1,3,5]") -> dict[str, str]:
    """Read ``NAME=VALUE`` texts; option and an example of it stand in the error.

    Raises
    ------
    InputError
        One without ``=``.
    """
    if wrong := [text for text in texts if "=" not in text]:
        raise InputError(f"{option} {', '.join(map(repr, wrong))}: wanted NAME=VALUE, such as {example}")
    return dict(text.split("=", 1) for text in texts)


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show how much of all is done, the rate and the time left, on standard error; nothing before the first call."""
    from tqdm import tqdm

    bars: list[Any] = []

    def update(done: int, total: int) -> None:
        if not bars:
            bars.append(tqdm(total=total, unit=unit, mininterval=0.5, file=sys.stderr))
        bars[0].update(done - bars[0].n)

    try:
        yield update
    finally:
        for bar in bars:
            bar.close()
