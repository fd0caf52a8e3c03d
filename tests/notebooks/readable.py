"""What holds for every executed notebook."""

import re

import nbformat

from evalkit import paths


def assert_readable(notebook: nbformat.NotebookNode) -> None:
    shown = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        assert cell.execution_count is not None
        for output in cell.outputs:
            assert output.output_type != "error", output
            assert output.get("name") != "stderr", output.text
            data = output.get("data", {})
            shown += bool({"text/html", "image/png"} & set(data))
            if "image/png" in data:
                assert len(output.metadata["image/png"]["alt"]) > 60
            html = data.get("text/html", "")
            assert not re.search(r"<script|<link|<iframe|\bsrc=|\bon\w+=|url\(", html)
            assert str(paths.root()) not in str(dict(data))
    assert shown >= 2
