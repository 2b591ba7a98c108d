"""What stock splitters leave of documents, and which of their offsets are believed to be places."""

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.documents import Document
from langchain_text_splitters import (
    CharacterTextSplitter,
    ExperimentalMarkdownSyntaxTextSplitter,
    MarkdownHeaderTextSplitter,
    MarkdownTextSplitter,
    RecursiveCharacterTextSplitter,
    TokenTextSplitter,
)
from llama_index.core import Document as LlamaDocument
from llama_index.core import MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    LangchainNodeParser,
    MarkdownElementNodeParser,
    MarkdownNodeParser,
    SemanticSplitterNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
)
from llama_index.core.node_parser import TokenTextSplitter as NodeTokenSplitter
from llama_index.core.node_parser.relational.base_element import TableOutput
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.schema import MetadataMode, NodeWithScore

from sage_core.passages import Place
from sage_core.ranking.neighbors import LONGEST_GAP
from sage_langchain._passages import places_of as places_of_documents
from sage_llamaindex._neighbors import places_of as places_of_nodes

BPE = "cl100k_base"  # which LlamaIndex brings
_NOTICE = "Dogs must be kept on a lead."
_PARAGRAPH = (
    "Berths are let by the week. The fee is paid at the office before mooring, in coins or by card.  "
)
MADE = [
    f"{_NOTICE}\n\n" * 14 + "The end.",
    "Mind the step. " * 60,
    "\n\n\n".join(f"{_PARAGRAPH}Note {i}.  {_PARAGRAPH}" for i in range(12)),
    "\r\n\r\n".join(f"{_PARAGRAPH * 2}\r\nIt was so in {i}." for i in range(12)),
    "".join(
        f"第{i}章。渡船は七時に出発します。雨の日は休みです。料金は窓口で払います。\n\n" for i in range(40)
    ),
    "\n\n".join(f"{_PARAGRAPH * 3}\n\n{_NOTICE}\n\n{_PARAGRAPH}" for _ in range(4)),
]


def texts() -> list[str]:
    """The pages of the documentation, and six texts that repeat themselves."""
    pages = sorted(Path(__file__).parents[2].joinpath("docs").glob("*.md"))
    return [*(page.read_text("utf-8") for page in pages), *MADE]


class Piece(NamedTuple):
    """A node or document, its text, the text that its offsets may count in, and whether that is the whole."""

    item: Any
    text: str
    whole: str


def _nodes(*parsers: Any, replaced: bool = False) -> list[Piece]:
    documents = [LlamaDocument(text=text) for text in texts()]
    whole = {document.doc_id: document.text for document in documents}
    nodes = IngestionPipeline(transformations=list(parsers)).run(documents=documents)
    if replaced:
        found = MetadataReplacementPostProcessor("window").postprocess_nodes(
            [NodeWithScore(node=n) for n in nodes]
        )
        nodes = [n.node for n in found]
    return [Piece(n, n.get_content(MetadataMode.NONE), whole[str(n.ref_doc_id)]) for n in nodes]


class _Elements(MarkdownElementNodeParser):
    """Without an LLM."""

    def extract_table_summaries(self, elements: Any) -> None:
        for element in elements:
            if element.type in ("table", "table_text"):
                element.table_output = TableOutput(summary="A table.", table_id=None, columns=[])


def _documents(
    splitter: Any, cut: Callable[[str], list[Document]] = lambda text: [Document(text)]
) -> list[Piece]:
    pieces = []
    for i, text in enumerate(texts()):
        for part in cut(text):
            part.metadata["source"] = f"{i}.md"
            made = splitter.split_documents([part]) if splitter else [part]
            pieces += [Piece(d, d.page_content, part.page_content if splitter else text) for d in made]
    return pieces


def _sections(text: str) -> list[Document]:
    return MarkdownHeaderTextSplitter([("#", "Header 1"), ("##", "Header 2")]).split_text(text)


