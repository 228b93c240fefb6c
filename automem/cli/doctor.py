"""`automem doctor`: what is installed, what works, what is missing."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer


def doctor(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Check the installation; exit code 1 if something that is always needed does not work."""
    from automem.play.doctor import examine

    findings = examine()
    if as_json:
        print(json.dumps([finding.__dict__ for finding in findings], indent=2))
    else:
        for finding in findings:
            print(f"{'ok  ' if finding.ok else 'NO  ' if finding.needed else '-   '}{finding.what}: {finding.detail}")
    if any(finding.needed and not finding.ok for finding in findings):
        print("error: the installation is not complete", file=sys.stderr)
        raise typer.Exit(1)
