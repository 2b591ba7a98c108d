"""PDF, office files and mail are read in a child process, with limits of memory and CPU time.

A small file can make its parser take all memory of a machine, take hours, or abort: no check of the file
beforehand sees every way to do so. Where the child dies, that one file is skipped with the reason. One child
reads file after file, and ends after some seconds without one; the next file starts another.

Where the limits hold: CPU time everywhere; memory on Linux and macOS. On Windows memory is not limited. A
program frozen into one executable has no interpreter to start and reads in its own process, without limits.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sage_app.documents.discovery import PANDOC, Kind, Parsed
from sage_app.documents.structured import read_email
from sage_core._checks import check_installed
from sage_core.errors import InputError, MissingExtraError
from sage_core.text.headings import Heading

logger = logging.getLogger(__name__)

# What a file may take: ordinary ones take a tenth of it.
_MEMORY, _MEMORY_PER_BYTE, _MAX_MEMORY = 500_000_000, 200, 2_000_000_000
_CPU_SECONDS, _CPU_SECONDS_PER_BYTE, _MAX_CPU_SECONDS = 10.0, 1 / 20_000, 600.0
_IDLE_SECONDS = 20.0
_LOOK_EVERY = 0.05
_EXIT_MEMORY, _EXIT_CPU = 91, 92
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from sage_app.documents.isolated import serve; serve()"
)
_NEEDS = {
    "pdf": ("Reading PDF", "files", "pypdfium2"),
    "docx": ("Reading Word files", "files", "mammoth", "lxml", "markdownify"),
    "xlsx": ("Reading spreadsheets", "office", "openpyxl", "lxml", "markdownify"),
    "pptx": ("Reading slides", "office", "pptx", "lxml", "markdownify"),
    **dict.fromkeys(PANDOC, ("Reading what pandoc reads", "files", "lxml", "markdownify")),
    "email": ("Reading mail", "files"),
}


def read_isolated(kind: Kind, data: bytes, *, name: str) -> Parsed:
    """What a file of one of the kinds `sage_app.documents.discovery.ISOLATED` says.

    Raises:
        InputError: For a file that cannot be read, or not within the limits.
        MissingExtraError: Without the extra that reads it.
    """
    check_installed(*_NEEDS[kind])
    if getattr(sys, "frozen", False) or not sys.executable:
        return _parse(kind, data, name)
    job = {
        "kind": kind,
        "name": name,
        "size": len(data),
        "memory": min(_MEMORY + _MEMORY_PER_BYTE * len(data), _MAX_MEMORY),
        "seconds": min(_CPU_SECONDS + _CPU_SECONDS_PER_BYTE * len(data), _MAX_CPU_SECONDS),
    }
    with _lock:
        reply = _child.ask(job, data)
    for warning in reply.get("warnings", ()):
        logger.warning("%s", warning)
    if "missing" in reply:
        raise MissingExtraError(*reply["missing"])
    if "error" in reply:
        raise InputError(reply["error"])
    headings = [Heading(*heading) for heading in reply["headings"]]
    return Parsed(reply["text"], reply["title"], headings, reply["page_starts"])


class _Child:
    """The process that reads, started when it is needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, job: dict[str, Any], data: bytes) -> dict[str, Any]:
        """The child's reply to one file."""
        while True:
            process, fresh = self._running()
            try:
                reply = _exchange(process, job, data)
            except BaseException:  # Ctrl-C: what comes later would be taken for the reply to another file
                self.end()
                raise
            if reply is not None:
                return reply
            code = process.wait()
            self._process = None
            if fresh or code != 0:
                raise InputError(_why(job, code))
            # It had just ended because it had nothing to do.

    def _running(self) -> tuple[subprocess.Popen[bytes], bool]:
        if self._owner != os.getpid():  # after a fork the child belongs to the other process
            self._process, self._owner = None, os.getpid()
        if self._process is not None and self._process.poll() is None:
            return self._process, False
        command = [sys.executable, "-I", "-c", _START, json.dumps(sys.path)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise InputError(
                f"the process that reads PDF and Word files cannot be started: {error}"
            ) from error
        return self._process, True

    def end(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):  # for what was not yet sent
                    pipe.close()


def _exchange(process: subprocess.Popen[bytes], job: dict[str, Any], data: bytes) -> dict[str, Any] | None:
    """Send a file and receive the reply; None if the process ends before."""
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None
    try:
        stdin.write(json.dumps(job).encode() + b"\n")
        stdin.write(data)
        stdin.flush()
    except OSError:
        return None
    size = stdout.readline()
    body = stdout.read(int(size)) if size.strip().isdigit() else b""
    if not body or len(body) != int(size):
        return None
    reply = json.loads(body)
    return reply if isinstance(reply, dict) else None


def _why(job: dict[str, Any], code: int) -> str:
    """What the end of the child says of the file."""
    over_time = f"takes more than {job['seconds']:.0f} seconds to read"
    over_memory = f"takes more than {job['memory'] // 1_000_000:,} MB of memory to read"
    if code in (_EXIT_CPU, -getattr(signal, "SIGXCPU", 0)):
        what = over_time
    elif code == _EXIT_MEMORY:
        what = over_memory
    else:
        what = f"ends the process that reads it (exit status {code}): it is damaged, or {over_memory}"
    return f"{job['name']} {what}: split it, or save it as text"


_lock = threading.Lock()  # one file at a time
_child = _Child()
atexit.register(_child.end)


# --- In the child ------------------------------------------------------------------


def serve() -> None:
    """Read files from standard input until it ends; what a child process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a parser prints is no reply
    watch = _Watch()
    records = _Records()
    for package in ("sage_core", "sage_app"):
        logging.getLogger(package).addHandler(records)
    while line := requests.readline():
        watch.receive()
        job = json.loads(line)
        data = requests.read(job["size"])
        watch.start(job["memory"] + 3 * len(data), job["seconds"])  # with copies of the file itself
        records.messages.clear()
        body = json.dumps({**_reply(job, data), "warnings": records.messages}).encode()
        replies.write(b"%d\n" % len(body) + body)
        replies.flush()
        del data, body
        watch.stop()


def _reply(job: dict[str, Any], data: bytes) -> dict[str, Any]:
    try:
        return _parse(job["kind"], data, job["name"])._asdict()
    except InputError as error:
        return {"error": str(error)}
    except MissingExtraError as error:  # lxml, for a message that is HTML
        return {"missing": [error.what, error.extra]}
    except MemoryError:
        os._exit(_EXIT_MEMORY)
    except Exception as error:  # a parser's own bug: the file is skipped, the others are read
        return {"error": f"{job['name']} is not readable: {type(error).__name__}: {error}"}


def _parse(kind: str, data: bytes, name: str) -> Parsed:
    if kind == "pdf":
        from sage_app.documents.pdf import read_pdf

        return read_pdf(data, name=name)
    if kind == "email":
        return read_email(data, name=name)
    if kind == "docx":
        from sage_app.documents.docx import read_docx

        return read_docx(data, name=name)
    if kind in PANDOC:
        from sage_app.documents.pandoc import read_with_pandoc

        return read_with_pandoc(kind, data, name=name)
    from sage_app.documents.office import read_office

    return read_office(kind, data, name=name)


class _Records(logging.Handler):
    """Warnings, to be logged by the process that asks."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


class _Watch:
    """Ends this process where it takes too much memory or CPU time, or has nothing to do for a while.

    A thread looks. The limits of the operating system hold besides, for code that lets no thread run; macOS
    accepts a limit of memory without keeping it.
    """

    def __init__(self) -> None:
        self._memory = self._cpu = float("inf")
        self._idle_since = time.monotonic()
        self._peak, self._limit = _limits()
        self._base = self._peak()
        threading.Thread(target=self._look, daemon=True).start()

    def receive(self) -> None:
        """A file is arriving."""
        self._idle_since = float("inf")

    def start(self, memory: int, seconds: float) -> None:
        """Begin to read a file."""
        self._memory = self._base + memory
        self._cpu = time.process_time() + seconds
        self._limit(int(self._memory), seconds)

    def stop(self) -> None:
        """The file is read."""
        self._memory = self._cpu = float("inf")
        self._idle_since = time.monotonic()

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY)
            if self._peak() > self._memory:
                os._exit(_EXIT_MEMORY)
            if time.process_time() > self._cpu:
                os._exit(_EXIT_CPU)
            if time.monotonic() - self._idle_since > _IDLE_SECONDS:
                os._exit(0)


def _limits() -> tuple[Callable[[], float], Callable[[int, float], None]]:
    """What tells the most memory this process ever took, and what sets the operating system's limits."""
    try:
        import resource
    except ImportError:  # Windows
        return (lambda: 0.0), (lambda memory, seconds: None)
    unit = 1 if sys.platform == "darwin" else 1024

    def peak() -> float:
        # Linux hands the parent's peak down in `ru_maxrss`, and a large program would loosen the limit.
        with contextlib.suppress(OSError):
            for line in Path("/proc/self/status").read_bytes().splitlines():
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def limit(memory: int, seconds: float) -> None:
        end = int(time.process_time() + seconds) + 2
        # Address space is more than memory: libraries and the stacks of threads are in it.
        limits = [(resource.RLIMIT_CPU, end), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, memory + 10**9)]
        for which, value in limits:
            hard = resource.getrlimit(which)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            try:
                resource.setrlimit(which, (value, hard))
            except (ValueError, OSError):  # macOS, for less address space than is in use
                continue

    return peak, limit