def _pages(text: str) -> list[Document]:
    return [Document(text[i : i + 1_500], metadata={"page": i // 1_500}) for i in range(0, len(text), 1_500)]


def _recursive(size: int, overlap: int) -> RecursiveCharacterTextSplitter:
    return RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap, add_start_index=True)


def _parents(text: str) -> list[Document]:
    return _recursive(2_000, 0).split_documents([Document(text)])


def _named_parents(text: str) -> list[Document]:
    """As a `ParentDocumentRetriever` names them."""
    return [Document(d.page_content, metadata={"doc_id": str(uuid4())}) for d in _parents(text)]


NODES: dict[str, Callable[[], list[Piece]]] = {
    "SentenceSplitter": lambda: _nodes(SentenceSplitter(chunk_size=200, chunk_overlap=20)),
    "SentenceSplitter()": lambda: _nodes(SentenceSplitter()),
    "TokenTextSplitter": lambda: _nodes(NodeTokenSplitter(chunk_size=64, chunk_overlap=10)),
    "MarkdownNodeParser": lambda: _nodes(MarkdownNodeParser()),
    "SentenceWindowNodeParser": lambda: _nodes(SentenceWindowNodeParser()),
    "SemanticSplitterNodeParser": lambda: _nodes(SemanticSplitterNodeParser(embed_model=MockEmbedding(8))),
    "LangchainNodeParser": lambda: _nodes(LangchainNodeParser(_recursive(500, 100))),
    "MetadataReplacementPostProcessor": lambda: _nodes(SentenceWindowNodeParser(), replaced=True),
    "two parsers": lambda: _nodes(MarkdownNodeParser(), SentenceSplitter(chunk_size=128, chunk_overlap=20)),
    "HierarchicalNodeParser": lambda: _nodes(HierarchicalNodeParser.from_defaults(chunk_sizes=[512, 128])),
    "MarkdownElementNodeParser": lambda: _nodes(_Elements(llm=MockLLM())),
}
DOCUMENTS: dict[str, Callable[[], list[Piece]]] = {
    "RecursiveCharacterTextSplitter": lambda: _documents(_recursive(500, 100)),
    "RecursiveCharacterTextSplitter(1000, 200)": lambda: _documents(_recursive(1_000, 200)),
    "MarkdownTextSplitter": lambda: _documents(
        MarkdownTextSplitter(chunk_size=500, chunk_overlap=0, add_start_index=True)
    ),
    "CharacterTextSplitter": lambda: _documents(
        CharacterTextSplitter("\n\n", chunk_size=500, chunk_overlap=100, add_start_index=True)
    ),
    "RecursiveCharacterTextSplitter.from_tiktoken_encoder": lambda: _documents(
        RecursiveCharacterTextSplitter.from_tiktoken_encoder(
            encoding_name=BPE, chunk_size=128, chunk_overlap=20, add_start_index=True
        )
    ),
    "TokenTextSplitter of LangChain": lambda: _documents(
        TokenTextSplitter(BPE, chunk_size=64, chunk_overlap=10, add_start_index=True)
    ),
    "pages, then RecursiveCharacterTextSplitter": lambda: _documents(_recursive(500, 0), _pages),
    "MarkdownHeaderTextSplitter": lambda: _documents(None, _sections),
    "ExperimentalMarkdownSyntaxTextSplitter": lambda: _documents(
        None, lambda t: ExperimentalMarkdownSyntaxTextSplitter().split_text(t)
    ),
    "MarkdownHeaderTextSplitter, then RecursiveCharacterTextSplitter": lambda: _documents(
        _recursive(500, 0), _sections
    ),
    "parents, then children": lambda: _documents(_recursive(400, 0), _named_parents),
    "two splitters": lambda: _documents(_recursive(400, 0), _parents),
    "without add_start_index": lambda: _documents(RecursiveCharacterTextSplitter(chunk_size=500)),
}


class Shares(NamedTuple):
    """Of a splitter: pieces; of these with offsets that give their text; believed; of the believed false, or said
    to stand beside one of another text; false where a search gives eight of the pieces, of as many believed."""

    pieces: int
    exact: int
    believed: int
    false: int
    drawn_false: int
    drawn: int


def shares(pieces: Sequence[Piece], draws: int = 200) -> Shares:
    """Which offsets are believed, of all pieces and of a few."""
    nodes = hasattr(pieces[0].item, "node_id")
    places_of: Any = places_of_nodes if nodes else places_of_documents

    def judged(some: Sequence[Piece]) -> tuple[int, int]:
        places: list[Place | None] = places_of([piece.item for piece in some])
        told = [(piece, place) for piece, place in zip(some, places, strict=True) if place is not None]
        false = sum(piece.whole[place.start : place.end] != piece.text for piece, place in told)
        for (a, before), (b, after) in combinations(told, 2):
            near = max(before.start, after.start) <= min(before.end, after.end) + LONGEST_GAP
            false += before.document == after.document and near and a.whole != b.whole
        return len(told), false

    def start(item: Any) -> Any:
        return item.start_char_idx if nodes else item.metadata.get("start_index")

    exact = sum((s := start(p.item)) is not None and s >= 0 and p.whole.startswith(p.text, s) for p in pieces)
    believed, false = judged(pieces)
    rng = random.Random(0)
    drawn = [judged(rng.sample(list(pieces), min(8, len(pieces)))) for _ in range(draws)]
    return Shares(len(pieces), exact, believed, false, sum(f for _, f in drawn), sum(b for b, _ in drawn))
