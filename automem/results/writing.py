"""Tables as text: Markdown, LaTeX, CSV. Titles and cells come in as plain text and are escaped here."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from automem.text import printable


def markdown(
    titles: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool], notes: Sequence[str] = ()
) -> str:
    """A Markdown table, the notes below it; `left` tells which columns are text."""
    rule = ["---" if text else "---:" for text in left]
    lines = [[_markdown(cell) for cell in titles], rule, *([_markdown(cell) for cell in row] for row in rows)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([text, *(_markdown(note) for note in notes)])


def latex(titles: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool], notes: Sequence[str] = ()) -> str:
    """A LaTeX tabular that needs no package, the notes below it."""
    spec = "".join("l" if text else "r" for text in left)
    head, *body = [" & ".join(_latex(cell) for cell in line) + r" \\" for line in (titles, *rows)]
    told = [rf"{{\par\footnotesize {_latex(note)}\par}}" for note in notes]
    lines = [rf"\begin{{tabular}}{{{spec}}}", r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"]
    return "\n".join([*lines, *told])


def comma_separated(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line per row, with a line of names; several values in a cell are set apart by `;`."""
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _flat(value) for key, value in row.items()} for row in rows)
    return out.getvalue().rstrip("\n")


def _flat(value: Any) -> Any:
    if isinstance(value, dict):
        return ";".join(f"{key}={inner}" for key, inner in value.items())
    return ";".join(map(str, value)) if isinstance(value, list) else value


_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\|`*_[]<>#"} | {"\n": " "})
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "\n": " "}
)


def _markdown(text: str) -> str:
    return printable(text.translate(_MARKDOWN))


def _latex(text: str) -> str:
    return text.translate(_LATEX)
