"""The ``evalkit`` command. Holds no logic: each command builds settings, calls one function, prints.

Heavy modules are imported inside the commands, so that ``--help`` answers at once.
"""

import logging
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evalkit import cli_labels
from evalkit.errors import CriteriaNotMet, InfrastructureError, InputError

EXIT_CODES: dict[type[BaseException], int] = {
    CriteriaNotMet: 1,
    InputError: 2,
    InfrastructureError: 3,
    KeyboardInterrupt: 130,
}


class Commands(TyperGroup):
    """All commands; the class of an error decides the exit code."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own type moved between versions
        """Run the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except tuple(EXIT_CODES) as error:
            typer.echo(f"{type(error).__name__}: {error}", err=True)
            raise typer.Exit(EXIT_CODES[type(error)]) from None


app = typer.Typer(
    cls=Commands,
    help="Does retrieval find all the evidence that a question needs?",
    epilog="Exit codes: 0 done, 1 criteria not met, 2 invalid input, 3 infrastructure, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_labels.app, name="labels")

DatasetOption = Annotated[str, typer.Option(help="Name under data/ or path of a folder with dataset.yaml.")]
EmbedderOption = Annotated[
    str, typer.Option(help="recorded (data/embeddings, offline) or ollama (OLLAMA_HOST).")
]
ModelOption = Annotated[str, typer.Option(help="Embedding model.")]
ProfileOption = Annotated[str | None, typer.Option(help="Prompt profile; default: the model's own.")]
ChunkingOption = Annotated[str | None, typer.Option(help="Chunking version; default: the data set's own.")]
CollectionOption = Annotated[str | None, typer.Option(help="Collection; default: named after the settings.")]
KsOption = Annotated[str, typer.Option("--k", help="Cutoffs K, such as 1,3,5.")]


def main() -> None:
    """Run the command line."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr)
    app()


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


@app.command()
def index(
    dataset: DatasetOption = "worker-runbooks",
    embedder: EmbedderOption = "recorded",
    model: ModelOption = "embeddinggemma:300m",
    profile: ProfileOption = None,
    chunking: ChunkingOption = None,
    collection: CollectionOption = None,
    recreate: Annotated[bool, typer.Option(help="Replace a collection that holds something else.")] = False,
) -> None:
    """Chunk, embed and store a data set, then verify what is stored."""
    from evalkit.indexing import index as run_index
    from evalkit.settings import IndexSettings

    settings = IndexSettings.checked(
        dataset=dataset,
        embedder=embedder,
        model=model,
        profile=profile,
        chunking=chunking,
        collection=collection,
        recreate=recreate,
    )
    typer.echo(run_index(settings).describe())


@app.command()
def evaluate(
    dataset: DatasetOption = "worker-runbooks",
    ks: KsOption = "1,3,5",
    embedder: EmbedderOption = "recorded",
    model: ModelOption = "embeddinggemma:300m",
    profile: ProfileOption = None,
    chunking: ChunkingOption = None,
    collection: CollectionOption = None,
    threshold: Annotated[float | None, typer.Option(help="Hits must score above it.")] = None,
    exact: Annotated[bool, typer.Option(help="Exact search instead of the approximate index.")] = False,
    hnsw_ef: Annotated[int | None, typer.Option(help="Beam width of the approximate search.")] = None,
    retention: Annotated[
        str, typer.Option(help="Texts in the record: full, snippet, hash or none.")
    ] = "full",
    deadline: Annotated[float, typer.Option(help="Seconds that the run may take.")] = 120.0,
) -> None:
    """Ask every question at every K, score the rankings and store a run."""
    from evalkit.evaluation import evaluate as run_evaluation
    from evalkit.runs import write_run
    from evalkit.settings import EvaluateSettings
    from evalkit.summary import summarize

    settings = EvaluateSettings.checked(
        dataset=dataset,
        ks=cutoffs(ks),
        embedder=embedder,
        model=model,
        profile=profile,
        chunking=chunking,
        collection=collection,
        threshold=threshold,
        exact=exact,
        hnsw_ef=hnsw_ef,
        retention=retention,
        deadline=deadline,
    )
    typer.echo(summarize(write_run(run_evaluation(settings))))


@app.command()
def report(
    dataset: DatasetOption = "worker-runbooks",
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", "-p", metavar="NAME=VALUE", help="A parameter of the notebooks; repeatable."
        ),
    ] = None,
    code: Annotated[bool, typer.Option(help="Write each page a second time with its code.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that each notebook may take.")] = 600.0,
) -> None:
    """Index, evaluate and analyse a data set by notebooks, and leave an HTML report."""
    from evalkit import reporting
    from evalkit.summary import summarize

    done = reporting.report({"dataset": dataset}, texts=pairs(parameter or []), code=code, timeout=timeout)
    typer.echo(summarize(done.run))
    typer.echo(f"report {done.front_page}\nall runs {done.overview}")


def pairs(texts: list[str]) -> dict[str, str]:
    """Read ``NAME=VALUE`` texts.

    Raises
    ------
    InputError
        One without ``=``.
    """
    if wrong := [text for text in texts if "=" not in text]:
        raise InputError(f"--parameter {', '.join(map(repr, wrong))}: wanted NAME=VALUE, such as ks=[1,3,5]")
    return dict(text.split("=", 1) for text in texts)
