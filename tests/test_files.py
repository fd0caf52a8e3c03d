import os
import time

import pytest

from evalkit.errors import InfrastructureError
from evalkit.files import STALE, TEMPORARY, whole_folder, write_whole


def test_folder_appears_whole_and_replaces(tmp_path):
    final = tmp_path / "deep" / "run"
    with whole_folder(final) as folder:
        (folder / "a").write_text("1")
        assert not final.exists()
    with whole_folder(final) as folder:
        (folder / "b").write_text("2")
    assert [path.name for path in final.iterdir()] == ["b"]
    assert [path.name for path in final.parent.iterdir()] == ["run"]


def test_error_leaves_nothing(tmp_path):
    final = tmp_path / "run"
    with pytest.raises(ZeroDivisionError), whole_folder(final) as folder:
        (folder / "a").write_text("1")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_error_keeps_what_was_there(tmp_path):
    final = tmp_path / "run"
    final.mkdir()
    (final / "old").touch()
    with pytest.raises(ZeroDivisionError), whole_folder(final):
        raise ZeroDivisionError
    assert [path.name for path in final.iterdir()] == ["old"]


def test_file_is_whole_or_absent(tmp_path):
    write_whole(tmp_path / "latest", "one\n")
    write_whole(tmp_path / "latest", b"two\n")
    assert (tmp_path / "latest").read_text() == "two\n"
    assert [path.name for path in tmp_path.iterdir()] == ["latest"]


def test_a_refusing_disk_is_named(tmp_path):
    blocker = tmp_path / "file"
    blocker.touch()
    with pytest.raises(InfrastructureError, match="EVALKIT_OUTPUTS"):
        write_whole(blocker / "run.json", "x")
    with pytest.raises(InfrastructureError, match="cannot write"), whole_folder(blocker / "run"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_killed_processes_left_is_removed_when_it_is_old(tmp_path):
    for age in ("old", "young"):
        (tmp_path / f"{TEMPORARY}{age}").mkdir()
        (tmp_path / f"{TEMPORARY}{age}" / "part").touch()
        (tmp_path / f"{TEMPORARY}{age}-file").touch()
    (tmp_path / ".tmp-of-another-program").mkdir()
    before = time.time() - 2 * STALE
    for left in ("old", "old-file"):
        os.utime(tmp_path / f"{TEMPORARY}{left}", (before, before))
    os.utime(tmp_path / ".tmp-of-another-program", (before, before))
    write_whole(tmp_path / "latest", "one\n")
    with whole_folder(tmp_path / "run"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{TEMPORARY}young",
        f"{TEMPORARY}young-file",
        ".tmp-of-another-program",
        "latest",
        "run",
    ]
