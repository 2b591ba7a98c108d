"""The files of `sage-rag serve`'s page, and the Python code that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sage_app.pipeline.settings import SageSettings
from sage_app.rendering.html.style import page_css

# Settings that shape the answer to a question.
_ASKING = ("embedder", "reranker", "context", "candidates", "selection")


@cache
def file(name: str) -> str:
    """A file of the page, as text; ``app.css`` begins with the style of the reports."""
    own = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return page_css() + own if name == "app.css" else own


def segmenter_code(settings: Mapping[str, Any]) -> str:
    """Python that cuts a document as the page does."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return (
        "from sage_app.documents import read_document\n"
        "from sage_core import Segmenter\n\n"
        f"segmenter = Segmenter({arguments})\n"
        'text = read_document("guide.md").text\n'
        "print(segmenter.explain(text).chunks)\n\n"
        "# The same in LlamaIndex and LangChain:\n"
        "# from sage_llamaindex import SageNodeParser\n"
        "# parser = SageNodeParser(segmenter=segmenter)\n"
        "# from sage_langchain import SageTextSplitter\n"
        "# splitter = SageTextSplitter(segmenter=segmenter)\n"
    )


def sage_code(question: str, store: str, settings: SageSettings) -> str:
    """Python that asks the store as the page does."""
    default = SageSettings().to_dict()
    chosen = {n: v for n, v in settings.to_dict().items() if n in _ASKING and v != default[n]}
    return (
        "from sage_app import Sage, SageSettings\n\n"
        f"settings = SageSettings.from_dict({chosen!r})\n"
        f"sage = Sage.from_settings(settings, {store!r})\n"
        f"retrieval = sage.retrieve({question!r})\n"
        "for hit in retrieval.hits:\n"
        "    print(hit.score, hit.chunk.text)\n\n"
        "# For `sage-rag ask --settings`: settings.save('sage-settings.json')\n"
        "# The same selection in LlamaIndex and LangChain:\n"
        "# from sage_llamaindex import SageRetriever\n"
        "# retriever = SageRetriever.from_index(index, selection=settings.selection)\n"
        "# from sage_langchain import SageRetriever\n"
        "# retriever = SageRetriever.from_vectorstore(store, selection=settings.selection)\n"
    )
