"""The runner: what ends a notebook decides the error; nothing half-done is left under a final name."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from evalkit.errors import CriteriaNotMet, InfrastructureError, InputError
from evalkit.notebooks import notebook_parameters, notebook_path, run_notebook

RAISE = textwrap.dedent("""\
    from evalkit import errors
    before = 1
    if number:
        raise errors.{}("three faults:\\n- <b>one</b>\\n- two")
    after = 2
    """)


def write_notebook(folder: Path, *sources: str, name: str = "probe") -> Path:
    """Store a notebook with one parameter `number` and these cells."""
    cells = [nbformat.v4.new_code_cell("number: int = 1  # any", metadata={"tags": ["parameters"]})]
    cells += [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = folder / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


def stop(folder: Path, *sources: str, **settings):
    """Run cells that do not end well; give the error, the kept notebook, and check that nothing else is there."""
    path = write_notebook(folder, *sources)
    out = folder / "out" / "probe.ipynb"
    with pytest.raises((InputError, InfrastructureError, CriteriaNotMet)) as caught:
        run_notebook(path, {}, out, progress=False, **settings)
    assert not out.exists()
    kept = folder / "outputs" / "failed" / "probe.failed.ipynb"
    assert [one.name for one in kept.parent.iterdir()] == [kept.name]
    assert str(kept) in str(caught.value)
    return caught.value, nbformat.read(kept, as_version=4)


def errors_of(notebook):
    return [
        (index, output.ename, output.evalue)
        for index, cell in enumerate(notebook.cells)
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize("values", [{"number": "1"}, {"nummber": 1}, {"number": [1]}, {"number": None}])
def test_bad_parameters_are_refused_before_a_kernel_starts(tmp_path, outputs, values):
    path = write_notebook(tmp_path, "number")
    with pytest.raises(InputError, match="notebook probe: parameters: 1 fault"):
        run_notebook(path, values, tmp_path / "out.ipynb")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["probe.ipynb"]


def test_an_unknown_notebook_is_refused_with_those_there_are(tmp_path):
    write_notebook(tmp_path, name="other")
    with pytest.raises(InputError, match="there are: other"):
        notebook_path(tmp_path / "probe.ipynb")


def test_a_file_that_is_no_notebook_is_refused(tmp_path):
    path = tmp_path / "probe.ipynb"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"probe\.ipynb: not a readable notebook"):
        notebook_parameters(path)


@pytest.mark.notebook
def test_a_notebook_that_ends_well_is_stored_trusted_collapsed_and_without_our_paths(
    tmp_path, outputs, monkeypatch, capfd
):
    path = write_notebook(tmp_path, "import os\nprint(number, os.getcwd())")
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "new" / "probe.ipynb"
    executed = run_notebook(path, {"number": 7}, out, progress=False)
    stored = nbformat.read(out, as_version=4)
    assert stored == executed
    assert stored.cells[-1].outputs[0].text == f"7 {tmp_path}\n"
    assert NotebookNotary().check_signature(stored)
    assert all(cell.metadata.jupyter.source_hidden for cell in stored.cells)
    assert stored.metadata.papermill.input_path == "notebooks/probe.ipynb"
    assert not (outputs / "failed").exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.notebook
def test_the_folder_for_temporary_files_may_be_too_deep_for_a_socket(tmp_path, monkeypatch, capfd):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    path = write_notebook(tmp_path, "print(number)")
    executed = run_notebook(path, {}, tmp_path / "out.ipynb", progress=False)
    assert executed.cells[-1].outputs[0].text == "1\n"
    assert list(folder.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("InputError", InputError),
        ("CriteriaNotMet", CriteriaNotMet),
        ("InfrastructureError", InfrastructureError),
    ],
)
def test_the_name_of_the_exception_decides_the_class(tmp_path, name, kind):
    error, kept = stop(tmp_path, "1", RAISE.format(name), "never = 1")
    assert type(error) is kind
    text = str(error)
    assert text.startswith("notebook probe: three faults:\n- <b>one</b>\n- two\n")
    assert "it stopped in cell [3]:\n" in text
    assert f'  >     raise errors.{name}("three' in text
    assert errors_of(kept) == [(3, name, "three faults:\n- <b>one</b>\n- two")]
    assert "    notebook probe: three faults:\n    - <b>one</b>\n" in kept.cells[0].source
    assert kept.cells[-1].execution_count is None


@pytest.mark.notebook
def test_any_other_exception_and_sys_exit_are_failures_too(tmp_path):
    error, kept = stop(tmp_path, "1 / 0")
    assert type(error) is InfrastructureError
    assert "ZeroDivisionError: division by zero" in str(error)
    error, kept = stop(tmp_path, "import sys", "sys.exit(0)", "never = 1")
    assert type(error) is InfrastructureError
    assert "SystemExit: the cell called sys.exit" in str(error)
    assert errors_of(kept)[0][0] == 3


@pytest.mark.notebook
def test_secrets_of_the_environment_stay_out_of_notebooks_and_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "marker-qz4711")
    monkeypatch.setenv("QDRANT_URL", "https://user:word-qz4711@qdrant.invalid")
    monkeypatch.setenv("SHORT_KEY", "1")
    leak = "import os\nprint(os.environ['QDRANT_URL'], 1)\nraise ValueError(os.environ['QDRANT_API_KEY'])"
    error, kept = stop(tmp_path, leak)
    assert "qz4711" not in str(error) + nbformat.writes(kept)
    assert "ValueError: <QDRANT_API_KEY>" in str(error)
    assert kept.cells[-1].outputs[0].text == "https://<QDRANT_URL>@qdrant.invalid 1\n"
    executed = run_notebook(
        write_notebook(tmp_path, leak.partition("raise")[0]), {}, tmp_path / "out.ipynb", progress=False
    )
    assert nbformat.read(tmp_path / "out.ipynb", as_version=4) == executed
    assert "qz4711" not in nbformat.writes(executed)


@pytest.mark.notebook
def test_a_dead_kernel_is_told_with_its_last_words_and_seen_in_the_kept_notebook(tmp_path):
    error, kept = stop(tmp_path, "x = 1", "import os\nos.write(2, b'out of luck')\nos._exit(1)", "never = 1")
    assert type(error) is InfrastructureError
    assert "it stopped in cell [3]:" in str(error)
    assert "Kernel died" in str(error)
    assert [(index, ename) for index, ename, _ in errors_of(kept)] == [(3, "DeadKernelError")]
    assert "DeadKernelError: Kernel died" in kept.cells[0].source


@pytest.mark.notebook
def test_a_notebook_over_its_time_ends_and_the_kept_one_shows_where(tmp_path, capfd):
    error, kept = stop(tmp_path, "print('started')", "import time\ntime.sleep(600)", timeout=5)
    assert type(error) is InfrastructureError
    assert "took longer than 5 s" in str(error)
    assert {index for index, _, _ in errors_of(kept)} == {3}
    assert errors_of(kept)[-1][1] == "TimeoutError"
    assert capfd.readouterr() == ("", "")


@pytest.mark.notebook
def test_ctrl_c_keeps_the_notebook_ends_the_kernel_and_leaves_nothing_else(tmp_path, outputs):
    started = tmp_path / "started"
    cell = f"import os, pathlib, time\npathlib.Path({str(started)!r}).write_text(str(os.getpid()))\ntime.sleep(600)"
    path = write_notebook(tmp_path, cell)
    out = tmp_path / "out.ipynb"
    code = textwrap.dedent(f"""\
        from pathlib import Path
        from evalkit.notebooks import run_notebook
        try:
            run_notebook(Path({str(path)!r}), {{}}, Path({str(out)!r}), progress=False)
        except KeyboardInterrupt as error:
            print(error)
            raise SystemExit(130)
        """)
    # The kernel's sockets lie there, and a socket's path may have no more than some 100 characters.
    scratch = Path(tempfile.mkdtemp())
    environment = {**os.environ, "TMPDIR": str(scratch)}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(
            lambda: process.poll() is not None or (started.exists() and started.read_text(encoding="utf-8"))
        )
        process.send_signal(signal.SIGINT)
        told, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert said == ""
    assert told.startswith("notebook probe: interrupted\nit stopped in cell [2]:\n")
    assert str(outputs / "failed" / "probe.failed.ipynb") in told
    assert not out.exists()
    scratch.rmdir()  # fails unless it is empty
    kept = nbformat.read(outputs / "failed" / "probe.failed.ipynb", as_version=4)
    assert [(index, ename) for index, ename, _ in errors_of(kept)] == [(2, "KeyboardInterrupt")]
    kernel = int(started.read_text(encoding="utf-8"))
    wait_until(lambda: not Path(f"/proc/{kernel}").exists())


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "waited two minutes"
        time.sleep(0.05)
