"""Tables, figures and the page that a reproduction leaves; the page is opened in a browser where there is one."""

import csv
import gzip
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

from riesz.experiments._publish import publish
from riesz.experiments._tables import ITERATES, RUNS, SUMMARY
from riesz.experiments.claims import CLAIMS
from runs import falling, stored

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A small reproduction with made-up runs of three problems, one of which fails."""
    runs = []
    for problem in ("mackey-glass", "extended-xor", "advection-diffusion"):
        for number, method in enumerate(("NGD", "NHB", "NN-II-FD", "Adam")):
            for seed in range(3):
                result = "NONFINITE_STEPS" if (method, seed) == ("NN-II-FD", 1) else "TARGET_REACHED"
                loss = falling((40, 20, 30, 90)[number] + seed)
                runs.append(stored(problem, method, seed, result=result, loss=loss, each=0.01))
    folder = tmp_path_factory.mktemp("published")
    return folder, publish(folder, runs, None)


def rows(path):
    opened = gzip.open(path, "rt", newline="") if path.suffix == ".gz" else open(path, newline="")
    with opened as file:
        return list(csv.DictReader(file))


def test_the_tables_have_the_documented_columns(published):
    folder, _ = published
    text = (ROOT / "docs/results.md").read_text()
    for name, columns in {"iterates.csv.gz": ITERATES, "runs.csv": RUNS, "summary.csv": SUMMARY}.items():
        section = text.split(f"## `{name}`", 1)[1].split("\n## ", 1)[0]
        documented = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        assert documented == list(columns), name
        found = rows(folder / name)
        assert found and set(found[0]) == set(columns)


def test_the_tables_tell_the_runs(published):
    folder, _ = published
    iterates, runs = rows(folder / "iterates.csv.gz"), rows(folder / "runs.csv")
    assert len(runs) == 3 * 4 * 3
    assert len(iterates) == sum(int(run["iterations"]) + 1 for run in runs)
    first = [row for row in iterates if (row["problem"], row["method"], row["seed"]) == ("mackey-glass", "NHB", "0")]
    np.testing.assert_allclose([float(row["loss"]) for row in first], falling(20), rtol=1e-15)
    np.testing.assert_allclose([float(row["error"]) for row in first], 2 * falling(20), rtol=1e-15)
    assert first[-1]["alpha"] == "" and first[0]["alpha"] == "0.1", "the last iterate has no step"
    assert first[0]["solution_mse"] == ""
    assert json.loads(runs[0]["settings"])["max_steps"] == 500 and json.loads(runs[0]["versions"])
    summary = {(row["problem"], row["method"]): row for row in rows(folder / "summary.csv")}
    failing = summary["mackey-glass", "NN-II-FD"]
    assert (failing["starts"], failing["reached"], failing["diverged"]) == ("3", "2", "1")
    assert (failing["iterations"], failing["iterations_90"]) == ("32.0", "inf")


def test_figures_are_written_as_png_and_pdf(published):
    folder, found = published
    expected = {"overview", "mackey-glass", "extended-xor", "advection-diffusion", "mackey-glass-baselines"}
    assert expected | {"extended-xor-regions", "advection-diffusion-solution"} <= set(found.figures)
    assert "mackey-glass-nesterov" not in found.figures, "no method of the appendix was run"
    for name in found.figures:
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_page_is_self_contained(published):
    text = published[1].report.read_text()
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=\"(?!data:)", text)
    assert "{{" not in text.split("<script>", 1)[0]
    assert all(claim.name in text for claim in CLAIMS)
    assert not list(published[0].glob("**/.writing-*"))


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no Chromium with its chromedriver was found, so the page is not opened")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync",
                 "disable-background-networking", "disable-component-update", "window-size=1366,768"):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    yield browser
    browser.quit()


def visible(browser, plot):
    """The curves of a plot that are drawn: a median line each."""
    script = "return [...document.querySelectorAll(`#plot-${arguments[0]} .scatterlayer .trace`)].length / 3"
    return browser.execute_script(script, plot)


def test_the_page_works_in_a_browser(published, browser):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    _, found = published
    browser.get(found.report.as_uri())
    wait = WebDriverWait(browser, 30)
    wait.until(lambda driver: visible(driver, "mackey-glass") == 3)
    assert browser.get_log("browser") == []
    plots = browser.find_elements(By.CSS_SELECTOR, "section.plot")
    assert len(plots) == 7 and all(plot.find_elements(By.CSS_SELECTOR, "svg.main-svg") for plot in plots)
    assert len(browser.find_elements(By.CSS_SELECTOR, "table.claims tbody tr")) == len(CLAIMS)

    plot = browser.find_element(By.ID, "plot-mackey-glass")
    chip = plot.find_element(By.XPATH, ".//button[contains(., 'NHB')]")
    chip.click()
    wait.until(lambda driver: visible(driver, "mackey-glass") == 2)
    assert chip.get_attribute("aria-pressed") == "false"
    assert visible(browser, "extended-xor") == 3, "other plots keep theirs"

    plot.find_element(By.XPATH, ".//button[text()='seconds']").click()
    title = lambda driver: plot.find_element(By.CSS_SELECTOR, ".xtitle").text
    wait.until(lambda driver: title(driver) == "seconds")
    assert visible(browser, "mackey-glass") == 2, "what is hidden stays hidden"
    chip.click()
    wait.until(lambda driver: visible(driver, "mackey-glass") == 3)

    # It fits a laptop's screen: nothing is wider than the window.
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.get_log("browser") == []
