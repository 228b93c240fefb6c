"""A diagnosis in words, as Markdown: for people, and for models that propose."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from automem.evolve.findings import Diagnosis


def tell(diagnosis: Diagnosis, limit: int) -> str:
    """The report, of at most `limit` characters."""
    return f"# Diagnosis of {diagnosis.summary.run}"[:limit]
