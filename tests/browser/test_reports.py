"""Reports opened offline in Chromium: nothing leaves the page, everyone can read it, links lead to the evidence."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from evalkit.reporting import NOTEBOOKS
from tests.browser.conftest import Visit

PAGES = ("report", *NOTEBOOKS, "evaluate.code", "overview")
PHONE = {"width": 375, "height": 700}


@pytest.fixture(scope="module")
def folder(example_report) -> Path:
    (found,) = example_report.glob("runs/*/report")
    return found


def place(folder: Path, name: str) -> Path:
    return folder.parents[2] / "index.html" if name == "overview" else folder / f"{name}.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_offline_and_readable_for_everyone(browser, folder, name, scheme):
    with Visit(browser, place(folder, name), color_scheme=scheme, viewport=PHONE) as visit:
        assert visit.requests == [visit.url, *(one for one in visit.requests if one.startswith("data:"))]
        assert visit.complaints == []
        images = visit.page.eval_on_selector_all("img", "all => all.map(one => [one.alt, one.naturalWidth])")
        assert all(len(alt) > 20 and width > 0 for alt, width in images)
        assert len(images) >= (name != "overview")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        grounds = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (grounds == "rgb(255, 255, 255)") is (scheme == "light")
        found = Axe().run(visit.page).response["violations"]
        severe = [
            (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
        ]
        assert severe == []


@pytest.mark.parametrize("name", ["evaluate", "analyze-by-category"])
def test_each_case_in_a_table_leads_to_its_evidence(browser, folder, name):
    with Visit(browser, place(folder, name)) as visit:
        visit.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = false; })")
        links = visit.page.locator('td a[href^="#case-"], th a[href^="#case-"]')
        assert links.count() >= 7
        for link in links.all()[:9]:
            target = visit.page.locator(f"[id='{link.get_attribute('href')[1:]}']")
            link.click()
            question = target.get_by_text("Question:")
            question.wait_for(state="visible")
            expect(target).to_have_attribute("open", "")  # the style shows it before the script opens it
            assert question.evaluate("one => one.getBoundingClientRect().top < innerHeight")
        link.click()
        target.evaluate("one => { one.open = false; }")
        link.click()
        question.wait_for(state="visible")


def test_a_link_from_elsewhere_opens_the_evidence(browser, folder):
    with Visit(browser, place(folder, "evaluate"), anchor="#case-drain-deadline", viewport=PHONE) as visit:
        target = visit.page.locator("#case-drain-deadline")
        target.get_by_text("Question:").wait_for(state="visible")
        assert target.get_attribute("open") is not None
        assert target.evaluate("one => Math.abs(one.getBoundingClientRect().top) < 60")


def test_a_strange_anchor_harms_nothing(browser, folder):
    with Visit(browser, place(folder, "evaluate"), anchor="#%E0%A4%A") as visit:
        assert visit.complaints == []


def test_the_front_page_leads_to_every_other_page(browser, folder):
    with Visit(browser, place(folder, "report")) as visit:
        for link in [one.get_attribute("href") for one in visit.page.locator("a[href]").all()]:
            if not link.startswith("#"):
                assert (folder / link.partition("#")[0]).is_file(), link


def test_headings_can_be_linked(browser, folder):
    with Visit(browser, place(folder, "evaluate")) as visit:
        for link in visit.page.locator(".contents a").all():
            link.click()
            assert visit.page.locator("h2:target").get_by_text(link.inner_text()).count() == 1


def test_print_shows_closed_evidence_on_white_paper(browser, folder):
    with Visit(browser, place(folder, "evaluate"), color_scheme="dark") as visit:
        visit.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = false; })")
        visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert visit.page.locator("details:not([open])").count() == 0
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert visit.page.evaluate("getComputedStyle(document.body).color") == "rgb(34, 38, 43)"
        visit.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert visit.page.locator("details[open]").count() == 0
