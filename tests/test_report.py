"""Tables, figures and the page that a reproduction leaves; the page is opened in a browser where there is one."""

import csv
import gzip
import json
import pathlib
import re
import shutil
import sys

import numpy as np
import pytest

from riesz.experiments import cli
from riesz.experiments._publish import publish
from riesz.experiments._store import Store
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


# ------------------------------------------------------------------------------------ folders that were tampered with


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with two methods and two starts of one problem."""
    folder = tmp_path_factory.mktemp("kept")
    store = Store(folder, {"steps": None})
    for method in ("NGD", "NHB"):
        for seed in range(2):
            store.save(stored("mackey-glass", method, seed, loss=falling(20 + seed)))
    return folder


RUN = "runs/mackey-glass/nhb/1.npz"


def settings(content):
    return lambda folder: (folder / "settings.json").write_bytes(content)


def content(change):
    """Change the bytes of a run."""
    return lambda folder: (folder / RUN).write_bytes(change((folder / RUN).read_bytes()))


def rewrite(path, change):
    """Write a run again after `change(arrays, about)`."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(str(arrays["about"]))
    change(arrays, about)
    if "about" in arrays and arrays["about"].dtype.kind == "U" and arrays["about"].ndim == 0:
        arrays["about"] = np.array(json.dumps(about))
    np.savez(path, **arrays)


def arrays(**changes):
    """Put other arrays into a run; None takes one away, a function is applied to what is there."""

    def change(found, about):
        for name, value in changes.items():
            found[name] = value(found[name]) if callable(value) else value
            if found[name] is None:
                del found[name]

    return lambda folder: rewrite(folder / RUN, change)


def about(**changes):
    return lambda folder: rewrite(folder / RUN, lambda found, about: about.update(changes))


def every(**changes):
    """Apply functions to the columns of all runs."""

    def change(found, about):
        found.update({name: function(found[name]) for name, function in changes.items()})

    return lambda folder: [rewrite(path, change) for path in folder.glob("runs/*/*/*.npz")]


def replaced_by_folder(name):
    def tamper(folder):
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return tamper


