"""What holds for the project as a whole: arrows between modules, licences, the lock file."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def listed_rows():
    """Names of each row of the module table, from the top."""
    table = ARCHITECTURE.split("| --- | --- |\n")[1].split("\n\n")[0]
    return [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()]


ROW_OF = {name: place for place, row in enumerate(listed_rows()) for name in row}


def module_of(path):
    return path.relative_to(ROOT / "evalkit").parts[0].removesuffix(".py")


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "evalkit":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]


def test_every_module_is_in_the_list_and_every_listed_one_exists():
    there = {module_of(path) for path in (ROOT / "evalkit").rglob("*.py")} - {"__init__"}
    assert there == set(ROW_OF)


@pytest.mark.parametrize("path", sorted((ROOT / "evalkit").rglob("*.py")), ids=module_of)
def test_imports_point_down_the_list(path):
    name = module_of(path)
    if name == "__init__":
        return
    upward = [other for other in imported_modules(path) if ROW_OF[other] < ROW_OF[name]]
    assert not upward, f"{name} imports {upward}, which stand above it in docs/architecture.md"


def test_metrics_import_numpy_alone():
    tree = ast.parse((ROOT / "evalkit" / "metrics.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {(node.module if isinstance(node, ast.ImportFrom) else node.names[0].name) for node in imports}
    third_party = {name.split(".")[0] for name in names} - {
        "collections",
        "dataclasses",
        "typing",
        "functools",
    }
    assert third_party == {"numpy"}


def test_every_dependency_has_its_licence_listed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = (ROOT / "docs" / "licences.md").read_text().lower().replace("_", "-")
    for dependency in project["dependencies"]:
        name = re.split(r"[<>=]", dependency)[0].lower()
        assert re.search(rf"^\| {re.escape(name)} ", listed, re.MULTILINE), f"{name}: run `make licences`"


def test_the_lock_is_hashed_and_names_no_address():
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    pins = re.findall(r"^\S+==", lock, re.MULTILINE)
    assert len(re.findall(r"--hash=sha256:", lock)) >= len(pins) > 100


def test_every_imported_package_is_declared():
    names = {"bs4": "beautifulsoup4", "grpc": "grpcio", "yaml": "pyyaml", "qdrant-edge": "qdrant-edge-py"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=]", dependency)[0].lower() for dependency in project["dependencies"]}
    imported = set()
    for path in (ROOT / "evalkit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    imported -= {*sys.stdlib_module_names, "evalkit"}
    packages = {
        names.get(name.lower().replace("_", "-"), name.lower().replace("_", "-")) for name in imported
    }
    assert packages <= declared
    assert declared - packages <= {"ipykernel", "tqdm"}  # started as a kernel; shown by papermill
