from pathlib import Path

import pytest

from evalkit import paths
from evalkit.errors import InputError


def test_root_does_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    here = paths.root()
    monkeypatch.chdir(here / "notebooks")
    assert paths.root() == here
    monkeypatch.chdir(tmp_path)
    assert paths.root() == here
    assert (here / "evalkit" / "paths.py").is_file()


def test_outputs_follow_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path))
    assert paths.outputs() == tmp_path
    monkeypatch.delenv("EVALKIT_OUTPUTS")
    assert paths.outputs() == paths.root() / "outputs"


def test_dataset_by_name_and_by_folder(tmp_path):
    assert paths.dataset_folder("worker-runbooks").name == "worker-runbooks"
    (tmp_path / "dataset.yaml").touch()
    assert paths.dataset_folder(str(tmp_path)) == Path(tmp_path)
    with pytest.raises(InputError, match="platform-runbooks, worker-runbooks"):
        paths.dataset_folder("no-such")


def test_a_name_too_long_for_any_folder_is_invalid_input():
    with pytest.raises(InputError, match="no name of a folder"):
        paths.dataset_folder("x" * 5000)


@pytest.mark.parametrize("name", ["x" * 300, "/".join(["x" * 100] * 50), "x" * 60 + "/" + "y/" * 1900])
def test_outputs_too_long_for_any_folder_are_invalid_input(monkeypatch, name):
    monkeypatch.setenv("EVALKIT_OUTPUTS", name)
    with pytest.raises(
        InputError, match=r"EVALKIT_OUTPUTS: no name of a folder.*'x{60}.*set it to a shorter one"
    ):
        paths.outputs()
