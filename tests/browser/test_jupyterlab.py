"""JupyterLab in Chromium: slider and labelling work by mouse and keyboard, executed notebooks open as reports."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import yaml
from playwright.sync_api import Browser, Page

from tests.conftest import homes

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
START, RUN = 120, 180
IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"


@pytest.fixture(scope="module")
def folder(example_report, tmp_path_factory) -> Path:
    """What the server shows: fresh notebooks, an executed one, and the same without our signature."""
    root = tmp_path_factory.mktemp("lab")
    for name in ("threshold-exploration", "write-labels"):
        shutil.copy(NOTEBOOKS / f"{name}.ipynb", root)
    (executed,) = example_report.glob("runs/*/report/evaluate.ipynb")
    shutil.copy(executed, root)
    changed = nbformat.read(executed, as_version=4)
    changed.cells[0].source += "\n\nChanged."
    nbformat.write(changed, root / "unsigned.ipynb")
    return root


@pytest.fixture(scope="module")
def lab(folder, example_report, browser: Browser, tmp_path_factory) -> Iterator["Lab"]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": folder,
        "IdentityProvider.token": token,
        "LabApp.expose_app_in_browser": True,
        "LabApp.extension_manager": "readonly",
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.news_url": "",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--{name}={value}" for name, value in options.items()]
    environment = {**os.environ, **homes(tmp_path_factory), "EVALKIT_OUTPUTS": str(example_report)}
    log = folder / "lab.log"
    with log.open("w", encoding="utf-8") as stream:
        server = subprocess.Popen(command, env=environment, stdout=stream, stderr=subprocess.STDOUT)
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    try:
        opened = Lab(context.new_page(), f"http://127.0.0.1:{port}", token)
        opened.wait(server, log)
        yield opened
    finally:
        context.close()
        server.terminate()
        server.wait(timeout=60)


class Lab:
    """The browser's view of the server."""

    def __init__(self, page: Page, url: str, token: str) -> None:
        self.page, self.url, self.token = page, url, token
        self.page.set_default_timeout(START * 1000)

    def wait(self, server: subprocess.Popen, log: Path) -> None:
        end = time.monotonic() + START
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/api/status?token={self.token}", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                assert server.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < end, log.read_text(encoding="utf-8")
                time.sleep(0.2)

    def open(self, name: str) -> Page:
        self.page.goto(f"{self.url}/lab/tree/{name}?token={self.token}&reset")
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.page.wait_for_function(IDLE)
        return self.page

    def run(self, name: str) -> Page:
        page = self.open(name)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        return page


def mark_a_sentence(lab: Lab) -> None:
    """A sentence that is marked becomes YAML."""
    page = lab.run("write-labels.ipynb")
    choices = page.locator(".widget-dropdown select")
    choices.nth(1).wait_for(state="attached", timeout=RUN * 1000)
    page.wait_for_function(IDLE)
    choices.nth(1).select_option(label="fact 1")
    sentence = page.locator(".widget-hbox .widget-html span").first.inner_text()
    statement = page.locator(".widget-text input").first
    statement.fill("What it says.")
    statement.press("Tab")
    page.wait_for_function(
        "document.querySelector('.widget-textarea textarea').value.includes('What it says.')"
    )
    (case,) = yaml.safe_load(page.locator(".widget-textarea textarea").input_value())
    assert case["evidence"][0]["quotes"][0]["quote"] == sentence


def test_widgets_answer_and_executed_notebooks_open_as_reports(lab):
    mark_a_sentence(lab)

    page = lab.run("threshold-exploration.ipynb")
    shown = page.locator(".jp-OutputArea .widget-html table").first
    shown.wait_for(state="attached", timeout=RUN * 1000)
    page.wait_for_function(IDLE)
    assert page.locator(".jp-OutputArea [data-mime-type*='stderr']").count() == 0
    shown.scroll_into_view_if_needed()
    before = shown.inner_text()
    assert "answerable questions rejected" in before
    handle = page.locator(".widget-slider .noUi-handle").first
    handle.focus()
    for key in ("End", "Home"):
        page.keyboard.press(key)
        page.wait_for_function(
            "before => document.querySelector('.jp-OutputArea .widget-html table').innerText !== before",
            arg=before,
        )
        after = shown.inner_text()
        assert after.splitlines()[1:] != before.splitlines()[1:]
        before = after

    page = lab.open("evaluate.ipynb")
    page.locator(".jp-OutputArea .ek-banner").first.wait_for()
    assert page.locator(".jp-OutputArea style").count() > 3
    assert page.locator(".jp-InputPlaceholder").count() > 8
    assert page.locator(".jp-InputArea-editor:visible").count() == 0

    page = lab.open("unsigned.ipynb")
    page.locator(".jp-OutputArea .ek-banner").first.wait_for()
    assert page.locator(".jp-OutputArea style").count() == 0
