"""The report shares parameters out before anything runs, knows its run, and is there whole or not at all."""

import nbformat
import pytest

from evalkit import pages, reporting
from evalkit.errors import InfrastructureError, InputError
from evalkit.pages import NotebookPage
from evalkit.reporting import RUN_MIME, report, run_id_of, share_out, write_overview, write_pages
from tests.smallruns import small_run


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize(
    ("parameters", "texts", "said"),
    [
        ({}, {"ks": "3"}, "- ks: found 3 (int), wanted list[int], such as [1, 3, 5]"),
        ({}, {"exact": "true"}, "- exact: found 'true' (str), wanted bool, such as True or False"),
        ({}, {"treshold": "0.5"}, "- treshold: unknown; did you mean threshold?"),
        ({"dataset": 7}, {}, "- dataset: found 7 (int), wanted str"),
        ({"run": "latest"}, {}, "- run: unknown"),
    ],
)
def test_bad_parameters_are_refused_before_anything_runs(outputs, parameters, texts, said):
    with pytest.raises(InputError) as caught:
        report(parameters, texts=texts)
    assert said in str(caught.value)
    assert "known parameters: dataset: str = 'worker-runbooks'" in str(caught.value)
    assert not outputs.exists()


def test_each_notebook_gets_what_it_declares_in_the_order_of_the_report():
    chosen = share_out({"dataset": "platform-runbooks"}, {"ks": "[1, 2]", "recreate": "True", "cases": "7"})
    assert list(chosen) == list(reporting.NOTEBOOKS)
    assert chosen["index"] == {"dataset": "platform-runbooks", "recreate": True}
    assert chosen["evaluate"] == {"dataset": "platform-runbooks", "ks": [1, 2]}
    assert chosen["analyze-by-category"] == {"cases": 7}


def test_the_run_is_read_from_the_output_of_the_notebook():
    outputs = [
        nbformat.v4.new_output("display_data", data={RUN_MIME: {"run_id": "r1"}, "text/plain": "run r1"}),
        nbformat.v4.new_output("stream", name="stdout", text="r2"),
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=outputs)])
    assert run_id_of(notebook) == "r1"
    with pytest.raises(InputError, match="the run that it wrote is unknown"):
        run_id_of(nbformat.v4.new_notebook())


def executed(folder, name):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(f"# {name}")])
    nbformat.write(notebook, folder / f"{name}.ipynb")
    return NotebookPage(name, notebook)


def test_a_report_holds_each_notebook_its_page_and_the_front_page(tmp_path):
    run = small_run({"a": [1]})
    done = [executed(tmp_path, name) for name in ("index", "evaluate")]
    write_pages(run, done, tmp_path, code=True)
    names = {path.name for path in (run.folder / "report").iterdir()}
    assert names == {
        f"{name}{ending}" for name in ("index", "evaluate") for ending in (".ipynb", ".html", ".code.html")
    } | {"report.html"}
    assert (run.folder / "report" / "index.ipynb").read_bytes() == (tmp_path / "index.ipynb").read_bytes()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_report_that_cannot_be_finished_is_not_there(tmp_path, monkeypatch, error):
    run = small_run({"a": [1]})
    before = sorted(path.name for path in run.folder.iterdir())

    def fail(*_args, **_settings):
        raise error

    monkeypatch.setattr(pages, "front_page", fail)
    with pytest.raises((KeyboardInterrupt, InfrastructureError)):
        write_pages(run, [executed(tmp_path, "evaluate")], tmp_path)
    assert sorted(path.name for path in run.folder.iterdir()) == before


@pytest.mark.thorough
def test_a_run_that_ends_while_the_overview_is_written_is_in_it(outputs, monkeypatch):
    first = small_run({"a": [1]})
    late = []
    write = reporting.write_whole

    def write_with_company(final, text):
        write(final, text)
        if not late:
            late.append(small_run({"b": [1]}))

    monkeypatch.setattr(reporting, "write_whole", write_with_company)
    text = write_overview().read_text(encoding="utf-8")
    assert first.run_id in text
    assert late[0].run_id in text