TEXT = np.array(["a"] * 22)
DAMAGES = {
    "run cut in two": content(lambda found: found[: len(found) // 2]),
    "run cut at its end": content(lambda found: found[:-40]),
    "run empty": content(lambda found: b""),
    "run of nonsense": content(lambda found: b"nonsense"),
    "run with a byte changed": content(lambda found: found[:700] + bytes([found[700] ^ 1]) + found[701:]),
    "run is a folder": replaced_by_folder(RUN),
    "run is one array": content(lambda found: b"\x93NUMPY\x01\x00" + found),
    "run is pickled": lambda folder: np.savez(folder / RUN, about=np.array([{}], dtype=object)),
    "run of another problem": lambda folder: shutil.copytree(
        folder / "runs/mackey-glass", folder / "runs/extended-xor"
    ),
    "no about": arrays(about=None),
    "about is a number": arrays(about=np.array(3)),
    "about is a list": arrays(about=np.array(["a", "b"])),
    "about is nested too deep": lambda folder: np.savez(
        folder / RUN, about=np.array("[" * 100_000), theta=np.zeros(61)
    ),
    "about has more": about(more=1),
    "result is unknown": about(result="NICE"),
    "result is a number": about(result=3),
    "result is null": about(result=None),
    "result is a list": about(result=[]),
    "timed is text": about(timed="yes"),
    "settings are a list": about(settings=[]),
    "settings without a target": about(settings={}),
    "target is a list": about(settings={"target": [1]}),
    "target is text": about(settings={"target": {"train_mse": "x"}}),
    "target is of an unknown column": about(settings={"target": {"nothing": 1.0}}),
    "versions are a list": about(versions=[1]),
    "versions are numbers": about(versions={"jax": 1}),
    "no theta": arrays(theta=None),
    "theta is short": arrays(theta=np.zeros(3)),
    "theta has two axes": arrays(theta=np.zeros((61, 1))),
    "theta is text": arrays(theta=np.array(["a"] * 61)),
    "no loss": arrays(loss=None),
    "loss is empty": arrays(loss=np.zeros(0)),
    "loss is a number": arrays(loss=np.array(1.0)),
    "loss has two axes": arrays(loss=np.ones((22, 2))),
    "loss is text": arrays(loss=TEXT),
    "loss is complex": arrays(loss=lambda loss: 1j * loss),
    "loss is short": arrays(loss=lambda loss: loss[:-3]),
    "loss is long": arrays(loss=np.ones(50)),
    "loss is boolean": arrays(loss=np.ones(22, bool)),
    "no seconds": arrays(seconds=None),
    "seconds are short": arrays(seconds=np.zeros(2)),
    "seconds are text": arrays(seconds=TEXT),
    "alpha is long": arrays(alpha=np.zeros(100)),
    "alpha has two axes": arrays(alpha=np.zeros((21, 2))),
    "accepted is text": arrays(accepted=TEXT[:21]),
    "no error": arrays(train_mse=None),
    "no second error": arrays(test_mse=None),
    "error is short": arrays(test_mse=np.zeros(21)),
    "a column of another length": arrays(more=np.zeros(3)),
    "settings.json is empty": settings(b""),
    "settings.json is a list": settings(b"[]"),
    "settings.json is nested too deep": settings(b"[" * 100_000),
    "settings.json is no text": settings(b"\xff\xfe"),
    "settings.json is a folder": replaced_by_folder("settings.json"),
    "settings.json is missing": lambda folder: (folder / "settings.json").unlink(),
    "steps are text": settings(b'{"steps": "many"}'),
    "steps are negative": settings(b'{"steps": -1}'),
    "steps are infinite": settings(b'{"steps": 1e999}'),
    "steps are true": settings(b'{"steps": true}'),
    "runs is a file": lambda folder: (shutil.rmtree(folder / "runs"), (folder / "runs").write_text("")),
    "no runs": lambda folder: shutil.rmtree(folder / "runs"),
    "claims.md is a folder": replaced_by_folder("claims.md"),
    "figures is a file": lambda folder: (folder / "figures").write_text(""),
}


def report(folder, monkeypatch):
    """`riesz report folder` in this process; its exit code."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(sys, "argv", ["riesz", "report", str(folder)])
    try:
        cli.main()
    except SystemExit as end:
        return end.code
    return 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_report_on_a_damaged_folder_is_a_sentence(damage, kept, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "tampered"
    shutil.copytree(kept, folder)
    DAMAGES[damage](folder)
    assert report(folder, monkeypatch) == 2
    sentence = capsys.readouterr().err
    assert sentence.startswith("riesz: ") and sentence.endswith(".\n") and sentence.count("\n") == 1
    assert str(folder) in sentence
    assert not (folder / "report.html").exists()


def extra_files(folder):
    """Files of the user, and names that no run has."""
    for name in ("x", "007", "-1", "٣", "9" * 200, "1.5"):
        (folder / f"runs/mackey-glass/nhb/{name}.npz").write_bytes(b"mine")
    (folder / "runs/mackey-glass/a-method").mkdir()
    (folder / "runs/notes.md").write_text("mine")


STRANGE = {
    "extra files": extra_files,
    "numbers that are not finite": every(
        loss=lambda loss: np.nan * loss,
        train_mse=lambda error: np.nan * error,
        test_mse=lambda error: np.inf * error,
        seconds=lambda seconds: np.nan * seconds,
        theta=lambda theta: np.nan * theta,
    ),
    "errors of zero": every(train_mse=lambda error: 0 * error, test_mse=lambda error: 0 * error),
    "no steps": every(
        **{name: lambda column: column[:1] for name in ("loss", "seconds", "train_mse", "test_mse")},
        **{name: lambda column: column[:0] for name in ("gradient_norm", "step_norm", "alpha", "rank", "accepted")},
    ),
    "a method alone": lambda folder: shutil.rmtree(folder / "runs/mackey-glass/ngd"),
    "text that looks like a page": about(versions={"<script>": "</script>"}),
}


@pytest.mark.at_once(2)
@pytest.mark.parametrize("change", STRANGE)
def test_a_report_on_strange_runs_is_made(change, kept, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "strange"
    shutil.copytree(kept, folder)
    STRANGE[change](folder)
    assert report(folder, monkeypatch) == 0, capsys.readouterr().err
    page = (folder / "report.html").read_text()
    data = page.split('id="data">', 1)[1].split("</script>", 1)[0]
    json.loads(data, parse_constant=lambda name: pytest.fail(f"a browser cannot read {name}"))


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
