"""The ``evalkit`` command. Holds no logic: each command builds settings, calls one function, prints.

Heavy modules are imported inside the commands, so that ``--help`` answers at once.
"""

import logging
import sys
import traceback
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from evalkit import cli_files, cli_labels, cli_runs
from evalkit.cli_options import (
    ChunkingOption,
    CollectionOption,
    DatasetOption,
    EmbedderOption,
    EmbeddingsOption,
    ModelOption,
    ParameterOption,
    ProfileOption,
    TimeoutOption,
    cutoffs,
    pairs,
    progress_bar,
)
from evalkit.errors import CriteriaNotMet, InfrastructureError, InputError

if TYPE_CHECKING:
    from evalkit.settings import EvaluateSettings

EXIT_CODES: dict[type[BaseException], int] = {
    CriteriaNotMet: 1,
    InputError: 2,
    InfrastructureError: 3,
    KeyboardInterrupt: 130,
}
CRASHED = 70
"""Exit code of an error that is none of these: a defect of ours. The system calls it EX_SOFTWARE."""


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
    epilog="Exit codes: 0 done, 1 criteria not met, 2 invalid input, 3 infrastructure, 70 a defect of evalkit, "
    "130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_labels.app, name="labels")
app.add_typer(cli_runs.app)
app.add_typer(cli_files.app)


