"""The ``evalkit labels`` commands: check, diff, accept, pool, merge."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalkit.errors import InputError, counted

if TYPE_CHECKING:
    from evalkit.chunking import Chunk
    from evalkit.dataset import Dataset

app = typer.Typer(
    help="Labels and their review: are they sound, do they stand on the texts that were reviewed, what is unjudged?",
    no_args_is_help=True,
)

DatasetArgument = Annotated[
    str, typer.Argument(help="Name under data/ or path of a folder with dataset.yaml.")
]


@app.command()
def check(dataset: DatasetArgument) -> None:
    """Run the label guard and compare every label with labels.lock; changes nothing."""
    from evalkit.review import check_dataset, describe

    review = check_dataset(dataset)
    typer.echo(describe(review))
    if review.faults or review.changes:
        name = shlex.quote(dataset)
        accept = f"if they are still right, `evalkit labels accept {name}`"
        look = f", or look at `evalkit labels diff {name}` and, {accept}" if review.changes else ""
        raise InputError(
            f"{counted(len(review.faults), 'fault')} and {counted(len(review.changes), 'changed text')} in data set "
            f"{dataset}; mend the labels{look}"
        )


@app.command()
def diff(dataset: DatasetArgument) -> None:
    """Show reviewed and present texts of changed labels, word by word, with proposals."""
    from evalkit.review import check_labels, diff

    typer.echo(diff(check_labels(*_read(dataset))) or "nothing changed since the labels were accepted")


@app.command()
def accept(dataset: DatasetArgument) -> None:
    """Take the present texts of all labels as reviewed and write labels.lock; says what it accepted."""
    from evalkit.review import accept_labels, describe, diff

    review = accept_labels(*_read(dataset))
    typer.echo("accepted; before that:\n" + "\n".join(filter(None, (describe(review), diff(review)))))


@app.command()
def pool(
    dataset: DatasetArgument,
    k: Annotated[int | None, typer.Option(help="Ranks looked at; default: all scored ranks.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for the fragment; default: standard output.")] = None,
) -> None:
    """List the unjudged passages of all runs, most seen first, as YAML to fill in."""
    from evalkit import pooling
    from evalkit.files import write_whole

    pooled = pooling.pool(dataset, k)
    for notice in pooled.notices:
        typer.echo(notice, err=True)
    text = pooling.fragment(pooled, out)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text)
        typer.echo(
            f"{counted(len(pooled.to_judge), 'passage')} to judge in {out}; fill in the grades, then `evalkit labels "
            f"merge {pooled.dataset} {shlex.quote(str(out))}`"
        )


@app.command()
def merge(
    dataset: DatasetArgument,
    filled: Annotated[Path, typer.Argument(help="A fragment with every grade filled in.")],
) -> None:
    """Write the grades of a filled fragment into the cases file."""
    from evalkit import pooling

    merged = pooling.merge(dataset, filled)
    typer.echo(f"{counted(merged.added, 'grade')} written to {merged.path}, {merged.known} known already")


def _read(dataset: str) -> "tuple[Dataset, list[Chunk]]":
    from evalkit.chunking import chunk_documents
    from evalkit.dataset import load_dataset

    loaded = load_dataset(dataset)
    return loaded, list(chunk_documents(loaded.documents, loaded.chunking))
