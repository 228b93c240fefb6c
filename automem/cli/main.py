"""The `automem` command. Errors become `error:` and `hint:`; ^C leaves a resumable run and exits 130."""

from __future__ import annotations

import sys
from typing import Any

import typer

from automem.cli import (
    diagnose,
    doctor,
    env,
    evict,
    evolve,
    job,
    launch,
    prefetch,
    quickstart,
    run,
    scaffold,
    serve,
    table,
    trace,
    train,
)
from automem.cli.telling import silence, tell
from automem.errors import AutoMemError
from automem.text import printable

app = typer.Typer(
    name="automem",
    help="Agents that play long games with a directory of text files as memory.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "AUTOMEM"},
)
for verb in (
    quickstart.quickstart,
    run.run,
    evolve.evolve,
    train.train,
    launch.launch,
    prefetch.prefetch,
    diagnose.diagnose,
    table.table,
    serve.serve,
    doctor.doctor,
):
    app.command()(verb)
for noun in (trace, scaffold, env, evict, job):
    app.add_typer(noun.app)


#: Whether errors show their traceback; set by --debug.
_debug = False


@app.callback()
def options(debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error.")) -> None:
    """Agents that play long games with a directory of text files as memory."""
    global _debug
    _debug = debug


def main() -> None:
    """Run the command line and exit: 0, 1 failure, 2 usage, 3 a server died, 130 on ^C."""
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        return int(app(standalone_mode=False) or 0)
    except AutoMemError as error:
        if _debug:
            raise
        _say(str(error), error.hint)
        return error.exit_code
    except typer.TyperException as error:
        _say_usage(error)
        return 2
    except typer.Abort:
        return 130
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            return _say_os_error(error)
        silence(sys.stdout, sys.stderr)
        return 1


def _say_os_error(error: OSError) -> int:
    if _debug:
        raise error
    _say(f"{error.filename or 'a file'}: {error.strerror or error}", "--debug shows where")
    return 1


def _say_usage(error: Any) -> None:
    """What is wrong with the command line; the help, where a command was called without anything."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    if message.startswith("Usage: "):
        tell(message)
    else:
        message = message[:1].lower() + message[1:].rstrip(".")
        _say(message, f"{context.command_path if context else 'automem'} --help tells more")


def _say(message: str, hint: str | None) -> None:
    tell(f"error: {printable(message)}")
    if hint:
        tell(f"hint: {printable(hint)}")
