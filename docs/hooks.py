"""What the site needs beyond its pages: the README as its first page, the examples beside it, formulas as MathML.

MathML is drawn by browsers themselves: no script is loaded, and the site can be read without a network.
"""

import html
import pathlib
import re

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).parents[1]
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([\(\[])(.*?)\\[\)\]]</(?:span|div)>', re.DOTALL)
PLACED = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files of the project's folder that are pages of the site."""


def _on_site(text: str, folder: str) -> str:
    """The links of a page that lies in a folder of the project, as links of the site."""

    def moved(match: re.Match) -> str:
        target = match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        inside = (ROOT / folder / path).resolve().relative_to(ROOT).as_posix()
        inside = PLACED.get(inside, inside.removeprefix("docs/"))
        return f"{match[1]}({inside}{'#' + anchor if anchor else ''})"

    return re.sub(r"(\])\(([^)\s]+)\)", moved, text)


def on_files(files: Files, config) -> Files:
    """Add the pages and programs that lie outside the folder of the docs."""
    for name, page in PLACED.items():
        files.append(File.generated(config, page, content=_on_site((ROOT / name).read_text(), ".")))
    linked = set(re.findall(r"\((?:\.\./)?((?:examples|benchmarks|src|tests)/[\w/.]+)\)", _all_text()))
    for path in sorted(linked):
        files.append(File.generated(config, path, content=(ROOT / path).read_text()))
    return files


def _all_text() -> str:
    return "".join(page.read_text() for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def on_page_markdown(markdown: str, page, **_) -> str:
    """Links of the docs' own pages, which are relative to their folder in the project."""
    return markdown if page.file.src_uri in PLACED.values() else _on_site(markdown, "docs")


def on_page_content(content: str, **_) -> str:
    """Formulas as MathML."""

    def formula(match: re.Match) -> str:
        return convert(html.unescape(match[3]).strip(), display="block" if match[2] == "[" else "inline")

    return FORMULA.sub(formula, content)
