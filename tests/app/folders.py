"""Folders that cannot be read."""

import os
from pathlib import Path

import pytest


def lock(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Close a folder to listing. (Permissions do not stop root, under which tests may run.)"""
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path) == str(folder):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
