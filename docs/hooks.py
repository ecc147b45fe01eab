"""What the site needs beyond its pages: the README as its first page, programs that pages link to, tutorials that are
run, formulas as MathML.

MathML is drawn by browsers themselves: no script is loaded, and the site can be read without a network.
"""

import base64
import html
import inspect
import os
import pathlib
import posixpath
import re

import jupytext
import nbclient
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import riesz

ROOT = pathlib.Path(__file__).parents[1]
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([\(\[])(.*?)\\[\)\]]</(?:span|div)>', re.DOTALL)
PRIMES = re.compile(r"<msup><mi>(\w)</mi><mi>(&#x0203[23];)</mi></msup>")
LINK = re.compile(r"(\])\(([^)\s]+)\)")
PLACED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files of the project's folder that are pages of the site."""


def _place(inside: str) -> str:
    """Where a file of the project lies in the site."""
    if inside.startswith("docs/tutorials/"):
        return inside.removeprefix("docs/").removesuffix(".py") + ".md"
    return PLACED.get(inside, inside.removeprefix("docs/"))


def _on_site(text: str, path: str) -> str:
    """The links of a page that lies at `path` in the project, as links of the site; those in code stay as they are."""
    folder, here = posixpath.dirname(path), posixpath.dirname(_place(path))

    def moved(match: re.Match) -> str:
        target = match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        file, _, anchor = target.partition("#")
        if not (ROOT / folder / file).exists():
            return match[0]
        inside = posixpath.normpath(posixpath.join(folder, file))
        return f"{match[1]}({posixpath.relpath(_place(inside), here or '.')}{'#' + anchor if anchor else ''})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def on_files(files: Files, config) -> Files:
    """Add the pages and programs that lie outside the folder of the docs, and the tutorials as they ran."""
    for name in PLACED:
        _add(files, config, _place(name), _on_site((ROOT / name).read_text(), name))
    for source in sorted(ROOT.glob("docs/tutorials/*.py")):
        path = source.relative_to(ROOT).as_posix()
        page, pictures = _executed(source)
        program = f"*What is printed and drawn comes from the build of this page: [the program]({source.name}).*"
        _add(files, config, _place(path), f"{_on_site(page, path)}\n\n{program}\n")
        for name, content in pictures.items():
            _add(files, config, f"tutorials/{name}", content)
    for path in sorted(_linked()):
        _add(files, config, path, (ROOT / path).read_text())
    return files


def _add(files: Files, config, path: str, content: str | bytes) -> None:
    files.append(File.generated(config, path, content=content))


def _linked() -> set[str]:
    """The programs and other files outside the docs to which some page links."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/tutorials/*.py")]
    text = "".join(page.read_text() for page in pages)
    return set(re.findall(r"\]\((?:\.\./)*((?:examples|benchmarks|src|tests)/[\w/.]+|CITATION\.cff)\)", text))


def _executed(source: pathlib.Path) -> tuple[str, dict[str, bytes]]:
    """A tutorial with what its cells print and draw, as a page and its pictures; what it warns of is an error."""
    notebook = jupytext.read(source)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python", "language": "python"}
    # No progress is told, nor asked whether there are widgets to draw it.
    environment = os.environ | {"PYTHONWARNINGS": "ignore:IProgress not found", "TQDM_DISABLE": "1"}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute(env=environment)
    page, pictures = [], {}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            page.append(cell.source)
            continue
        printed, drawn = _outputs(cell, source.name)
        page.append(f"```python\n{cell.source}\n```")
        page += [f"``` {{ .text .output }}\n{printed}\n```"] if printed else []
        for picture in drawn:
            name = f"{source.stem}-{len(pictures) + 1}.png"
            pictures[name] = picture
            page.append(f"![What the cell above draws]({name})")
    return "\n\n".join(page), pictures


def _outputs(cell, name: str) -> tuple[str, list[bytes]]:
    """What a cell prints, its value at the end, and what it draws."""
    printed, drawn = "", []
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stderr":
            raise PluginError(f"{name} writes to standard error: {output.text}")
        data = output.get("data", {})
        if "image/png" in data:
            drawn.append(base64.b64decode(data["image/png"]))
        else:
            printed += output.get("text", data.get("text/plain", "") + "\n")
    return printed.rstrip(), drawn


def _methods_as_made(markdown: str) -> str:
    """The reference with the named methods as they are at run time: their docstrings are made, not written."""
    for name, method in riesz.METHODS.items():
        parameters = inspect.signature(method).parameters.values()
        keywords = "\n".join(f"    {found.name}={found.default!r}," for found in parameters)
        heading = f"### {name} {{ #riesz.{name} }}"
        entry = f"{heading}\n\n```python\n{name}(\n{keywords}\n)\n```\n\n{inspect.getdoc(method)}\n"
        markdown = re.sub(rf"^::: riesz\.{name}$", lambda _, entry=entry: entry, markdown, flags=re.MULTILINE)
    return markdown


def on_page_markdown(markdown: str, page, **_) -> str:
    """Links of the docs' own pages, which are relative to their folder in the project; methods of the reference."""
    if page.file.src_uri == "api.md":
        markdown = _methods_as_made(markdown)
    generated = page.file.src_uri in PLACED.values() or page.file.src_uri.startswith("tutorials/")
    return markdown if generated else _on_site(markdown, f"docs/{page.file.src_uri}")


def on_page_content(content: str, **_) -> str:
    """Formulas as MathML."""

    def formula(match: re.Match) -> str:
        drawn = convert(html.unescape(match[3]).strip(), display="block" if match[2] == "[" else "inline")
        # Primes are raised already, and too small to read as exponents.
        return PRIMES.sub(r'<mi>\1</mi><mo lspace="0" rspace="0">\2</mo>', drawn)

    return FORMULA.sub(formula, content)
