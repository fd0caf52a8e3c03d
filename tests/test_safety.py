"""What would let a file of the user's, or of somebody else's, do more than be read."""

import ast
import json
import shutil
from functools import cache
from pathlib import Path

import nbformat
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalkit import paths
from evalkit.criteria import read_criteria
from evalkit.dataset import load_dataset
from evalkit.errors import InputError
from evalkit.recorded import open_recorded
from evalkit.runs import list_runs, load_run
from evalkit.settings import EvaluateSettings, IndexSettings
from tests.datasets import case, write_dataset

ROOT = Path(__file__).parents[1]
UNPICKLE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "torch"}
REFUSED = {
    "read_pickle",
    "to_pickle",
    "unsafe_load",
    "full_load",
    "load_all",
    "eval",
    "exec",
    "__import__",
    "system",
}
SAFE_LOADERS = {"_Loader", "CBaseLoader", "CSafeLoader", "SafeLoader"}


@cache
def sources() -> dict[str, str]:
    """All code that is installed or run as a notebook."""
    found = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "evalkit").rglob("*.py")}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        found[path.name] = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    return found


def unsafe(source: str) -> list[str]:
    """Imports and calls that could run what a file says."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found += [f"import {name}" for name in modules if name.split(".")[0] in UNPICKLE]
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = ast.unparse(node.func).rpartition(".")[0]
        values = {one.arg: ast.unparse(one.value) for one in node.keywords}
        if called in REFUSED and not owner.endswith("literal"):
            found.append(ast.unparse(node.func))
        if owner == "np" and called == "load" and values.get("allow_pickle") != "False":
            found.append("np.load")
        if values.get("allow_pickle") == "True" or values.get("shell") == "True":
            found.append(ast.unparse(node.func))
        if owner == "yaml" and called in ("load", "compose"):
            loader = values.get("Loader") or ast.unparse(node.args[-1])
            if loader.rpartition(".")[2] not in SAFE_LOADERS:
                found.append(f"yaml.{called} with {loader}")
    return found


@pytest.mark.parametrize("name", sources())
def test_no_pickle_is_read_no_yaml_runs_code_and_nothing_is_evaluated(name):
    assert unsafe(sources()[name]) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "pd.read_pickle(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.savez(path, allow_pickle=True)",
        "yaml.load(text, Loader=yaml.Loader)",
        "yaml.load(text, yaml.FullLoader)",
        "yaml.unsafe_load(text)",
        "eval(text)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
    ],
)
def test_the_search_finds_what_it_looks_for(source):
    assert unsafe(source)


def test_a_safe_loader_stands_behind_our_own():
    import yaml

    from evalkit.datafiles import _Loader

    assert issubclass(_Loader, yaml.SafeLoader | getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert not issubclass(_Loader, yaml.FullLoader | yaml.Loader)


TAGS = ["!!python/object/apply:os.mkdir [HERE]", "!!python/name:os.mkdir", "!!python/module:os", "!our-own x"]


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("file", ["dataset.yaml", "cases.yaml", "documents/alpha.md", "criteria.yaml"])
def test_yaml_that_asks_for_objects_makes_none(tmp_path, file, tag):
    made = tmp_path / "made"
    tag = tag.replace("HERE", str(made))
    folder = write_dataset(tmp_path / "data", {"alpha": "Text."}, [case("one", relevant=[])])
    if file == "criteria.yaml":
        (folder / file).write_text(f"min: {tag}\n")
    else:
        text = (folder / file).read_text()
        first = "---\n" if file.endswith(".md") else ""
        (folder / file).write_text(f"{first}note: {tag}\n{text.removeprefix(first)}")
    with pytest.raises(InputError, match=Path(file).name):
        read_criteria(folder / file) if file == "criteria.yaml" else load_dataset(folder)
    assert not made.exists()


def test_a_parquet_file_with_pickled_types_stays_bytes(tmp_path):
    """Columns of recorded vectors have to be text and numbers; what else a file holds is refused unread."""
    for name in ("model.json", "canary.txt"):
        shutil.copy(paths.embeddings_folder() / name, tmp_path)
    table = pa.table({"prompt_sha256": pa.array([b"cos\nsystem\n(S'true'\ntR."]), "vector": pa.array([b"x"])})
    pq.write_table(table, tmp_path / "vectors.parquet")
    with pytest.raises(InputError, match=r"vectors\.parquet: columns"):
        open_recorded(tmp_path)


LEAVING = ["..", "../x", "a/b", "/tmp/x", ".hidden", "a\0b", "a\nb", "", "C:\\x", "a" * 201]


@pytest.mark.parametrize("name", LEAVING)
def test_names_of_collections_cannot_leave_their_folder(name):
    """What the embedded engine does with such names is in `test_embedded_store`."""
    for settings in (EvaluateSettings, IndexSettings):
        with pytest.raises(InputError, match="collection"):
            settings.checked(dataset="worker-runbooks", collection=name)


@pytest.mark.parametrize("name", [*LEAVING, "20260101T000000000Z-00000g", "20260101T000000000Z-000000/.."])
def test_names_of_runs_cannot_leave_their_folder(example_runs, name, tmp_path, monkeypatch):
    outputs = tmp_path / "outputs"
    run = load_run("latest")
    copied = outputs / "runs" / run.run_id
    shutil.copytree(run.folder, copied)
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(outputs))
    (outputs / "latest").write_text(name)
    with pytest.raises(InputError, match=r"latest names no run"):
        load_run("latest")
    record = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps(record | {"run_id": name}))
    with pytest.raises(InputError, match=r"run\.json: not a run record"):
        load_run(run.run_id)
    with pytest.raises(InputError):
        list_runs()
