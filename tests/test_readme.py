"""The README's worked example, done as it says, and its other claims that can be checked."""

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evalkit.cli import app
from evalkit.criteria import FIGURES, Criteria, read_criteria
from evalkit.runs import load_run
from tests.fakes.ollama import FakeOllama

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
EXAMPLE = README.split("## Own data in five minutes")[1].split("\n## Own Qdrant")[0]


def block_after(name):
    return re.search(rf"^`{re.escape(name)}`.*?\n```\w+\n(.*?)```", EXAMPLE, re.DOTALL | re.MULTILINE).group(
        1
    )


@pytest.fixture
def my_runbooks(tmp_path):
    folder = tmp_path / "my-runbooks"
    (folder / "documents").mkdir(parents=True)
    for name in ("documents/backups.md", "cases.yaml", "dataset.yaml"):
        (folder / name).write_text(block_after(name))
    return folder


@pytest.mark.server
def test_own_data_in_five_minutes(my_runbooks, monkeypatch):
    commands = re.findall(r"^    \.venv/bin/evalkit (.*?)(?:  +#.*)?$", EXAMPLE, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["labels", "labels", "index", "evaluate", "report"]
    with FakeOllama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        for command in commands[:-1]:
            arguments = [str(my_runbooks) if word == "my-runbooks" else word for word in command.split()]
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output
    run = load_run("latest")
    assert set(run.scores["case_id"]) == {"restore-order", "retention"}
    assert (my_runbooks / "labels.lock").is_file()


@pytest.mark.thorough
def test_the_output_shown_is_the_real_one(own_outputs):
    shown = re.search(r"```text\n(worker-runbooks.*?)\nrun ", README, re.DOTALL).group(1)
    assert CliRunner().invoke(app, ["evaluate"]).output.startswith(shown)


def test_every_file_that_the_readme_names_exists():
    for name in set(re.findall(r"`((?:docs|data|notebooks|benchmarks)/[\w./-]+\.\w+)`", README)):
        assert (ROOT / name).is_file(), name
    for name in re.findall(r"\]\(([\w/.-]+)\)", README):
        assert (ROOT / name).is_file(), name


def test_every_command_and_target_that_the_readme_names_exists():
    help_text = CliRunner().invoke(app, ["--help"]).output
    for command in set(re.findall(r"evalkit ([a-z]+)\b", README)) - {"tells", "is"}:
        assert command in help_text, command
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:`|^    )make ([a-z-]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_criteria_file_shown_holds_every_field(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text(re.search(r"All that a file can hold:\n\n```yaml\n(.*?)```", README, re.DOTALL)[1])
    criteria = read_criteria(path)
    assert criteria.model_fields_set == set(Criteria.model_fields)
    assert criteria.max_drop == {"ndcg@5": 0.02}
    for figure in FIGURES:
        assert figure.replace("reciprocal_rank", "mrr") in path.read_text()


@pytest.mark.thorough
def test_a_baseline_kept_by_ci_is_compared_with_and_scored_by_changed_labels(
    own_outputs, tmp_path, monkeypatch
):
    (tmp_path / "gate.yaml").write_text("max_drop: {ndcg@5: 0.02}\nmax_regressed_cases: 0\nmin_cases: 7\n")
    data = shutil.copytree(ROOT / "data" / "worker-runbooks", tmp_path / "worker-runbooks")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(load_run("latest").folder, tmp_path / "ci" / "baseline")

    def evalkit(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return result.exit_code, result.stderr

    gate = ("gate", "latest", "--criteria", "gate.yaml", "--baseline", "ci/baseline")
    again = ("evaluate", "--dataset", data, "--rankings")
    assert evalkit("evaluate", "--k", "1,3,5,10") == (0, "")
    assert evalkit(*gate)[0] == 0
    cases = data / "cases.yaml"
    unsupported = "\n  - {id: another, question: Who is on call?}\n"
    cases.write_text(cases.read_text().rstrip() + unsupported)
    assert evalkit(*again, "latest")[0] == 0
    code, said = evalkit(*gate)
    assert code == 2
    assert "cases: other questions" in said
    candidate = load_run("latest").run_id
    assert evalkit(*again, "ci/baseline")[0] == 0
    baseline = load_run("latest").run_id
    assert evalkit("gate", candidate, *gate[2:4], "--baseline", baseline)[0] == 0
