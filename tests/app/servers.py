"""A Chroma server of a test's own."""

import socket
import subprocess
import sys
from pathlib import Path


class ChromaServer:
    """`chroma run`, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        executable = Path(sys.executable).with_name("chroma")
        command = [executable, "run", "--path", self.folder, "--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "ChromaServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
