"""Figures by matplotlib, SVG and PNG. The same data give the same SVG: no date, no random ids.

Published values are hollow or pale, ours filled, so that the two are told apart in grey, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from automem.errors import RunError, UsageError
from automem.results.published import METRICS, Compared, Comparison

#: Colours that stay apart for colour-blind readers (Okabe and Ito).
_PUBLISHED, _OURS, _GREY = "#0072B2", "#D55E00", "#999999"
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "automem",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
_ENDINGS = ("svg", "png")


def of_comparison(compared: Compared, folder: Path) -> list[Path]:
    """The figure that `expected.yaml` asks for, of published values and ours; none where it asks for none.

    Raises:
        UsageError: matplotlib is missing.
        RunError: `folder` cannot be written.
    """
    kind = compared.expected.figure
    if kind is None:
        return []
    draw = {"progress": _progress, "points": _points, "behaviour": _behaviour}[kind]
    with _plotting() as plt:
        return _save(plt, draw(plt, compared), folder, f"{kind}-{compared.experiment.replace('@', '-')}")


def of_lineage(name: str, rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Loop 1: the score of every candidate on the gate seeds, and the best so far. `rows` as of `lineage_rows`.

    Raises:
        UsageError, RunError: as `of_comparison`.
    """
    with _plotting() as plt:
        return _save(plt, _lineage(plt, name, rows), folder, f"lineage-{_file_name(name)}")


