"""The report of a run: notebooks in order from one process, parameters shared out, pages, all or nothing."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from evalkit import all_runs, pages, paths
from evalkit.errors import InputError
from evalkit.files import whole_folder, write_whole
from evalkit.notebooks import TIMEOUT, notebook_parameters, run_notebook
from evalkit.pages import NotebookPage
from evalkit.parameters import Parameter, check_parameters, value_from_text
from evalkit.runs import Run, load_run

NOTEBOOKS = ("index", "evaluate", "analyze-by-category", "threshold-exploration")
RUN_MIME = "application/vnd.evalkit.run+json"


@dataclass(frozen=True)
class ReportResult:
    """What `report` left behind.

    Attributes
    ----------
    run
        The run that was made.
    front_page
        ``<run>/report/report.html``.
    overview
        ``outputs/index.html``, the list of all runs.
    """

    run: Run
    front_page: Path
    overview: Path


def report(
    parameters: Mapping[str, object],
    *,
    texts: Mapping[str, str] | None = None,
    code: bool = False,
    timeout: float = TIMEOUT,
    progress: bool = True,
) -> ReportResult:
    """Index, evaluate and analyse a data set by notebooks, and leave the report of the run.

    Parameters
    ----------
    parameters
        Values by name, each for every notebook that declares it; ``dataset`` and ``embedder`` are the usual ones.
    texts
        The same as text from a command line, read by the declared type.
    code
        Write each page a second time with the code in it, as ``<name>.code.html``.
    timeout
        Seconds that each notebook may take.
    progress
        Show a bar of cells on standard error.

    Returns
    -------
    ReportResult
        Run and pages.

    Raises
    ------
    InputError
        A name that no notebook knows or a value of the wrong type, before anything runs; or whatever a notebook
        refused.
    CriteriaNotMet, InfrastructureError, KeyboardInterrupt
        As `run_notebook`. Nothing appears as ``<run>/report``; a run that was evaluated by then stays.
    """
    chosen = share_out(parameters, texts or {})
    with tempfile.TemporaryDirectory(prefix="evalkit-report-") as scratch:
        folder = Path(scratch)
        done: list[NotebookPage] = []
        found: dict[str, object] = {}
        for name, values in chosen.items():
            given = {**values, **{key: found[key] for key in found if key in notebook_parameters(name)}}
            notebook = run_notebook(name, given, folder / f"{name}.ipynb", timeout=timeout, progress=progress)
            done.append(NotebookPage(name, notebook))
            if name == "evaluate":
                found["run"] = run_id_of(notebook)
        run = load_run(str(found["run"]))
        write_pages(run, done, folder, code=code)
    return ReportResult(run, run.folder / "report" / pages.FRONT_PAGE, write_overview())


def single_report(
    name: str,
    parameters: Mapping[str, object],
    *,
    texts: Mapping[str, str] | None = None,
    folder: Path | None = None,
    code: bool = False,
    timeout: float = TIMEOUT,
    progress: bool = True,
) -> Path:
    """Run one notebook by itself, such as a comparison, and leave it with its HTML page.

    Parameters
    ----------
    name
        Name of a notebook under ``notebooks/``.
    parameters
        Values by name.
    texts
        The same as text from a command line, read by the declared type.
    folder
        Where notebook and page go, replaced when it exists; ``outputs/pages/<name>`` by default, which the overview
        of all runs lists.
    code
        Show the code in the page.
    timeout
        Seconds that the notebook may take.
    progress
        Show a bar of cells on standard error.

    Returns
    -------
    Path
        The page, ``<name>.html``.

    Raises
    ------
    InputError
        No such notebook, a name that it does not know or a value of the wrong type, before anything runs; a folder
        that holds anything else; or whatever the notebook refused.
    CriteriaNotMet, InfrastructureError, KeyboardInterrupt
        As `run_notebook`. Nothing appears in the folder.
    """
    declared = notebook_parameters(name)
    given = {
        key: value_from_text(declared[key], text) if key in declared else text
        for key, text in (texts or {}).items()
    }
    final = folder or paths.outputs() / pages.PAGES / name
    made = {f"{name}.html", f"{name}.ipynb"}
    if final.exists() and (not final.is_dir() or {path.name for path in final.iterdir()} - made):
        raise InputError(f"{final}: holds something else than the page of {name}; name another folder")
    with tempfile.TemporaryDirectory(prefix="evalkit-page-") as scratch:
        executed = Path(scratch) / f"{name}.ipynb"
        values = {**parameters, **given}
        notebook = run_notebook(name, values, executed, timeout=timeout, progress=progress)
        page = pages.single_page(NotebookPage(name, notebook), code=code, listed=folder is None)
        with whole_folder(final) as whole:
            shutil.copyfile(executed, whole / executed.name)
            _write(whole / f"{name}.html", page)
    if folder is None:
        write_overview()
    return final / f"{name}.html"


def share_out(parameters: Mapping[str, object], texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Give each notebook of the report the values that it declares.

    Parameters
    ----------
    parameters, texts
        As for `report`.

    Returns
    -------
    dict of str to dict
        Checked values by notebook, in the order in which they run.

    Raises
    ------
    InputError
        A name that no notebook declares, ``run`` (which the report makes itself), or a value of the wrong type.
    """
    declared = {name: dict(notebook_parameters(name)) for name in NOTEBOOKS}
    for known in declared.values():
        known.pop("run", None)
    everything: dict[str, Parameter] = {}
    for known in declared.values():
        everything.update({key: parameter for key, parameter in known.items() if key not in everything})
    values = dict(parameters)
    for key, text in texts.items():
        values[key] = value_from_text(everything[key], text) if key in everything else text
    check_parameters(", ".join(NOTEBOOKS), everything, values)
    return {
        name: check_parameters(name, known, {key: value for key, value in values.items() if key in known})
        for name, known in declared.items()
    }


