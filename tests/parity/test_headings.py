"""Titles, headings and neighbors mean the same in both frameworks as in the core."""

import pytest
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.documents import Document as LCDocument
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import MarkdownHeaderTextSplitter
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import Document as LIDocument
from llama_index.core.schema import MetadataMode, TextNode

from sage_core.segmentation import Segmenter
from sage_core.selection import SelectionConfig
from sage_core.text.header import MAX_HEADER_TOKENS
from sage_core.text.outline import Outline, join_path, split_path
from sage_core.text.tokens import get_counter
from sage_langchain import SageCompressor, SageRetriever, SageTextSplitter
from sage_llamaindex import SageNodeParser
from tests.fakes.models import HashModel

GUIDE = (
    "# Island\n\nIt is small and grey.\n\n## Ferry\n\nIt leaves at seven from the north pier. "
    + "Dogs travel free on the upper deck of the boat. " * 8
    + "\n\n### Winter\n\nIt does not leave. The sea is rough.\n\n## Mill\n\nThe mill spins wool all year."
)
FRONT = "---\ntitle: Harbour rules\n---\n\n## Dues\n\nAll boats pay. " + "Small ones pay less. " * 20
PLAIN = "The kiln is lit on Monday. " * 12
DEEP = "# " + "word " * 30 + "\n\nText.\n\n## " + "deep " * 30 + "\n\n" + "The tide turns at noon. " * 20
COUNTER = get_counter("bert")


def parsed(text: str, size: int | None = None, **metadata: object) -> list[TextNode]:
    parser = SageNodeParser(segmenter=Segmenter(HashModel(), max_tokens=40), chunk_size=size)
    return parser.get_nodes_from_documents([LIDocument(text=text, metadata=metadata)])


def split(text: str, **settings: object) -> list[LCDocument]:
    splitter = SageTextSplitter(
        segmenter=Segmenter(HashModel(), max_tokens=40), add_start_index=True, **settings
    )
    return splitter.create_documents([text])


@pytest.mark.parametrize("text", [GUIDE, FRONT, PLAIN, DEEP, ""])
def test_both_write_the_same_title_and_path(text: str) -> None:
    nodes, chunks = parsed(text), split(text)
    assert [n.text for n in nodes] == [c.page_content for c in chunks]
    assert [n.metadata for n in nodes] == [
        {k: v for k, v in c.metadata.items() if k != "start_index"} for c in chunks
    ]


def test_what_is_written() -> None:
    nodes = parsed(GUIDE)
    paths = {n.text.split("\n")[0][:14]: n.metadata.get("header_path") for n in nodes}
    # The title, which is the first heading, is not repeated in the path.
    assert paths["# Island"] is paths["## Ferry"] is paths["## Mill"] is None
    assert paths["### Winter"] == "/Ferry/"
    assert next(n.metadata["header_path"] for n in nodes if n.text.startswith("Dogs")) == "/Ferry/"
    assert {n.metadata["title"] for n in nodes} == {"Island"}
    named = [n.metadata.get("header_path") for n in parsed(GUIDE, title="Guide")]
    assert named[0] is None and set(named[1:]) == {"/Island/", "/Island/Ferry/"}
    assert [n.metadata.get("header_path") for n in parsed(GUIDE, title="island")] == [
        n.metadata.get("header_path") for n in nodes
    ]
    assert all(n.metadata == {} for n in parsed(PLAIN))
    assert {n.metadata["title"] for n in parsed(FRONT)} == {"Harbour rules"}


def test_headings_are_embedded_once_and_not_shown() -> None:
    for node in parsed(FRONT):
        assert node.get_content(MetadataMode.LLM) == node.text
        read = node.get_content(MetadataMode.EMBED)
        assert read.count("Harbour rules") == (1 if "title:" not in node.text else 2)
    for node in parsed(GUIDE):
        assert node.get_content(MetadataMode.EMBED).count("Island") == 1
    assert all(n.metadata == {} for n in SageNodeParser(include_metadata=False)([LIDocument(text=GUIDE)]))


def test_a_title_that_the_document_brings_stays_as_it_is() -> None:
    for node in parsed(GUIDE, title="Guide"):
        assert node.metadata["title"] == "Guide"
        assert node.get_content(MetadataMode.LLM) == f"title: Guide\n\n{node.text}"
    [chunk] = SageTextSplitter().create_documents(["# Island\n\nSmall."], [{"title": "Guide"}])
    assert chunk.metadata == {"title": "Guide"}


@pytest.mark.parametrize("size", [24, 40, 60, 200])
@pytest.mark.parametrize("text", [GUIDE, FRONT, DEEP])
def test_text_and_headings_stay_within_chunk_size(text: str, size: int) -> None:
    for template in (None, "[[{metadata_str}]] ***** {content} *****"):
        document = LIDocument(text=text)
        if template:
            document.text_template = template
        parser = SageNodeParser(model="default", chunk_size=size, tokenizer="bert")
        nodes = parser.get_nodes_from_documents([document])
        assert nodes
        for node in nodes:
            assert COUNTER.count(node.get_content(MetadataMode.EMBED)) <= size
            assert text[node.start_char_idx : node.end_char_idx] == node.text
            assert COUNTER.count(node.metadata.get("header_path", "")) <= 2 * MAX_HEADER_TOKENS
    splitter = SageTextSplitter(
        size, length_function=COUNTER.count, add_start_index=True, prepend_header=True
    )
    for chunk in splitter.create_documents([text]):
        assert COUNTER.count(chunk.page_content) <= size


