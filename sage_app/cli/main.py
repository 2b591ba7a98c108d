"""The command line, `sage-rag`: a module for each command.

Commands import what they need when they run, so that `sage-rag segment` works on the base install and
`--help` is instant.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

from sage_app.cli import ask, calibrate, check, demo, documents, ingest, mcp, segment
from sage_app.playground import serve
from sage_core.errors import InputError, LLMError, SageError
from sage_core.text.sanitize import one_line, terminal_safe

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_LLM = 3
EXIT_INTERRUPTED = 130

HELP = """
Precise retrieval for RAG: short chunks cut where the meaning changes, a context that sizes itself, answers
that are graded and tried again.

\b
First steps:
  sage-rag demo                                   watch everything on sample documents
  sage-rag ingest docs/ --store .sage             read a folder (text, Markdown, HTML, Word, PDF)
  sage-rag ask "When does it open?" --store .sage ask it
  sage-rag check answer.md --against docs/        check an answer, statement by statement
  sage-rag segment README.md                      see where a text is cut
  sage-rag list --store .sage                     see what a store holds; remove takes documents out
  sage-rag serve --store .sage                    try settings on a local page
  sage-rag calibrate questions.jsonl --keep 0.9   keep 90 % of the evidence, at the fewest tokens

Without an LLM, the best passages are shown, the sentence that comes closest in bold. An LLM answers where
OPENAI_API_KEY is set or --base-url names an OpenAI-compatible server.

Exit codes: 0 done, 1 failed (store, model, missing package), 2 wrong input, 3 the LLM gave no answer,
4 ingested, but a file or folder could not be opened, 5 a checked statement failed, 130 interrupted.
"""

app = typer.Typer(
    name="sage-rag",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command(epilog=ingest.EXAMPLES)(ingest.ingest)
app.command(epilog=ask.EXAMPLES)(ask.ask)
app.command(epilog=check.EXAMPLES)(check.check)
app.command(epilog=segment.EXAMPLES)(segment.segment)
app.command("list", epilog=documents.LIST_EXAMPLES)(documents.list_documents)
app.command(epilog=documents.REMOVE_EXAMPLES)(documents.remove)
app.command(epilog=mcp.EXAMPLES)(mcp.mcp)
app.command(epilog=demo.EXAMPLES)(demo.demo)
app.command(epilog=calibrate.EXAMPLES)(calibrate.calibrate)
app.command(epilog=serve.EXAMPLES)(serve.serve)


def add_command(command: EntryPoint) -> None:
    """Add what another distribution brings: a single command, or a group of them."""
    commands: typer.Typer = command.load()
    if len(commands.registered_commands) == 1:
        app.registered_commands += commands.registered_commands
    else:
        app.add_typer(commands, name=command.name)


# Distributions of their own, such as sage-rag-train.
_FOLDERS = {"eval": "reproduction", "train": "training"}
for _command in entry_points(group="sage_rag.commands"):
    try:
        add_command(_command)
    except ImportError as error:  # a broken distribution takes its own command along, and no other
        typer.echo(f"sage-rag {_command.name} is left out, because it cannot be imported: {error}", err=True)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log what happens to standard error."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"sage-rag {installed('sage-rag')}")
        raise typer.Exit
    handler = logging.StreamHandler()
    # On the handler, because some libraries set the level of their own loggers.
    handler.setLevel(logging.INFO if verbose else logging.WARNING)
    handler.setFormatter(_SafeFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=handler.level, handlers=[handler], force=True)
    # These report every oddity of a file or a download as a warning of their own.
    for name in ("httpx", "httpx2", "chromadb", "sentence_transformers", "transformers"):
        logging.getLogger(name).setLevel(logging.ERROR)


# Commands that an interrupt leaves with something to continue.
_CONTINUES = frozenset({"ingest", "eval"})


class _SafeFormatter(logging.Formatter):
    """Messages hold names of files and words of servers."""

    def format(self, record: logging.LogRecord) -> str:
        return terminal_safe(super().format(record))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; errors of ours become one line on standard error."""
    if not sys.warnoptions:
        # Warnings are for programmers; what a user must know is an error or a log message.
        warnings.simplefilter("ignore")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # A terminal that cannot show a character gets an escape, not a crash.
            reconfigure(errors="backslashreplace")
    try:
        result = app(arguments, standalone_mode=False)
    except SageError as error:
        _complain(str(error))
        return _code_of(error)
    except (KeyboardInterrupt, typer.Abort):
        result = EXIT_INTERRUPTED
    except typer.Exit as leave:
        return int(leave.exit_code)
    except BrokenPipeError:
        # The reader of our output (head, less) has had enough. Keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:  # a full disk, a file that went away: nothing that a traceback would explain
        _complain(str(error))
        return EXIT_FAILED
    except Exception as error:  # errors of the option parser have no class of their own in all releases
        return _usage_error(error)
    if result == EXIT_INTERRUPTED:  # what newer releases of typer make of Ctrl-C
        command = next((a for a in arguments or sys.argv[1:] if not a.startswith("-")), "")
        resume = "; what is finished is kept: run the same command again to continue"
        _complain(f"interrupted{resume if command in _CONTINUES else ''}")
    return result if isinstance(result, int) else 0


def _usage_error(error: Exception) -> int:
    """The exit code of an error of the option parser, which is shown; any other error is raised again."""
    code = getattr(error, "exit_code", None)
    show = getattr(error, "show", None)
    if code is None or show is None:
        raise error
    show()
    message = str(getattr(error, "message", ""))
    if missing := next((name for name in _FOLDERS if f"No such command '{name}'" in message), None):
        typer.echo(f"In a clone of the repository: pip install ./{_FOLDERS[missing]}", err=True)
    elif "No such command" in message:  # typer names near ones by their spelling alone
        context: Any = getattr(error, "ctx", None)
        typer.echo(f"Commands: {', '.join(context.command.list_commands(context))}", err=True)
    if "unexpected extra argument" in message:
        typer.echo('A question of several words goes in quotes: sage-rag ask "When does it open?"', err=True)
    return int(code)


def _code_of(error: SageError) -> int:
    if isinstance(error, InputError):
        return EXIT_USAGE
    return EXIT_LLM if isinstance(error, LLMError) else EXIT_FAILED


def _complain(message: str) -> None:
    sys.stderr.write(f"sage-rag: {one_line(message)}\n")


def main() -> None:
    """Entry point of the `sage-rag` command."""
    sys.exit(run())


if __name__ == "__main__":
    main()
