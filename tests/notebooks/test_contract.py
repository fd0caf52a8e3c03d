"""The contract of every notebook in ``notebooks/``, checked on what is committed."""

import ast
from pathlib import Path

import nbformat
import papermill
import pytest

from evalkit.parameters import declared_parameters

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
TOOLS = {"write-labels"}  # works with the user instead of reporting, so it has no verdict
LINES = 15


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def notebook(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def markdown(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_notebooks_of_the_report_are_there():
    assert {path.stem for path in NOTEBOOKS} >= {
        "index",
        "evaluate",
        "analyze-by-category",
        "threshold-exploration",
        "compare-runs",
    }


def test_no_output_is_committed_and_the_kernel_is_python3(notebook):
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in code(notebook):
        assert cell.outputs == []
        assert cell.execution_count is None


def test_one_cell_declares_the_parameters_one_a_line_with_help(path, notebook):
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    assert code(notebook)[0] is tagged[0]
    declared = declared_parameters(notebook, path.stem)
    assert len(declared) == len(tagged[0].source.splitlines())
    for parameter in declared.values():
        assert parameter.help, parameter
        assert "=" not in parameter.help, parameter


def test_papermill_reads_the_same_parameters(path, notebook):
    declared = declared_parameters(notebook, path.stem)
    inspected = papermill.inspect_notebook(path)
    assert {name: one["inferred_type_name"] for name, one in inspected.items()} == {
        name: parameter.type for name, parameter in declared.items()
    }
    for name, one in inspected.items():
        assert ast.literal_eval(one["default"]) == declared[name].default
        assert one["help"] == declared[name].help


def test_defaults_run_offline(path, notebook):
    declared = declared_parameters(notebook, path.stem)
    assert "embedder" not in declared or declared["embedder"].default == "recorded"


def test_cells_are_short_and_define_nothing(notebook):
    for cell in code(notebook):
        if "parameters" not in cell.metadata.get("tags", []):
            assert len(cell.source.splitlines()) <= LINES, cell.source
        for node in ast.walk(ast.parse(cell.source)):
            assert not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)


def test_it_opens_with_its_title_and_the_verdict_comes_first(path, notebook):
    lines = [line for source in markdown(notebook) for line in source.splitlines()]
    assert lines[0].startswith("# ")
    assert sum(line.startswith("# ") for line in lines) == 1
    assert notebook.cells[0].cell_type == "markdown"
    sections = [line for line in lines if line.startswith("## ")]
    assert len(sections) == len(set(sections))
    if path.stem not in TOOLS:
        assert sections[0] == "## Verdict"
        assert sections[1].startswith("## What was ")


def test_reading_help_stands_before_each_table_and_plot(notebook):
    previous = None
    for cell in notebook.cells[3:]:
        if cell.cell_type == "code":
            assert previous.cell_type == "markdown" or "notice" in previous.source, cell.source
            if previous.cell_type == "markdown":
                head, *text = previous.source.strip().splitlines()
                needs_none = head.startswith(("## Verdict", "## What was ", "## Label a question"))
                assert not head.startswith("#") or text or needs_none, cell.source
        previous = cell


def test_no_formula_or_raw_html_that_a_page_cannot_show(notebook):
    for source in markdown(notebook):
        assert "$" not in source
        assert "<" not in source.replace("<=", "")
        assert "](http" not in source