def run_id_of(notebook: NotebookNode) -> str:
    """Read from an executed notebook which run it wrote.

    Raises
    ------
    InputError
        The notebook has no output of the type `RUN_MIME`.
    """
    found = [
        str(output["data"][RUN_MIME]["run_id"])
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if RUN_MIME in output.get("data", {})
    ]
    if not found:
        raise InputError(
            f"the evaluate notebook shows no output of the type {RUN_MIME}, so the run that it wrote is unknown; "
            "put back the lines of notebooks/evaluate.ipynb that show it after the run is written"
        )
    return found[-1]


def write_pages(run: Run, notebooks: list[NotebookPage], executed: Path, *, code: bool = False) -> None:
    """Write ``<run>/report``, whole or not at all.

    Parameters
    ----------
    run
        The run.
    notebooks
        Its executed notebooks, in order.
    executed
        Folder of the stored notebooks, copied as they are, so that their signatures stay valid.
    code
        Also write the pages with code.

    Raises
    ------
    InfrastructureError
        The disk refused.
    """
    with whole_folder(run.folder / "report") as folder:
        for page in notebooks:
            shutil.copyfile(executed / f"{page.name}.ipynb", folder / f"{page.name}.ipynb")
            _write(folder / f"{page.name}.html", pages.notebook_page(page, run, notebooks))
            if code:
                _write(
                    folder / f"{page.name}.code.html", pages.notebook_page(page, run, notebooks, code=True)
                )
        _write(folder / pages.FRONT_PAGE, pages.front_page(run, notebooks, code=code))


def write_overview() -> Path:
    """Write ``outputs/index.html``; give its path.

    Raises
    ------
    InfrastructureError
        The disk refused.
    """
    final = paths.outputs() / pages.OVERVIEW
    text = all_runs.overview_page()
    while True:  # a report that ended meanwhile may have written without this run, or we without its
        write_whole(final, text)
        before, text = text, all_runs.overview_page()
        if text == before:
            return final


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
