"""The site: every public name is in the reference, links lead somewhere, tutorials run, and it can be built."""

import ast
import html.parser
import inspect
import json
import pathlib
import re
import runpy
import subprocess
import sys

import jax
import matplotlib.pyplot as plt
import pytest
import yaml

import compiling
import riesz

ROOT = pathlib.Path(__file__).parents[1]
TUTORIALS = ["from_adam", "own_model", "classify", "fit_data", "solve_a_pde"]
"""The quickest one first, which `make test` runs."""
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/tutorials/*.py")])


def public_names():
    """What users may call: all names without an underscore that are no module."""
    return {name for name, value in vars(riesz).items() if not name.startswith("_") and not inspect.ismodule(value)}


def names_of_adapters():
    """What docs/adapters.md names of the modules that stand beside other libraries."""
    text = (ROOT / "docs/adapters.md").read_text()
    return set(re.findall(r"\briesz\.((?:optax|optimistix|sklearn)\.[A-Za-z]\w*)", text))


def test_every_public_name_is_in_the_reference_once():
    names = re.findall(r"^::: riesz\.([\w.]+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
    assert len(names) == len(set(names))
    assert {name for name in names if "." not in name} == public_names()
    assert {name for name in names if "." in name} >= names_of_adapters() != set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    """As they stand in the project's folder; the build of the site checks them there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if anchor else []
        assert not anchor or anchor in [re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in headings]


def test_the_site_has_all_pages_and_tutorials():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = set(re.findall(r"[\w/]+\.md", json.dumps(config["nav"])))
    pages = {page.name for page in ROOT.glob("docs/*.md")} | {f"tutorials/{name}.md" for name in TUTORIALS}
    assert listed == pages | {"index.md", "changelog.md", "contributing.md", "security.md"}
    assert {page.stem for page in ROOT.glob("docs/tutorials/*.py")} == set(TUTORIALS)


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorials_are_short_cells_with_sentences(name):
    text = (ROOT / f"docs/tutorials/{name}.py").read_text()
    cells = re.split(r"^# %%", text, flags=re.MULTILINE)[1:]
    assert text.startswith("# %% [markdown]\n# # ") and cells[-1].startswith(" [markdown]")
    assert "What to believe" in text and "plt.subplots" in text
    code = [cell for cell in cells if not cell.startswith(" [markdown]")]
    assert max(cell.count("\n") for cell in code) <= 35
    assert sum(cell.startswith(" [markdown]") for cell in cells) >= 3
    ast.parse(text)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorials_run_and_find_what_they_say(name, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    plt.switch_backend("Agg")
    try:
        with jax.numpy_rank_promotion("allow"):  # as users have it
            found = runpy.run_path(str(ROOT / f"docs/tutorials/{name}.py"))
        assert plt.get_fignums()
    finally:
        plt.close("all")
    assert FOUND[name](found)


FOUND = {
    "classify": lambda found: found["right"] > found["best"] - 0.02 and found["separated"].loss < 1e-100,
    "fit_data": lambda found: (
        all(abs(found["best"] - jax.numpy.array([2.5, 1.3, 0.5])) < 3 * jax.numpy.sqrt(found["covariance"].diagonal()))
        and abs(found["fits"]["cauchy"].params["rate"] - 1.3) < 0.2 < abs(found["fits"]["linear"].params["rate"] - 1.3)
        and found["inside"].mean() > 0.9
    ),
    "from_adam": lambda found: found["solution"].loss < 1e-4 * min(found["adam"][0].min(), found["lbfgs"][0].min()),
    "own_model": lambda found: found["space"].rank == 8 and max(fit.loss for fit in found["fits"].values()) < 1e-9,
    "solve_a_pde": lambda found: (
        abs(found["found"] - found["exact"]).max() < 1e-10 and found["error"](found["square"].theta) < 1e-5
    ),
}
"""What each tutorial says of itself."""


class Requests(html.parser.HTMLParser):
    """The addresses that a browser asks for by itself when it shows a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.found.append(attrs.get("src"))
        if tag == "link" and attrs.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(attrs.get("href"))


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path):
    """With every link checked, all tutorials run, and a search that finds words of the text."""
    environment = compiling.ordinary_environment() | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stderr
    pages = {path.relative_to(tmp_path / "site"): path.read_text() for path in (tmp_path / "site").rglob("*.html")}
    assert len(pages) >= 28
    for name, text in pages.items():
        asked = Requests()
        asked.feed(text)
        assert not [address for address in asked.found if address and re.match(r"(https?:)?//", address)], name
        assert "arithmatex" not in text, name
    for style in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text()), style.name
    assert "<math" in pages[pathlib.Path("losses/index.html")] and "<math" in pages[pathlib.Path("api/index.html")]
    index = json.loads((tmp_path / "site/search/search_index.json").read_text())["docs"]
    places = {"Christoffel": "measures/", "checkpoint": "reliability/", "bounds": "tutorials/fit_data/"}
    for word, place in places.items():
        assert any(entry["location"].startswith(place) and word in entry["text"] for entry in index), word
    described = {entry["location"] for entry in index if len(entry["text"]) > 20}
    assert {f"api/#riesz.{name}" for name in public_names() if name != "METHODS"} <= described