def main() -> None:
    """Run the command line."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        app()
    except Exception:
        from evalkit.transport import without_secrets

        typer.echo(without_secrets(traceback.format_exc()), err=True, nl=False)
        release = metadata.version("evalkit")
        typer.echo(
            f"This is a defect of evalkit {release}, which should give a result or say in words what is wrong. "
            "Report the lines above, the command and what it read.",
            err=True,
        )
        sys.exit(CRASHED)


@app.command()
def index(
    dataset: DatasetOption = "worker-runbooks",
    embedder: EmbedderOption = "recorded",
    model: ModelOption = "embeddinggemma:300m",
    profile: ProfileOption = None,
    chunking: ChunkingOption = None,
    collection: CollectionOption = None,
    embeddings: EmbeddingsOption = None,
    recreate: Annotated[bool, typer.Option(help="Replace a collection that holds something else.")] = False,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Layout of a new collection, repeatable: shards, replicas, vectors_on_disk, quantized, hnsw_m, "
            "hnsw_ef_construct; and parallel uploads.",
        ),
    ] = None,
) -> None:
    """Chunk, embed and store a data set, then verify what is stored."""
    from evalkit.indexing import index as run_index
    from evalkit.settings import IndexSettings, ServerSettings

    layout = ServerSettings.from_texts(pairs(server or [], "--server", "shards=3"))
    settings = IndexSettings.checked(
        dataset=dataset,
        embedder=embedder,
        model=model,
        profile=profile,
        chunking=chunking,
        collection=collection,
        embeddings=embeddings,
        recreate=recreate,
        **layout.model_dump(),
    )
    with progress_bar(" chunks") as update:
        report = run_index(settings, lambda progress: update(progress.done, progress.total))
    typer.echo(report.describe())


@app.command()
def evaluate(
    dataset: Annotated[
        str | None, typer.Option(help="Name or folder; default: worker-runbooks, or the run's.")
    ] = None,
    ks: Annotated[str | None, typer.Option("--k", help="Cutoffs K; default: 1,3,5.")] = None,
    embedder: EmbedderOption = "recorded",
    model: ModelOption = "embeddinggemma:300m",
    profile: ProfileOption = None,
    chunking: ChunkingOption = None,
    collection: CollectionOption = None,
    embeddings: EmbeddingsOption = None,
    threshold: Annotated[
        float | None, typer.Option(help="Hits must score above it, a cosine (-1 to 1).")
    ] = None,
    exact: Annotated[bool, typer.Option(help="Exact search instead of the approximate index.")] = False,
    hnsw_ef: Annotated[int | None, typer.Option(help="Beam width of the approximate search.")] = None,
    retention: Annotated[
        str, typer.Option(help="Texts in the record: full, snippet, hash or none.")
    ] = "full",
    deadline: Annotated[float, typer.Option(help="Seconds that the run may take.")] = 120.0,
    rankings: Annotated[
        str | None,
        typer.Option(help="Score these instead of asking Qdrant: a run, a TREC run or a Parquet file."),
    ] = None,
) -> None:
    """Ask every question at every K, score the rankings and store a run."""
    from evalkit.evaluation import evaluate as run_evaluation
    from evalkit.rescoring import score_rankings
    from evalkit.runs import write_run
    from evalkit.settings import EvaluateSettings
    from evalkit.summary import summarize

    given = {
        "embedder": embedder,
        "model": model,
        "profile": profile,
        "collection": collection,
        "embeddings": embeddings,
        "threshold": threshold,
        "exact": exact,
        "hnsw_ef": hnsw_ef,
        "deadline": deadline,
    }
    shared: dict[str, Any] = {"chunking": chunking, "retention": retention}
    if ks is not None:
        shared["ks"] = cutoffs(ks)
    settings = EvaluateSettings.checked(dataset=dataset or "worker-runbooks", **given, **shared)
    if rankings is None:
        done = run_evaluation(settings)
    else:
        refuse_search_settings(settings, given)
        done = score_rankings(rankings, dataset, **shared)
    typer.echo(summarize(write_run(done)))


def refuse_search_settings(settings: "EvaluateSettings", names: Iterable[str]) -> None:
    """Refuse settings of a search where rankings that are there already are scored.

    Raises
    ------
    InputError
        Names each setting that is not at its default.
    """
    fields = type(settings).model_fields
    if set_ones := [name for name in names if getattr(settings, name) != fields[name].default]:
        raise InputError(
            f"--rankings scores what was retrieved elsewhere, so {', '.join(set_ones)} would do nothing; leave it out"
        )


@app.command()
def record(
    dataset: DatasetOption = "worker-runbooks",
    model: ModelOption = "embeddinggemma:300m",
    profile: ProfileOption = None,
    chunking: Annotated[list[str] | None, typer.Option(help="Chunking version; repeatable.")] = None,
    embeddings: Annotated[
        str | None, typer.Option(help="Folder for the vectors; default: data/embeddings.")
    ] = None,
) -> None:
    """Embed a data set with a live Ollama and keep the vectors, so that it runs offline from then on."""
    from evalkit import paths
    from evalkit.dataset import load_dataset
    from evalkit.embedders import open_embedder, record_vectors
    from evalkit.settings import EmbeddingSettings
    from evalkit.vectors import VectorCache

    settings = EmbeddingSettings.checked(embedder="ollama", model=model, profile=profile)
    loaded = load_dataset(dataset)
    folder = paths.embeddings_folder(embeddings)
    with open_embedder(settings) as embedder, VectorCache() as cache, progress_bar(" prompts") as update:
        done = record_vectors(loaded, embedder, cache, folder, chunking or (), update)
    typer.echo(
        f"{done.added} vectors added to {done.folder}, {done.already} were there, {done.embedded} computed"
    )


@app.command()
def report(
    dataset: DatasetOption = "worker-runbooks",
    parameter: ParameterOption = None,
    code: Annotated[bool, typer.Option(help="Write each page a second time with its code.")] = False,
    timeout: TimeoutOption = 600.0,
) -> None:
    """Index, evaluate and analyse a data set by notebooks, and leave an HTML report."""
    from evalkit import reporting
    from evalkit.summary import summarize

    done = reporting.report({"dataset": dataset}, texts=pairs(parameter or []), code=code, timeout=timeout)
    typer.echo(summarize(done.run))
    typer.echo(f"report {done.front_page}\nall runs {done.overview}")


@app.command()
def notebook(
    name: Annotated[
        str, typer.Argument(help="Name under notebooks/, such as compare-chunkings or compare-runs.")
    ],
    parameter: ParameterOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for notebook and page; default: outputs/pages/NAME.")
    ] = None,
    code: Annotated[bool, typer.Option(help="Show the code in the page.")] = False,
    timeout: TimeoutOption = 600.0,
) -> None:
    """Run one notebook by itself and leave it with its HTML page."""
    from evalkit import reporting

    page = reporting.single_report(
        name, {}, texts=pairs(parameter or []), folder=out, code=code, timeout=timeout
    )
    typer.echo(f"page {page}")
