"""The ``evalkit`` command. Holds no logic: each command builds settings, calls one function, prints.

Heavy modules are imported inside the commands, so that ``--help`` answers at once.
"""

import logging
import sys
from pathlib import Path
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
EmbeddingsOption = Annotated[
    str | None, typer.Option(help="Folder of recorded vectors; default: data/embeddings.")
]
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
    embeddings: EmbeddingsOption = None,
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
        embeddings=embeddings,
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
    embeddings: EmbeddingsOption = None,
    threshold: Annotated[float | None, typer.Option(help="Hits must score above it.")] = None,
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
        embeddings=embeddings,
        threshold=threshold,
        exact=exact,
        hnsw_ef=hnsw_ef,
        retention=retention,
        deadline=deadline,
    )
    typer.echo(summarize(write_run(run_evaluation(settings))))


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
    with open_embedder(settings) as embedder, VectorCache() as cache:
        done = record_vectors(loaded, embedder, cache, paths.embeddings_folder(embeddings), chunking or ())
    typer.echo(
        f"{done.added} vectors added to {done.folder}, {done.already} were there, {done.embedded} computed"
    )


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


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="latest, a run id, or the path of a run folder.")
]


@app.command()
def compare(
    baseline: Annotated[str, typer.Argument(help="The run to compare with.")],
    candidate: Annotated[str, typer.Argument(help="The run in question.")] = "latest",
    k: Annotated[int | None, typer.Option("--k", help="Cutoff for the cases; default: the largest.")] = None,
) -> None:
    """Compare two runs of the same questions: what differs, mean differences with intervals, cases worse and better.

    The notebook compare-runs shows the same with plots.
    """
    from evalkit import comparison
    from evalkit.runs import load_run
    from evalkit.summary import describe_comparison

    typer.echo(describe_comparison(comparison.compare(load_run(baseline), load_run(candidate), k)))


@app.command()
def gate(
    run: RunArgument = "latest",
    minimum: Annotated[
        list[str] | None, typer.Option("--min", help="Lowest mean, such as complete@3=0.95.")
    ] = None,
    max_false_acceptance: Annotated[
        float | None, typer.Option(help="Share of unsupported questions accepted.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Run that this one must not fall behind.")] = None,
    max_drop: Annotated[
        list[str] | None, typer.Option(help="Largest drop below the baseline: ndcg@5=0.02.")
    ] = None,
    max_regressed_cases: Annotated[
        int | None, typer.Option(help="Cases that may be worse than in it.")
    ] = None,
    criteria: Annotated[
        Path | None, typer.Option(help="YAML file with criteria; options replace its bounds.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Write a Markdown summary here.")] = None,
) -> None:
    """Hold a run against criteria; exit code 1 when one is missed, 2 when a figure it needs is not there.

    Example: evalkit gate latest --min complete@3=0.95 --min recall@5=0.9 --max-false-acceptance 0.1
    """
    from evalkit import gate_reports
    from evalkit.criteria import read_bounds, read_criteria
    from evalkit.files import write_whole
    from evalkit.gate import gate as hold
    from evalkit.runs import load_run

    wanted = read_criteria(
        criteria,
        min=read_bounds(minimum or [], "--min"),
        max_drop=read_bounds(max_drop or [], "--max-drop"),
        max_false_acceptance=max_false_acceptance,
        max_regressed_cases=max_regressed_cases,
    )
    report = hold(load_run(run), wanted, load_run(baseline) if baseline else None)
    if junit:
        write_whole(junit, gate_reports.junit_xml(report))
    if summary:
        write_whole(summary, gate_reports.markdown_summary(report))
    typer.echo(gate_reports.text_summary(report))
    report.enforce()


@app.command()
def verify(
    subject: Annotated[
        str, typer.Argument(metavar="RUN|COLLECTION", help="latest, a run id or folder; a collection.")
    ],
    dataset: Annotated[
        str | None, typer.Option(help="For a collection: the data set that it should hold.")
    ] = None,
    embedder: EmbedderOption = "recorded",
    model: ModelOption = "embeddinggemma:300m",
    profile: ProfileOption = None,
    chunking: ChunkingOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Embed every passage again, not a sample of 64.")
    ] = False,
) -> None:
    """Say what can be shown about a run, or with --dataset about a collection, and what cannot."""
    from evalkit import verification
    from evalkit.runs import load_run
    from evalkit.settings import EmbeddingSettings

    sample = None if everything else 64
    if dataset is None:
        findings = verification.verify_run(load_run(subject), sample)
    else:
        settings = EmbeddingSettings.checked(embedder=embedder, model=model, profile=profile)
        findings = verification.verify_stored(subject, dataset, settings, chunking, sample)
    for finding in findings:
        typer.echo(f"{finding.verdict:>16}  {finding.claim}: {finding.detail}")
    if wrong := sum(finding.verdict == "differs" for finding in findings):
        raise InputError(f"{wrong} of {len(findings)} claims about {subject} do not hold")
