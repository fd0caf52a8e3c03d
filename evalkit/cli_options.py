"""Options that several commands share."""

from typing import Annotated

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
