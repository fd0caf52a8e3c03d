"""Runs a notebook with Papermill: parameters checked before, failed ones kept, nothing half-done."""

import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError
from nbformat import NotebookNode
from nbformat.sign import NotebookNotary
from papermill.exceptions import PapermillExecutionError
from papermill.execute import execute_notebook, remove_error_markers
from traitlets.config import Config

from evalkit import paths
from evalkit.errors import CriteriaNotMet, InfrastructureError, InputError
from evalkit.files import write_whole
from evalkit.parameters import Parameter, check_parameters, declared_parameters
from evalkit.transport import without_secrets

TIMEOUT = 3600.0
_ERRORS = {error.__name__: error for error in (InputError, InfrastructureError, CriteriaNotMet)}
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_KERNEL_STDERR = "kernel-stderr.txt"
_SHOWN_LINES = 6
_SOCKET_PATH = 103  # bytes that the path of a socket may have on macOS; 107 on Linux


@dataclass(frozen=True)
class _Failure:
    """Why a notebook stopped: name and text of the exception, index of the cell, line in the cell."""

    ename: str
    text: str
    cell: int | None
    line: int | None = None


class _Kernel(AsyncKernelManager):
    """A kernel whose own complaints go to a file beside its connection file, to be told when it dies."""

    async def start_kernel(self, **settings: Any) -> None:  # type: ignore[override]  # noqa: ANN401
        with (Path(self.connection_file).parent / _KERNEL_STDERR).open("ab") as stream:
            await super().start_kernel(stderr=stream, **settings)


def notebook_path(notebook: str | Path) -> Path:
    """Find a notebook: a path as it is, or a name under ``notebooks/`` of the project.

    Raises
    ------
    InputError
        No such notebook; the text lists those there are.
    """
    path = notebook if isinstance(notebook, Path) else paths.root() / "notebooks" / f"{notebook}.ipynb"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in path.parent.glob("*.ipynb"))) or "none"
        raise InputError(f"notebook {path.stem!r}: no {path}; there are: {known}")
    return path


def notebook_parameters(notebook: str | Path) -> dict[str, Parameter]:
    """Give the parameters that a notebook declares, in their order.

    Raises
    ------
    InputError
        No such notebook, or a parameters cell that breaks the notebook contract.
    """
    path = notebook_path(notebook)
    return declared_parameters(_read(path), path.stem)


def run_notebook(
    notebook: str | Path,
    parameters: Mapping[str, object],
    out: Path,
    *,
    timeout: float = TIMEOUT,
    progress: bool = True,
) -> NotebookNode:
    """Execute a notebook in a fresh kernel and store it with its outputs.

    The kernel starts in the caller's working directory and inherits the environment. The executed notebook is
    signed, so that JupyterLab trusts it, and its code cells are collapsed. Whatever ends it early, what there is
    of it goes to ``outputs/failed/<name>.failed.ipynb`` with the error in it, and nothing appears at `out`.

    Parameters
    ----------
    notebook
        Name of a notebook under ``notebooks/``, or the path of any.
    parameters
        Values for its parameters; the others keep their defaults.
    out
        Where the executed notebook goes.
    timeout
        Seconds that the whole notebook may take.
    progress
        Show a bar of cells on standard error.

    Returns
    -------
    NotebookNode
        The executed notebook, as stored.

    Raises
    ------
    InputError
        Parameters that the notebook does not know or of another type (before a kernel starts), or a cell ended
        with an InputError.
    CriteriaNotMet
        A cell ended with it.
    InfrastructureError
        A cell ended with it, with ``sys.exit`` or with an exception of any other name; the kernel died or could
        not start; time is up.
    KeyboardInterrupt
        Ctrl-C, here or in the kernel.
    """
    path = notebook_path(notebook)
    values = check_parameters(path.stem, notebook_parameters(path), parameters)
    with tempfile.TemporaryDirectory(prefix="evalkit-") as scratch:
        draft = Path(scratch) / path.name
        try:
            failure = _execute(path, draft, values, timeout, progress)
        except KeyboardInterrupt:
            failure = _Failure("KeyboardInterrupt", "interrupted", _last_started(draft))
            raise _stop(path.stem, draft, failure) from None
        if failure is not None:
            raise _stop(path.stem, draft, failure)
        executed = _read(draft)
    _as_report(executed, path.name)
    text = without_secrets(nbformat.writes(executed)) + "\n"
    write_whole(out, text)
    stored: NotebookNode = nbformat.reads(text, as_version=4)
    NotebookNotary().sign(stored)
    return stored


def _execute(
    source: Path, draft: Path, values: dict[str, Any], timeout: float, progress: bool
) -> _Failure | None:
    """Run the cells, saving to `draft` as they go; give the reason when they do not all end well."""
    end = time.monotonic() + timeout
    connection = draft.parent / "kernel.json"
    kernel = {"transport": _transport(connection), "connection_file": str(connection)}
    try:
        with _quiet("papermill"):
            execute_notebook(
                source,
                draft,
                parameters=values,
                progress_bar={"desc": source.stem} if progress else False,
                timeout_func=lambda _: max(0.01, end - time.monotonic()),
                kernel_manager_class=_Kernel,
                config=Config({"KernelManager": kernel}),
            )
    except PapermillExecutionError:
        pass
    except CellTimeoutError:
        text = f"the notebook took longer than {timeout:g} s; allow more, or find out what its cell waits for"
        return _Failure("TimeoutError", text, _last_started(draft))
    except RuntimeError as error:  # DeadKernelError is one, and so is a kernel that does not start
        complaints = draft.parent / _KERNEL_STDERR
        said = complaints.read_text(errors="replace").strip() if complaints.exists() else ""
        text = f"{error}" + (f"; its last words: {said[-800:]}" if said else "; did it run out of memory?")
        return _Failure("DeadKernelError", text, _last_started(draft))
    return _first_error(_read(draft))


