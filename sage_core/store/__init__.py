"""The store: documents, their chunks and vectors on disk, searched by vector."""