def test_ids_are_the_same_with_and_without_metadata() -> None:
    ids = []
    for include in (True, False):
        parser = SageNodeParser(id_func=lambda i, doc: f"{doc.node_id}-{i}", include_metadata=include)
        ids.append([n.node_id for n in parser([LIDocument(id_="d", text=GUIDE)])])
    assert ids[0] == ids[1]


def test_the_paths_of_markdown_node_parser_are_kept_and_used() -> None:
    for separator in ("/", " > "):
        sections = MarkdownNodeParser(header_path_separator=separator)([LIDocument(text=GUIDE)])
        nodes = SageNodeParser(segmenter=Segmenter(HashModel(), max_tokens=40))(sections)
        first = {n.text.split("\n")[0]: n for n in sections}
        for node in nodes:
            assert "title" not in node.metadata and "header_path" in node.excluded_llm_metadata_keys
            line = node.text.split("\n")[0]
            expected = first[line].metadata["header_path"] if line in first else None
            if expected is not None:
                assert node.metadata["header_path"] == expected
        inner = [n for n in nodes if n.text.startswith("Dogs")]
        assert inner and {n.metadata["header_path"] for n in inner} == {
            join_path(["Island", "Ferry"], separator)
        }


def test_the_levels_of_markdown_header_splitter_are_used() -> None:
    for strip in (True, False):
        sections = MarkdownHeaderTextSplitter(
            [("#", "Header 1"), ("##", "Header 2")], strip_headers=strip
        ).split_text(GUIDE)
        chunks = SageTextSplitter().split_documents(sections)
        mill = next(c for c in chunks if "spins wool" in c.page_content)
        assert mill.metadata["header_path"] == ("/Island/Mill/" if strip else "/Island/")
        assert "title" not in mill.metadata


def test_pages_and_code_have_no_title() -> None:
    page = (
        "3. Results\n\nThe mill spins wool all year, and the ferry leaves at seven in the morning, every day."
    )
    assert Outline(page, {"page_label": "3"}).title is Outline(page, {"page": 3}).title is None
    code = "# Import all\nimport os\n\n# Run\nos.getcwd()\n"
    assert not Outline(code, {"file_name": "run.py"}) and not Outline(code, {"source": "/a/run.sh"})


def test_paths_are_read_back() -> None:
    for separator in ("/", " > ", "|"):
        assert split_path(join_path(["A b", "C"], separator)) == (separator, ("A b", "C"))
        whole = (f"In{separator}out", "C", separator + "D", "C:\\", "Setup", f"a\\{separator}b", "d\\e")
        assert split_path(join_path(whole, separator)) == (separator, whole)
    assert split_path("/") == ("/", ()) and split_path("Alone") == ("/", ("Alone",))


class Noted(BaseDocumentCompressor):
    """Somebody else's compressor, which notes what it reads."""

    def compress_documents(self, documents, query, callbacks=None):
        SEEN.extend(d.page_content for d in documents)
        return [d.model_copy(update={"metadata": {**d.metadata, "relevance_score": 0.5}}) for d in documents]


class Length:
    """A reranker that notes what it reads."""

    name, scale = "length", "unbounded"

    def score(self, query, texts):
        SEEN.extend(texts)
        return [float(len(t)) for t in texts]


SEEN: list[str] = []


@pytest.mark.parametrize(
    "compressor", [SageCompressor(reranker=Length(), selection=SelectionConfig(min_k=99)), Noted()]
)
async def test_langchain_puts_the_header_on_and_takes_it_off(compressor: BaseDocumentCompressor) -> None:
    chunks = split(GUIDE, prepend_header=True)
    below = [c for c in chunks if "header" in c.metadata]
    assert {c.metadata["header"] for c in below} == {"Island", "Island > Ferry"}
    assert all(c.page_content.startswith(c.metadata["header"] + "\n") for c in below)
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents(chunks)
    retriever = SageRetriever.from_vectorstore(store, base_compressor=compressor)
    for found in (retriever.invoke("When?"), await retriever.ainvoke("When?")):
        assert len(found) == len({c.page_content for c in split(GUIDE)})
        for document in found:
            start = document.metadata["start_index"]
            assert GUIDE[start : start + len(document.page_content)] == document.page_content
            assert "header" not in document.metadata
    SEEN.clear()
    again = compressor.compress_documents(chunks, "When?")
    assert sorted(SEEN) == sorted(c.page_content for c in chunks)
    assert [c.page_content for c in chunks] == [c.page_content for c in split(GUIDE, prepend_header=True)]
    if isinstance(compressor, SageCompressor):
        assert {d.page_content for d in again} == {c.page_content for c in split(GUIDE)}
        # Headings in the metadata alone are read as well.
        SEEN.clear()
        compressor.compress_documents(split(GUIDE), "When?")
        assert sorted(SEEN) == sorted(c.page_content for c in chunks)


def test_a_header_that_the_text_does_not_begin_with_takes_nothing_off() -> None:
    kept = SageCompressor(reranker=Length()).compress_documents(
        [LCDocument("Island life", metadata={"header": "Island"})], "When?"
    )
    assert kept[0].page_content == "Island life" and kept[0].metadata["header"] == "Island"