def _transport(connection: Path) -> str:
    """Sockets beside the connection file, unless its path is longer than a socket's may be: then ports."""
    socket = connection.with_name(f"{connection.stem}-ipc-00")
    return "ipc" if len(os.fsencode(socket)) <= _SOCKET_PATH else "tcp"


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Keep a logger from saying on standard error what the error text says."""
    log = logging.getLogger(logger)
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _read(path: Path) -> NotebookNode:
    """Read a notebook, without the cells that Papermill adds to failed ones: `_keep` adds its own."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: not a readable notebook ({type(error).__name__}: {error})") from None
    plain: NotebookNode = remove_error_markers(notebook)
    return plain


def _first_error(notebook: NotebookNode) -> _Failure | None:
    for index, cell in enumerate(notebook.cells):
        allowed = "raises-exception" in cell.metadata.get("tags", [])
        errors = [one for one in cell.get("outputs", []) if one.output_type == "error" and not allowed]
        for output in errors[:1]:
            line = re.search(r"Cell In\[\d+\], line (\d+)", _ANSI.sub("", "\n".join(output.traceback)))
            exited = output.ename == "SystemExit"
            text = "the cell called sys.exit, so those after it did not run" if exited else output.evalue
            return _Failure(output.ename, text, index, int(line[1]) if line else None)
    return None


def _last_started(draft: Path) -> int | None:
    """Find the cell that was at work when the kernel, or we, stopped."""
    if not draft.exists():
        return None
    started = [
        index
        for index, cell in enumerate(_read(draft).cells)
        if cell.cell_type == "code" and cell.metadata.get("papermill", {}).get("start_time")
    ]
    return started[-1] if started else None


def _stop(name: str, draft: Path, failure: _Failure) -> BaseException:
    """Keep the notebook as far as it came and make the exception to raise: class of the cell, text, place."""
    named = failure.ename in (*_ERRORS, "KeyboardInterrupt")
    what = (failure.text or "interrupted") if named else f"{failure.ename}: {failure.text}"
    lines = [f"notebook {name}: {what}"]
    if draft.exists():
        notebook = _read(draft)
        lines += _place(notebook, failure)
        lines.append(f"the notebook as far as it came: {_keep(name, notebook, failure, lines)}")
    text = without_secrets("\n".join(lines))
    if failure.ename == "KeyboardInterrupt":
        return KeyboardInterrupt(text)
    return _ERRORS.get(failure.ename, InfrastructureError)(text)


def _keep(name: str, notebook: NotebookNode, failure: _Failure, lines: list[str]) -> Path:
    """Store a notebook that failed, with the error in its cell and a note on top."""
    if failure.cell is not None:
        outputs = notebook.cells[failure.cell].outputs
        shown = {output.get("ename") for output in outputs}  # a kernel may tell of its interruption itself
        if failure.ename not in shown:
            text = f"{failure.ename}: {failure.text}".splitlines()
            outputs.append(
                nbformat.v4.new_output("error", ename=failure.ename, evalue=failure.text, traceback=text)
            )
    quoted = "\n".join(f"    {line}" for part in lines for line in part.splitlines())
    note = nbformat.v4.new_markdown_cell(f"**This notebook did not end well.**\n\n{quoted}")
    notebook.cells.insert(0, note)
    _relative_names(notebook, f"{name}.ipynb")
    kept = paths.outputs() / "failed" / f"{name}.failed.ipynb"
    write_whole(kept, without_secrets(nbformat.writes(notebook)) + "\n")
    return kept


def _place(notebook: NotebookNode, failure: _Failure) -> list[str]:
    """Say which cell failed, by the number that JupyterLab shows beside it, with its lines."""
    if failure.cell is None:
        return ["it stopped before its first cell"]
    through = notebook.cells[: failure.cell + 1]
    number = sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in through)
    return [f"it stopped in cell [{number}]:", *_excerpt(through[-1].source.splitlines(), failure.line)]


def _excerpt(source: list[str], line: int | None) -> list[str]:
    """Show the lines of a cell around the one that failed, which gets a mark."""
    at = (line or 1) - 1
    first = max(0, min(at - _SHOWN_LINES // 2, len(source) - _SHOWN_LINES))
    return [
        f"  {'>' if line and index == at else ' '} {text}"
        for index, text in enumerate(source[first : first + _SHOWN_LINES], start=first)
    ]


def _as_report(notebook: NotebookNode, name: str) -> None:
    """Let JupyterLab open the notebook as a report: code collapsed, no path of this machine."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.setdefault("jupyter", NotebookNode())["source_hidden"] = True
    _relative_names(notebook, name)


def _relative_names(notebook: NotebookNode, name: str) -> None:
    notebook.metadata.get("papermill", {}).update(input_path=f"notebooks/{name}", output_path=name)
