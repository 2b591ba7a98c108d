"""The version that is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("sage-rag")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
