"""Documents cut by parser and splitter: the core's chunks, and what their titles and headings say beside them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document as LCDocument
from langchain_text_splitters import MarkdownHeaderTextSplitter
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import Document as LIDocument
from llama_index.core.schema import MetadataMode, TextNode

from sage_core.segmentation import Segmenter
from sage_core.segmentation.limits import chunk_sizes
from sage_core.text.header import MAX_HEADER_TOKENS
from sage_core.text.outline import Outline, join_path, split_path
from sage_core.text.tokens import get_counter
from sage_langchain import SageTextSplitter
from sage_llamaindex import SageNodeParser
from tests.core.text.test_sentences import MESSY
from tests.fakes.models import HashModel

GUIDE = (
    "# Island\n\nIt is small and grey.\n\n## Ferry\n\nIt leaves at seven from the north pier. "
    + "Dogs travel free on the upper deck of the boat. " * 8
    + "\n\n### Winter\n\nIt does not leave. The sea is rough.\n\n## Mill\n\nThe mill spins wool all year."
)
FRONT = "---\ntitle: Harbour rules\n---\n\n## Dues\n\nAll boats pay. " + "Small ones pay less. " * 20
PLAIN = "The kiln is lit on Monday. " * 12
DEEP = "# " + "word " * 30 + "\n\nText.\n\n## " + "deep " * 30 + "\n\n" + "The tide turns at noon. " * 20
ODD = ["", "  \r\n ", "同じ文。同じ文。違う文！" * 9, "# Bread\r\n\r\nYeast needs warmth. 🥖 It rises twice."]
COUNTER = get_counter("bert")


def parsed(text: str, segmenter: Any = None, **metadata: object) -> list[TextNode]:
    parser = SageNodeParser(segmenter=segmenter or Segmenter(HashModel(), max_tokens=40))
    return parser.get_nodes_from_documents([LIDocument(text=text, metadata=metadata)])  # type: ignore[return-value]


def split(text: str, segmenter: Any = None, **settings: Any) -> list[LCDocument]:
    segmenter = segmenter or Segmenter(HashModel(), max_tokens=40)
    return SageTextSplitter(segmenter=segmenter, add_start_index=True, **settings).create_documents([text])


def cut_alike(text: str, segmenter: Segmenter) -> None:
    """The core's spans, and the same metadata in both."""
    spans = [(s.start, s.end) for s in segmenter.segment(text)]
    nodes, chunks = parsed(text, segmenter), split(text, segmenter)
    assert [(n.start_char_idx, n.end_char_idx, n.text) for n in nodes] == [
        (a, b, text[a:b]) for a, b in spans
    ]
    assert [(c.metadata.pop("start_index"), c.page_content) for c in chunks] == [
        (a, text[a:b]) for a, b in spans
    ]
    assert [n.metadata for n in nodes] == [c.metadata for c in chunks]


@pytest.mark.parametrize("text", [GUIDE, FRONT, PLAIN, DEEP, *ODD], ids=range(8))
def test_both_cut_and_name_as_the_core(text: str) -> None:
    cut_alike(text, Segmenter(HashModel(), max_tokens=40))
    cut_alike(text, Segmenter(max_tokens=60))


@given(MESSY, st.sampled_from(["bert", "words"]), st.integers(1, 40))
def test_any_text_is_cut_alike(text: str, counter: Any, limit: int) -> None:
    cut_alike(text, Segmenter(HashModel(), max_tokens=limit, min_tokens=0, counter=counter))


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
    same = [n.metadata.get("header_path") for n in parsed(GUIDE, title="island")]
    assert same == [n.metadata.get("header_path") for n in nodes]
    assert all(n.metadata == {} for n in parsed(PLAIN))
    assert {n.metadata["title"] for n in parsed(FRONT)} == {"Harbour rules"}


def test_headings_are_embedded_once_and_not_shown() -> None:
    for node in parsed(FRONT):
        assert node.get_content(MetadataMode.LLM) == node.text
        times = 1 if "title:" not in node.text else 2
        assert node.get_content(MetadataMode.EMBED).count("Harbour rules") == times
    assert {n.get_content(MetadataMode.EMBED).count("Island") for n in parsed(GUIDE)} == {1}
    assert all(n.metadata == {} for n in SageNodeParser(include_metadata=False)([LIDocument(text=GUIDE)]))


def test_a_title_that_the_document_brings_stays_as_it_is() -> None:
    for node in parsed(GUIDE, title="Guide"):
        assert node.metadata["title"] == "Guide"
        assert node.get_content(MetadataMode.LLM) == f"title: Guide\n\n{node.text}"
    [chunk] = SageTextSplitter().create_documents(["# Island\n\nSmall."], [{"title": "Guide"}])
    assert chunk.metadata == {"title": "Guide"}


@pytest.mark.parametrize("counter", ["bert", "words"])
@pytest.mark.parametrize("size", [24, 60, 200])
@pytest.mark.parametrize("text", [GUIDE, FRONT, DEEP])
def test_text_and_metadata_stay_within_chunk_size(text: str, size: int, counter: Any) -> None:
    count, segmenter = get_counter(counter).count, Segmenter(counter=counter, **chunk_sizes(size))
    for template in (None, "[[{metadata_str}]] ***** {content} *****"):
        document = LIDocument(
            text=text, metadata={"year": 1987, "by": "me"}, excluded_llm_metadata_keys=["by"]
        )
        if template:
            document.text_template = template
        nodes = SageNodeParser(chunk_size=size, segmenter=segmenter).get_nodes_from_documents([document])
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            assert nodes and max(count(n.get_content(mode)) for n in nodes) <= size
        assert max(COUNTER.count(n.metadata.get("header_path", "")) for n in nodes) <= 2 * MAX_HEADER_TOKENS
    splitter = SageTextSplitter(size, length_function=count)
    assert max(count(c.page_content) for c in splitter.create_documents([text])) <= size


def test_the_paths_of_markdown_node_parser_are_kept_and_used() -> None:
    for separator in ("/", " > "):
        sections = MarkdownNodeParser(header_path_separator=separator)([LIDocument(text=GUIDE)])
        nodes = SageNodeParser(segmenter=Segmenter(HashModel(), max_tokens=40))(sections)
        first = {n.text.split("\n")[0]: n.metadata["header_path"] for n in sections}  # type: ignore[attr-defined]
        for node in nodes:
            assert "title" not in node.metadata and "header_path" in node.excluded_llm_metadata_keys
            line = node.text.split("\n")[0]
            assert node.metadata["header_path"] == first.get(line, node.metadata["header_path"])
        inner = {n.metadata["header_path"] for n in nodes if n.text.startswith("Dogs")}
        assert inner == {join_path(["Island", "Ferry"], separator)}


@pytest.mark.parametrize("strip", [True, False])
def test_the_levels_of_markdown_header_splitter_are_used(strip: bool) -> None:
    headers = [("#", "Header 1"), ("##", "Header 2")]
    sections = MarkdownHeaderTextSplitter(headers, strip_headers=strip).split_text(GUIDE)
    mill = next(c for c in SageTextSplitter().split_documents(sections) if "spins wool" in c.page_content)
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
