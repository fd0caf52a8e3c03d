"""The ``evalkit`` commands on finished runs: compare, gate, verify."""

from pathlib import Path
from typing import Annotated

import typer

from evalkit.cli_options import (
    ChunkingOption,
    EmbedderOption,
    EmbeddingsOption,
    ModelOption,
    ProfileOption,
)
from evalkit.errors import InputError

app = typer.Typer()

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
    min_cases: Annotated[
        int | None,
        typer.Option(help="Cases that have to count, at least, in every mean; unsupported questions aside."),
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
    k: Annotated[
        int | None, typer.Option("--k", help="K of accepted questions and regressed cases; default: largest.")
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
        min_cases=min_cases,
        max_drop=read_bounds(max_drop or [], "--max-drop"),
        max_false_acceptance=max_false_acceptance,
        max_regressed_cases=max_regressed_cases,
        k=k,
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
    embeddings: EmbeddingsOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Embed every passage again, not a sample of 64.")
    ] = False,
) -> None:
    """Say what can be shown about a run, or with --dataset about a collection, and what cannot."""
    from evalkit import verification
    from evalkit.runs import read_run
    from evalkit.settings import EmbeddingSettings

    sample = None if everything else 64
    if dataset is None:
        findings = verification.verify_run(read_run(subject), sample)
    else:
        settings = EmbeddingSettings.checked(
            embedder=embedder, model=model, profile=profile, embeddings=embeddings
        )
        findings = verification.verify_stored(subject, dataset, settings, chunking, sample)
    for finding in findings:
        typer.echo(f"{finding.verdict:>16}  {finding.claim}: {finding.detail}")
    if wrong := sum(finding.verdict == "differs" for finding in findings):
        raise InputError(f"{wrong} of {len(findings)} claims about {subject} do not hold")
