"""The ``evalkit`` commands that read or write files of other tools: score, export, import."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from evalkit.cli_options import cutoffs
from evalkit.errors import InputError

app = typer.Typer()


@app.command()
def score(
    run: Annotated[Path, typer.Argument(help="TREC run (plain or .gz) or Parquet.")],
    qrels: Annotated[Path, typer.Argument(help="TREC qrels (plain or .gz), Parquet, or a BEIR folder.")],
    ks: Annotated[str, typer.Option("--k", help="Cutoffs K.")] = "1,3,5,10",
    per_query: Annotated[bool, typer.Option("--per-query", help="Add the scores of every query.")] = False,
    categories: Annotated[
        Path | None, typer.Option(help="File with a query and its category a line.")
    ] = None,
    gain: Annotated[Literal["exponential", "linear"], typer.Option(help="Gain of nDCG.")] = "exponential",
    ties: Annotated[
        Literal["given", "trec"],
        typer.Option(help="Equal scores: in the given order, or as trec_eval breaks them."),
    ] = "given",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Score a run file of any retriever against judgments, with all that did not join."""
    from evalkit.scorefiles import score_files

    text = score_files(
        run,
        qrels,
        cutoffs(ks),
        per_query=per_query,
        categories=categories,
        gain=gain,
        ties=ties,
        as_json=as_json,
    )
    typer.echo(text)


@app.command()
def export(
    run: Annotated[str, typer.Argument(help="latest, a run id, or the path of a run folder.")],
    folder: Annotated[Path, typer.Argument(help="Folder for the files.")],
    trec: Annotated[bool, typer.Option("--trec", help="run.trec and qrels.trec.")] = False,
    beir: Annotated[bool, typer.Option("--beir", help="A BEIR folder with run.trec beside it.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Every table of the run as CSV.")] = False,
) -> None:
    """Write a run as files of other tools; scores in TREC files come from the ranks, so that the order holds."""
    from evalkit.exchange import export_beir, export_csv, export_trec
    from evalkit.runs import load_run

    chosen = [
        form for form, wanted in ((export_trec, trec), (export_beir, beir), (export_csv, csv)) if wanted
    ]
    if len(chosen) != 1:
        raise InputError(f"export: {len(chosen)} forms given, wanted one of --trec, --beir and --csv")
    for path in chosen[0](load_run(run), folder):
        typer.echo(path)


@app.command(name="import")
def import_folder(
    folder: Annotated[
        Path, typer.Argument(help="BEIR folder: corpus.jsonl, queries.jsonl, qrels/<split>.tsv.")
    ],
    target: Annotated[Path, typer.Argument(help="Folder of the new data set, such as data/scifact.")],
    split: Annotated[str, typer.Option(help="Which judgments to take.")] = "test",
) -> None:
    """Make a data set of a BEIR folder, so that it can be indexed and evaluated like any other."""
    from evalkit.beir_import import import_beir

    typer.echo(import_beir(folder, target, split).describe())
