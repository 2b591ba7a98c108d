"""Documents: the files of a user found, opened and read as text with exact offsets."""

from sage_app.documents.discovery import KINDS, Kind, find_documents, find_files
from sage_app.documents.html import read_html
from sage_app.documents.reader import Document, parse_document, read_document
from sage_core.paths import PathArgument
from sage_core.text.headings import Heading, find_headings, find_title, heading_path, heading_paths

__all__ = [
    "KINDS",
    "Document",
    "Heading",
    "Kind",
    "PathArgument",
    "find_documents",
    "find_files",
    "find_headings",
    "find_title",
    "heading_path",
    "heading_paths",
    "parse_document",
    "read_document",
    "read_html",
]
