"""Reading the JSON that AutoMem wrote. A file that is damaged is named, with the line or key and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from automem.errors import UsageError
from automem.problems import first_problem

M = TypeVar("M", bound=BaseModel)


def read_record(path: Path, model: type[M], hint: str) -> M:
    """The `model` in a JSON file; `hint` is what to do where it is damaged.

    Raises:
        UsageError: the file cannot be read, is no JSON, or a key or value in it is wrong.
    """
    return checked(model, read_json(path, hint), f"{path} is damaged", hint)


def read_json(path: Path, hint: str, where: str | None = None) -> Any:
    """The data in a JSON file; `hint` is what to do where it is damaged; errors begin with `where`.

    Raises:
        UsageError: the file cannot be read, or is no JSON.
    """
    try:
        return parsed(path.read_bytes(), where or f"{path} is damaged", hint)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint) from error


def read_line(line: bytes, model: type[M], path: Path, number: int, hint: str) -> M:
    """The `model` in line `number` of the JSON lines at `path`; `hint` is what to do where it is damaged.

    Raises:
        UsageError: the line is no JSON, or a key or value in it is wrong.
    """
    where = f"{path}, line {number}: damaged"
    return checked(model, parsed(line, where, hint), where, hint)


def parsed(content: bytes | str, where: str, hint: str) -> Any:
    """JSON data; errors begin with `where`.

    Raises:
        UsageError: it is none.
    """
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: it is not text", hint) from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: {_not_json(text, error)}", hint) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; brackets in brackets
        raise UsageError(f"{where}: it is not JSON", hint) from error


def checked(model: type[M], data: Any, where: str, hint: str) -> M:
    """`data` as a `model`; errors begin with `where`.

    Raises:
        UsageError: a key or value is wrong.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = first_problem(error, model, data)
        close = problem.hint if problem.hint and problem.hint.endswith("?") else None
        raise UsageError(f"{where}: {problem}", f"{close} Otherwise: {hint}" if close else hint) from error


def reason(error: Exception) -> str:
    """In plain words, why data could not be taken apart."""
    if isinstance(error, ValidationError):
        return str(first_problem(error))
    if isinstance(error, KeyError):
        return f"{error.args[0]}: this key is missing"
    if isinstance(error, IndexError):
        return "it refers to something that is not there"
    return str(error) if isinstance(error, ValueError) else "it is not as it was written"


def _not_json(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "it is empty"
    if not text[error.pos :].strip() or error.msg.startswith("Unterminated string"):
        return "it breaks off in the middle"
    line = f"line {error.lineno} " if "\n" in text.strip() else "it "
    return f"{line}is not JSON"
