"""Which code ran, as git tells it."""

import subprocess

import pytest

from evalkit.provenance import code_record


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A checkout of its own, with a package and data, all committed."""
    (tmp_path / "evalkit").mkdir()
    (tmp_path / "evalkit" / "__init__.py").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "known.md").write_text("Text.")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    named = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), (*named, "commit", "-q", "-m", "first")):
        subprocess.run(("git", *arguments), cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_clean_checkout_has_a_revision(project):
    code = code_record()
    assert (len(code.revision), code.dirty) == (40, False)


@pytest.mark.parametrize(
    ("changed", "dirty"),
    [
        ("data/new.md", False),
        ("gate.yaml", False),
        ("evalkit/module.pyc", False),
        ("data/known.md", True),
        ("evalkit/__init__.py", True),
        ("evalkit/module.py", True),
        ("evalkit/views/module.py", True),
    ],
)
def test_dirty_is_a_changed_file_or_a_new_one_in_the_package(project, changed, dirty):
    path = project / changed
    path.parent.mkdir(exist_ok=True)
    path.write_text("changed")
    assert code_record().dirty is dirty


def test_without_a_checkout_nothing_is_claimed(tmp_path, monkeypatch):
    for name in ("evalkit", "data"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    assert (code_record().revision, code_record().dirty) == (None, None)
