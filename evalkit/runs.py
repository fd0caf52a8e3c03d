"""Run folders under ``outputs/runs``: written once and whole, read back with checks, listed."""

import hashlib
import json
import re
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evalkit import paths
from evalkit.errors import InputError, refuse
from evalkit.evaluation import Evaluation
from evalkit.fields import checked
from evalkit.files import whole_folder, write_whole
from evalkit.records import RUN_ID_PATTERN, RunRecord
from evalkit.tables import Tables

RUN_ID = re.compile(RUN_ID_PATTERN)
TABLES = tuple(field.name for field in fields(Tables))
"""Names of the tables of a run."""


@dataclass(frozen=True)
class Run:
    """One finished run on disk; tables are read when first asked for.

    Attributes
    ----------
    run_id, folder
        Identity and place.
    record
        The contents of ``run.json``.
    rankings, scores, questions, facts, judgments, deep
        Tables of the run; columns in ``docs/architecture.md``.
    """

    run_id: str
    folder: Path
    record: RunRecord

    @cached_property
    def rankings(self) -> pd.DataFrame:
        """Every scored ranking, a row a question, K and rank."""
        return self._read("rankings")

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Scores, a row an answerable case and K."""
        return self._read("scores")

    @cached_property
    def questions(self) -> pd.DataFrame:
        """All questions, a row a question and K."""
        return self._read("questions")

    @cached_property
    def facts(self) -> pd.DataFrame:
        """Required facts, a row a case, K and fact."""
        return self._read("facts")

    @cached_property
    def judgments(self) -> pd.DataFrame:
        """Judged chunks, a row a case and chunk."""
        return self._read("judgments")

    @cached_property
    def deep(self) -> pd.DataFrame:
        """The diagnostic ranking of every question, never scored."""
        return self._read("deep")

    def cutoff(self, k: int | None = None) -> int:
        """Give K, or the largest K of the run for None.

        Raises
        ------
        InputError
            The run was not evaluated at this K.
        """
        ks = self.record.search.ks
        if k is None:
            return ks[-1]
        if k not in ks:
            raise InputError(f"k: run {self.run_id} has no results at K = {k}; its cutoffs are {list(ks)}")
        return k

    def _read(self, name: str) -> pd.DataFrame:
        path = self.folder / f"{name}.parquet"
        try:
            table: pd.DataFrame = pq.read_table(path).to_pandas()
        except (OSError, pa.ArrowException) as error:
            raise InputError(
                f"{path}: cannot be read ({type(error).__name__}); the run is damaged, evaluate again"
            ) from None
        return table


def runs_folder() -> Path:
    """Give the folder that holds all runs."""
    return paths.outputs() / "runs"


def write_run(evaluation: Evaluation) -> Run:
    """Store an evaluation as a run folder and make it the latest.

    Parameters
    ----------
    evaluation
        Record and tables of one evaluation.

    Returns
    -------
    Run
        The run as it stands on disk.

    Raises
    ------
    InfrastructureError
        The disk refused; nothing is left under the run's name.
    """
    final = runs_folder() / evaluation.record.run_id
    with whole_folder(final) as folder:
        for name in TABLES:
            table = pa.Table.from_pandas(getattr(evaluation, name), preserve_index=False)
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        hashes = {name: _sha256(folder / f"{name}.parquet") for name in TABLES}
        record = evaluation.record.model_copy(update={"tables_sha256": hashes})
        (folder / "run.json").write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    write_whole(paths.outputs() / "latest", record.run_id + "\n")
    return Run(record.run_id, final, record)


def load_run(ref: str | Path) -> Run:
    """Open a run, with its tables held against the hashes in its record.

    Parameters
    ----------
    ref
        ``latest``, a run id, or the path of a run folder.

    Returns
    -------
    Run
        With its record read and checked.

    Raises
    ------
    InputError
        As `read_run`; or a table that is missing or not the one that was stored with the run.
    """
    run = read_run(ref)
    if faults := changed_tables(run):
        refuse(
            f"run {run.run_id}: its tables are not those that were stored",
            faults,
            "put the files back as they were, or evaluate again; `evalkit verify` says what can still be shown",
        )
    return run


def changed_tables(run: Run) -> list[str]:
    """List the tables that are missing or not those that were stored with a run; none where no hashes were kept."""
    recorded = run.record.tables_sha256
    if recorded is None:
        return []
    faults = []
    for name in TABLES:
        path = run.folder / f"{name}.parquet"
        wanted = recorded.get(name, "not in run.json")
        try:
            found = _sha256(path)
        except OSError as error:
            found = f"unknown, {error.strerror}"
        if found != wanted:
            faults.append(f"{path}: SHA-256 is {found}, when the run was stored it was {wanted}")
    return faults


def read_run(ref: str | Path) -> Run:
    """Open a run by its record alone, whatever became of its tables.

    Parameters
    ----------
    ref
        ``latest``, a run id, or the path of a run folder.

    Returns
    -------
    Run
        With its record read and checked.

    Raises
    ------
    InputError
        No such run, or a folder without a valid ``run.json``; the text lists the newest runs.
    """
    folder = _folder_of(str(ref))
    path = folder / "run.json"
    faults: list[str] = []
    try:
        record = checked(RunRecord, json.loads(path.read_text(encoding="utf-8")), "", faults)
    except FileNotFoundError:
        raise InputError(f"run {str(ref)!r}: no {path}; {_newest()}") from None
    except (OSError, ValueError, RecursionError) as error:
        record, faults = None, [str(error)]
    if record is None:
        refuse(f"{path}: not a run record", faults, "put the file back as it was, or evaluate again")
    return Run(record.run_id, folder, record)


def run_ids() -> list[str]:
    """List the ids of all run folders, newest first."""
    folder = runs_folder()
    if not folder.is_dir():
        return []
    return sorted((path.name for path in folder.iterdir() if RUN_ID.fullmatch(path.name)), reverse=True)


def list_runs() -> pd.DataFrame:
    """List all runs, newest first.

    Returns
    -------
    DataFrame
        Columns ``run_id, started, dataset, version, embedder, model, chunking, collection, threshold, ks, folder``;
        no rows when there is no run.
    """
    columns = "run_id started dataset version embedder model chunking collection threshold ks folder".split()
    rows = []
    for run_id in run_ids():
        record = read_run(run_id).record
        rows.append(
            (
                run_id,
                record.started,
                record.dataset.name,
                str(record.dataset.version),
                record.model.embedder,
                record.model.model,
                record.chunking,
                record.store.collection,
                record.search.threshold,
                list(record.search.ks),
                str(runs_folder() / run_id),
            )
        )
    return pd.DataFrame(rows, columns=columns)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _newest() -> str:
    return f"newest runs: {', '.join(run_ids()[:5]) or 'none yet; run `evalkit evaluate` first'}"


def _folder_of(ref: str) -> Path:
    if ref == "latest":
        file = paths.outputs() / "latest"
        try:
            ref = file.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            raise InputError(
                f"no run yet under {paths.outputs()}; run `evalkit evaluate` or `make report` first"
            ) from None
        if not RUN_ID.fullmatch(ref):
            raise InputError(
                f"{file} names no run, found {ref[:60]!r}; evaluate again, or name a run by its id"
            )
    if RUN_ID.fullmatch(ref):
        return runs_folder() / ref
    folder = Path(ref).expanduser()
    if ref and folder.is_dir():
        return folder.absolute()
    raise InputError(f"run {ref!r}: not `latest`, a run id or the path of a run folder; {_newest()}")
