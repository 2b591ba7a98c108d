"""`sage-rag demo`."""

EXAMPLES = ""


def demo() -> None:
    """Demo."""