def of_ledger(name: str, rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Loop 2: the loss of each recipe while it was trained, and its score. `rows` as of `ledger_rows`.

    Raises:
        UsageError, RunError: as `of_comparison`.
    """
    with _plotting() as plt:
        return _save(plt, _ledger(plt, name, rows), folder, f"ledger-{_file_name(name)}")


@contextmanager
def _plotting() -> Iterator[Any]:
    """Pyplot without a screen, in our style."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise UsageError("figures need matplotlib", "pip install 'automem[figures]'") from error
    matplotlib.use("agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(_STYLE):
        try:
            yield pyplot
        finally:
            pyplot.close("all")


def _save(plt: Any, figure: Any, folder: Path, name: str) -> list[Path]:
    paths = [folder / f"{name}.{ending}" for ending in _ENDINGS]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(paths[0], metadata={"Date": None, "Creator": None})
        figure.savefig(paths[1], dpi=150, metadata={"Software": None})
    except OSError as error:
        raise RunError(f"cannot write {paths[0]}: {error.strerror or error}") from error
    return paths


def _games(compared: Compared) -> dict[str, list[Comparison]]:
    games: dict[str, list[Comparison]] = {}
    for row in compared.rows:
        games.setdefault(row.row.game, []).append(row)
    return games


def _progress(plt: Any, compared: Compared) -> Any:
    """A panel for each game: published values version by version, ours beside them."""
    games = _games(compared)
    figure, panels = plt.subplots(1, len(games), figsize=(3.3 * len(games), 3.1), squeeze=False)
    for panel, (game, rows) in zip(panels[0], games.items(), strict=True):
        panel.plot(range(len(rows)), [row.row.mean for row in rows], color=_PUBLISHED, lw=1, zorder=1)
        for place, row in enumerate(rows):
            _published(panel, row, place, "yerr")
            _ours(panel, row, place + 0.12, "yerr")
        panel.set_xticks(range(len(rows)), [_wrapped(row.row.agent) for row in rows])
        panel.set_title(game)
        panel.set_ylim(bottom=0)
    panels[0][0].set_ylabel("progress %")
    _legend(figure, panels[0])
    return figure


def _points(plt: Any, compared: Compared) -> Any:
    """A panel for each game: agents below each other, their progress from left to right."""
    games = _games(compared)
    agents = list(dict.fromkeys(row.row.agent for row in compared.rows))
    figure, panels = plt.subplots(
        1, len(games), figsize=(2.2 + 2.6 * len(games), 1.1 + 0.28 * len(agents)), squeeze=False, sharey=True
    )
    for panel, (game, rows) in zip(panels[0], games.items(), strict=True):
        for row in rows:
            _published(panel, row, agents.index(row.row.agent), "xerr")
            _ours(panel, row, agents.index(row.row.agent) + 0.25, "xerr")
        panel.set_title(game)
        panel.set_xlabel("progress %")
        panel.set_xlim(left=0)
    panels[0][0].set_yticks(range(len(agents)), agents)
    panels[0][0].set_ylim(len(agents) - 0.4, -0.6)
    _legend(figure, panels[0])
    return figure


def _published(panel: Any, row: Comparison, place: float, error: str) -> None:
    here = row.row.cell is not None
    label = "published" if here else "published; not here"
    _point(panel, place, row.row.mean, row.row.se, error, _PUBLISHED if here else _GREY, label, marker="o", mfc="white")


def _ours(panel: Any, row: Comparison, place: float, error: str) -> None:
    if row.ours and row.ours.mean is not None:
        _point(panel, place, row.ours.mean, row.ours.se, error, _OURS, "ours", marker="D", ms=5)


def _point(
    panel: Any, place: float, value: float, spread: float | None, error: str, colour: str, label: str, **marks: Any
) -> None:
    """A value with its error along the axis that `error` names; whole at the edge, too."""
    x, y = (place, value) if error == "yerr" else (value, place)
    panel.plot(x, y, linestyle="none", color=colour, label=label, clip_on=False, zorder=4, **marks)
    panel.errorbar(x, y, **{error: spread or 0.0}, color=colour, fmt="none", capsize=2, zorder=3)


def _behaviour(plt: Any, compared: Compared) -> Any:
    """A panel for each metric, bars for each game: agents side by side, published pale, ours before it."""
    metrics = dict.fromkeys(row.row.metric for row in compared.rows)
    columns = min(3, len(metrics))
    lines = -(-len(metrics) // columns)
    figure, panels = plt.subplots(lines, columns, figsize=(3.4 * columns, 2.7 * lines), squeeze=False)
    for panel in panels.flat[len(metrics) :]:
        panel.remove()
    for panel, metric in zip(panels.flat, metrics, strict=False):
        _bars(panel, [row for row in compared.rows if row.row.metric == metric])
        panel.set_title(METRICS[metric][0] if metric in METRICS else f"{metric.partition('/')[2]}, characters/step")
    _legend(figure, list(panels.flat)[: len(metrics)])
    return figure


def _bars(panel: Any, rows: Sequence[Comparison]) -> None:
    games = list(dict.fromkeys(row.row.game for row in rows))
    agents = list(dict.fromkeys(row.row.agent for row in rows))
    width = 0.8 / len(agents)
    for row in rows:
        second = agents.index(row.row.agent) > 0
        place = games.index(row.row.game) + (agents.index(row.row.agent) - (len(agents) - 1) / 2) * width
        name = f"published, {'after' if second else 'before'}"
        panel.bar(
            place, row.row.mean, width * 0.92, facecolor=_PUBLISHED if second else "white", edgecolor=_PUBLISHED,
            alpha=0.55, label=name,
        )  # fmt: skip
        if row.ours and row.ours.mean is not None:
            panel.plot(place, row.ours.mean, "D", color=_OURS, ms=5, label="ours")
    panel.set_xticks(range(len(games)), games)
    panel.set_xlim(-0.6, len(games) - 0.4)
    panel.grid(axis="x", visible=False)
    panel.set_xlabel(" → ".join(agents))


def _lineage(plt: Any, name: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Candidates in the order of their decision; a line for the best so far."""
    figure, panel = plt.subplots(figsize=(max(5.2, 1.6 + 0.62 * (len(rows) + 1)), 3.0))
    best = [next((100 * row["before_mean"] for row in rows if row["before_mean"] is not None), None)]
    for place, row in enumerate(rows, 1):
        after, accepted = row["after_mean"], row["verdict"] == "accepted"
        if after is not None:
            mark = {"marker": "o", "color": _OURS} if accepted else {"marker": "x", "color": _GREY}
            panel.plot(place, 100 * after, linestyle="none", label=row["verdict"], **mark)
        else:
            panel.plot(place, 0, linestyle="none", marker="v", color=_GREY, label="not played", clip_on=False)
        best.append(100 * after if accepted else best[-1])
    panel.step(range(len(best)), best, where="post", color=_PUBLISHED, label="best so far", zorder=1)
    labels = [f"{row['revision']}.{row['attempt']}{'+' * row['continuation']}" for row in rows]
    panel.set_xticks(range(len(best)), ["start", *labels])
    panel.set_ylabel("progress % on the gate seeds")
    panel.set_xlabel("revision.attempt")
    panel.set_ylim(0, 1.08 * max([value for value in best if value is not None], default=0) or 1.0)
    panel.set_title(f"Loop 1, {name}")
    _legend(figure, [panel])
    return figure


def _ledger(plt: Any, name: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Left the losses, a line for each recipe; right the scores on the report seeds."""
    figure, (losses, scores) = plt.subplots(1, 2, figsize=(7.6, 3.1))
    for number, row in enumerate(rows):
        trained = row["trained"] or {}
        colour = f"C{number}"
        if curve := trained.get("curve"):
            losses.plot(*zip(*curve, strict=True), color=colour, label=row["recipe"]["name"])
        if held_out := [*_start(trained), *trained.get("held_out_curve", [])]:
            losses.plot(
                *zip(*held_out, strict=True), "s--", ms=4, color=colour, label=f"{row['recipe']['name']}, held out"
            )
        if row["report_mean"] is not None:
            _score(scores, number + 1, row, "report", _OURS if row["verdict"] == "adopted" else _GREY, row["verdict"])
    base = next((row for row in rows if row["base_report_mean"] is not None), None)
    if base:
        _score(scores, 0, base, "base_report", _PUBLISHED, "scaffold only")
    losses.set(title=f"Loop 2, {name}: loss", xlabel="updates", ylabel="loss per supervised token")
    losses.xaxis.get_major_locator().set_params(integer=True)
    if losses.has_data():
        losses.legend(fontsize=7)
    scores.set(title="report seeds", ylabel="progress %")
    scores.set_xticks(
        range(len(rows) + 1), ["scaffold\nonly", *(f"{row['iteration']}.{row['config']}" for row in rows)]
    )
    scores.set_xlim(-0.5, len(rows) + 0.5)
    scores.set_ylim(0, max(1.0, scores.get_ylim()[1]))
    _legend(figure, [scores])
    return figure


def _start(trained: Mapping[str, Any]) -> list[tuple[int, float]]:
    before = trained.get("held_out_before")
    return [] if before is None else [(0, before)]


def _score(panel: Any, place: int, row: Mapping[str, Any], field: str, colour: str, label: str) -> None:
    mean, error = 100 * row[f"{field}_mean"], 100 * (row[f"{field}_se"] or 0.0)
    _point(panel, place, mean, error, "yerr", colour, label, marker="o")


def _legend(figure: Any, panels: Sequence[Any]) -> None:
    """One legend below all panels, each label once."""
    found: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        found |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in found}
    if found:
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=min(4, len(found)))


def _wrapped(label: str) -> str:
    return label.replace(" + ", "\n+ ")


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "loop"
