"""A data set whose every text is an attack: reports show it as text, and nothing runs."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from evalkit.chunking import chunk_documents
from evalkit.dataset import load_dataset
from evalkit.embedding import ModelIdentity, document_prompt, query_prompt
from evalkit.recorded import write_recorded
from evalkit.reporting import report
from tests.browser.conftest import Visit
from tests.conftest import environment, homes, made_once
from tests.datasets import case, fact, write_dataset

ATTACK = (
    '<script>alert("{0}")</script><img src=x onerror=alert("{0}")></td></details><b {0} $x$ &amp; `y` **z**'
)
PROFILE = "embeddinggemma"


def attack(where: str) -> str:
    return ATTACK.format(where)


def recorded_for(folder: Path, target: Path) -> None:
    """Record a made vector for each prompt of a data set."""
    dataset = load_dataset(folder)
    prompts = [
        document_prompt(PROFILE, chunk) for chunk in chunk_documents(dataset.documents, dataset.chunking)
    ]
    prompts += [query_prompt(PROFILE, one.id, one.question) for one in dataset.questions]
    rows = [np.frombuffer(hashlib.sha512(prompt.text.encode()).digest(), np.int8) for prompt in prompts]
    vectors = np.stack([row / np.linalg.norm(row.astype(np.float64)) for row in rows]).astype(np.float32)
    identity = ModelIdentity("ollama", "hostile", "sha256:" + "0" * 64, PROFILE, vectors.shape[1], None, {})
    write_recorded(target, identity, prompts, vectors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Pages of a report on the hostile data set."""
    data, vectors = (tmp_path_factory.mktemp(name) for name in ("hostile", "vectors"))
    bodies = {name: f"## Part\n\n{attack(name)} quote of {name} {attack('end')}" for name in ("one", "two")}
    cases = [
        case(
            attack("id"),
            attack("question"),
            evidence=[fact("one", f"{attack('one')} quote of one", fact=attack("fact"))],
        ),
        case("plain", "Anything?", evidence=[fact("two", "quote of two")]) | {"category": attack("category")},
    ]
    unsupported = [{"id": attack("unsupported"), "question": attack("never")}]
    write_dataset(data, bodies, cases, unsupported, name=attack("name"), description=attack("about"))
    recorded_for(data, vectors / "recorded")

    def build(outputs: Path) -> None:
        values = {
            "dataset": str(data),
            "embeddings": str(vectors / "recorded"),
            "model": "hostile",
            "ks": [1, 2],
        }
        with environment(EVALKIT_OUTPUTS=str(outputs), **homes(tmp_path_factory)):
            report(values, progress=False)

    outputs = made_once(tmp_path_factory, "hostile-report", build)
    (found,) = outputs.glob("runs/*/report")
    return found


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("report", ["name"]),
        ("index", ["name"]),
        (
            "evaluate",
            ["name", "id", "question", "fact", "one", "two", "end", "unsupported", "never", "category"],
        ),
        ("analyze-by-category", ["id", "question", "fact", "one", "category"]),
        ("threshold-exploration", ["name"]),
        ("overview", ["name"]),
    ],
)
def test_text_of_a_data_set_is_shown_and_never_run(browser, folder, name, texts):
    path = folder.parents[2] / "index.html" if name == "overview" else folder / f"{name}.html"
    with Visit(browser, path, bypass_csp=True) as visit:
        visit.page.wait_for_load_state("networkidle")
        assert visit.complaints == []
        assert visit.requests == [visit.url, *(one for one in visit.requests if one.startswith("data:"))]
        assert visit.page.locator("script").count() == 1
        assert visit.page.locator("[onerror], img:not([alt]), main b").count() == 0
        visit.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
        shown = " ".join(visit.page.locator("body").inner_text().split())
        for text in texts:
            assert attack(text) in shown
