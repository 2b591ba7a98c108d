"""Documents: the files of a user found, opened and read as text with exact offsets."""

from sage_core.documents.discovery import KINDS, Kind, PathArgument, expand, find_files
from sage_core.documents.reader import Document, parse_document, read_document

__all__ = [
    "KINDS",
    "Document",
    "Kind",
    "PathArgument",
    "expand",
    "find_files",
    "parse_document",
    "read_document",
]
