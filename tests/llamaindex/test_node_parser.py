"""Chunks as LlamaIndex nodes: offsets, links, metadata, kinds of node, limits, async, events."""

import asyncio
import logging
import pickle
import threading
from typing import Any

import llama_index.core
import pytest
from llama_index.core import Document, Settings
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.node_parser import (
    HTMLNodeParser,
    MarkdownNodeParser,
    SentenceSplitter,
)
from llama_index.core.schema import (
    BaseNode,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    TextNode,
)
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.span_handlers import SimpleSpanHandler

from sage_core.segmentation import Segmenter
from sage_core.segmentation.limits import chunk_sizes
from sage_core.text.tokens import get_counter
from sage_core.text.wordpiece import TOKENIZER_FILE
from sage_llamaindex import SageNodeParser
from tests.fakes.llamaindex import TOPICS, OverlapModel, story

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def assert_exact(nodes: list[BaseNode], text: str) -> None:
    """Every chunk is the slice of ``text`` it says; together they hold all that is not white space."""
    cursor = 0
    for node in nodes:
        assert text[node.start_char_idx : node.end_char_idx] == node.text
        assert node.start_char_idx >= cursor and not text[cursor : node.start_char_idx].strip()
        cursor = node.end_char_idx
    assert not text[cursor:].strip()


def assert_linked(nodes: list[BaseNode]) -> None:
    """Previous and next, and nothing but them, both ways, with the neighbors' final metadata and hash."""
    for before, node, after in zip([None, *nodes], nodes, [*nodes[1:], None], strict=False):
        for neighbor, info in ((before, node.prev_node), (after, node.next_node)):
            if neighbor is None or neighbor.ref_doc_id != node.ref_doc_id:
                assert info is None
            else:
                expected = (neighbor.node_id, neighbor.hash, neighbor.metadata)
                assert (info.node_id, info.hash, info.metadata) == expected


def test_chunks_follow_the_topics(parser: SageNodeParser) -> None:
    nodes = parser.get_nodes_from_documents([Document(text=story())])
    assert [n.get_content() for n in nodes] == TOPICS
    assert_exact(nodes, story())
    assert_linked(nodes)


def words(chunk_size: int) -> SageNodeParser:
    """A parser that counts words."""
    segmenter = Segmenter(counter="words", **chunk_sizes(chunk_size))
    return SageNodeParser(chunk_size=chunk_size, segmenter=segmenter)


def test_settings_can_be_changed_and_one_that_is_refused_leaves_the_parser_as_it_was() -> None:
    parser = SageNodeParser(chunk_size=90)
    with pytest.raises(ValueError, match="chunk_size"):
        parser.chunk_size = -1
    assert parser.chunk_size == 90
    few = parser.split_text(story())
    for changed in (parser.model_copy(update={"chunk_size": 20}), parser):
        changed.chunk_size = 20
        assert len(changed.split_text(story())) > len(few)


def test_metadata_without_room_is_an_error_and_little_room_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    document = Document(text=story(), metadata={"k": "word " * 60})
    with pytest.raises(ValueError, match="chunk_size"):
        words(50).get_nodes_from_documents([document])
    with caplog.at_level(logging.WARNING):
        nodes = SageNodeParser(chunk_size=80, segmenter=Segmenter(OverlapModel(), counter="words"))(
            [document]
        )
    assert "metadata leaves 19 of 80 tokens" in caplog.text
    assert max(len(n.get_content().split()) for n in nodes) <= 19


def test_metadata_takes_room_only_where_it_is_kept_and_a_size_is_asked_for(segmenter: Segmenter) -> None:
    document = Document(text=story(), metadata={"k": "word " * 600})
    nodes = SageNodeParser(segmenter=segmenter, include_metadata=False)([document])
    assert [n.get_content() for n in nodes] == TOPICS
    assert all(n.metadata == {} for n in nodes)
    assert SageNodeParser()([document]), "as long as stock splitters take"


def test_chunk_size_and_target_give_the_mean() -> None:
    text = " ".join(f"Sentence number {n} of the story says something new." for n in range(600))
    count = get_counter("bert").count
    for arguments, mean in (
        ({"chunk_size": 150}, 100), ({"target_tokens": 60}, 60), ({"chunk_size": 150, "target_tokens": 60}, 60),
    ):  # fmt: skip
        nodes = SageNodeParser(**arguments)([Document(text=text)])
        sizes = [count(n.get_content()) for n in nodes]
        assert sum(sizes) / len(sizes) == pytest.approx(mean, rel=0.1)


@pytest.mark.parametrize(
    "kind", ["function", "tiktoken", pytest.param("transformers", marks=pytest.mark.slow)]
)
def test_the_tokenizer_that_the_user_chose_counts(
    kind: str, monkeypatch: pytest.MonkeyPatch, tiktoken_cache: None
) -> None:
    monkeypatch.setattr("llama_index.core.global_tokenizer", None)
    if kind == "function":
        Settings.tokenizer = str.split
    elif kind == "tiktoken":
        tiktoken = pytest.importorskip("tiktoken")
        Settings.tokenizer = tiktoken.get_encoding("cl100k_base").encode
    else:
        transformers = pytest.importorskip("transformers")
        Settings.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER_FILE))
    parser = SageNodeParser(chunk_size=12)
    expected = {"function": 2, "tiktoken": 5, "transformers": 7}[kind]
    assert parser._active.counter.count("lighthousekeepers unbelievably") == expected
    nodes = parser([Document(text=story())])
    assert max(parser._active.counter.count(n.get_content()) for n in nodes) <= 12
    saved = pickle.dumps(parser)
    llama_index.core.global_tokenizer = None  # a worker process has no Settings
    again = pickle.loads(saved)
    assert again._active.counter.count("lighthousekeepers unbelievably") == expected


def test_a_tokenizer_that_cannot_be_pickled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_index.core.global_tokenizer", None)
    Settings.tokenizer = lambda text: text.split()
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(SageNodeParser())


def test_the_tokenizer_that_llama_index_chose_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_index.core.global_tokenizer", None)
    SentenceSplitter()
    assert SageNodeParser()._active.counter == get_counter("bert")


def test_settings_chunk_size_reaches_the_parser(segmenter: Segmenter) -> None:
    Settings.node_parser = SageNodeParser(segmenter=segmenter)
    Settings.chunk_size = 20
    assert Settings.chunk_size == 20
    nodes = Settings.node_parser.get_nodes_from_documents([Document(text=story())])
    assert max(get_counter("bert").count(n.get_content()) for n in nodes) <= 20
    assert Settings.chunk_overlap == 0
    with pytest.warns(UserWarning, match="chunk_overlap"):
        Settings.chunk_overlap = 20
    assert Settings.chunk_overlap == 0
    with pytest.raises(ValueError):
        Settings.chunk_size = 0


def test_documents_are_judged_together(parser: SageNodeParser, segmenter: Segmenter) -> None:
    parser.get_nodes_from_documents([Document(text=story(), metadata={"n": i}) for i in range(9)])
    assert isinstance(segmenter.model, OverlapModel)
    assert segmenter.model.calls == [9]


class TestChained:
    def test_offsets_and_links_behind_a_markdown_parser(self, parser: SageNodeParser) -> None:
        text = f"# One\n\n{TOPICS[0]}\n\n# Two\n\n{TOPICS[1]} {TOPICS[2]}\n\n# Three\n\n{TOPICS[0]}\n"
        document = Document(text=text, metadata={"file": "a.md"})
        sections = MarkdownNodeParser().get_nodes_from_documents([document])
        assert len(sections) == 3
        nodes = parser(sections)
        assert len(nodes) == 4
        assert_exact(nodes, text)
        assert_linked(nodes)
        assert all(n.ref_doc_id == document.id_ for n in nodes)
        assert all(n.metadata["file"] == "a.md" for n in nodes)
        assert nodes[0].metadata == sections[0].metadata

    def test_behind_itself_changes_nothing(self, parser: SageNodeParser) -> None:
        once = parser([Document(text=story())])
        twice = parser(once)
        assert [(n.text, n.start_char_idx) for n in once] == [(n.text, n.start_char_idx) for n in twice]
        assert_linked(twice)

    def test_text_that_a_parser_rewrote_has_no_offsets(self, parser: SageNodeParser) -> None:
        pytest.importorskip("bs4")
        html = Document(text=f"<h1>Light</h1><p>{TOPICS[0]}</p><p>{TOPICS[1]}</p>")
        parts = HTMLNodeParser(tags=["p"]).get_nodes_from_documents([html])
        for part in parts:
            part.start_char_idx = part.end_char_idx = None
        nodes = parser(parts)
        assert nodes and all(n.start_char_idx is None for n in nodes)


PICTURE = MediaResource(path="a.png")
TARGET = TextNode(text="behind it")
TWO = story((0, 1))


class TestKindsOfNode:
    @pytest.mark.parametrize(
        ("node", "kind", "fields"),
        [
            (Document(text=TWO), TextNode, {}),
            (TextNode(text=TWO), TextNode, {}),
            (Node(text_resource=MediaResource(text=TWO)), TextNode, {}),
            (
                Node(text_resource=MediaResource(text=TWO), image_resource=PICTURE),
                Node,
                {"image_resource": PICTURE},
            ),
            (
                IndexNode(text=TWO, index_id="there", obj=TARGET),
                IndexNode,
                {"index_id": "there", "obj": TARGET},
            ),
            (ImageNode(text=TWO, image=PNG), ImageNode, {"image": PNG}),
            (ImageDocument(text=TWO, image=PNG.encode()), ImageNode, {"image": PNG}),
        ],
    )
    def test_chunks_keep_what_belongs_to_their_kind(
        self, parser: SageNodeParser, node: BaseNode, kind: type, fields: dict[str, Any]
    ) -> None:
        chunks = parser([node])
        assert [c.get_content() for c in chunks] == TOPICS[:2]
        for chunk in chunks:
            assert type(chunk) is kind and {name: getattr(chunk, name) for name in fields} == fields
            assert chunk.source_node.node_id == node.node_id

    def test_an_image_without_words_is_kept(self, parser: SageNodeParser) -> None:
        (chunk,) = parser([ImageNode(text="", image=PNG)])
        assert isinstance(chunk, ImageNode) and chunk.image == PNG

    def test_another_kind_is_refused(self, parser: SageNodeParser) -> None:
        methods = dict.fromkeys(BaseNode.__abstractmethods__, lambda *_: "text")
        with pytest.raises(ValueError, match="Odd"):
            parser([type("Odd", (BaseNode,), {"__module__": __name__, **methods})()])


def test_nothing_is_added_to_metadata_and_nothing_is_shared(parser: SageNodeParser) -> None:
    document = Document(
        text=story(),
        metadata={"tags": ["a"], "n": 1},
        excluded_embed_metadata_keys=["n"],
        excluded_llm_metadata_keys=["tags"],
        metadata_separator=" | ",
        metadata_template="{key}={value}",
        text_template="[{metadata_str}] {content}",
        embedding=[1.0, 2.0],
    )
    nodes = parser([document])
    for node in nodes:
        assert node.metadata == {"tags": ["a"], "n": 1} and node.embedding is None
        assert node.get_content(metadata_mode=MetadataMode.EMBED) == f"[tags=['a']] {node.get_content()}"
        assert node.get_content(metadata_mode=MetadataMode.LLM) == f"[n=1] {node.get_content()}"
    nodes[0].metadata["tags"].append("b")
    for other in (document, nodes[1], nodes[1].source_node):
        assert other.metadata["tags"] == ["a"]


def test_documents_of_one_id_keep_their_own_metadata(parser: SageNodeParser) -> None:
    pair = [Document(id_="same", text=TOPICS[i], metadata={"n": i}) for i in (0, 1)]
    assert [n.metadata for n in parser(pair)] == [{"n": 0}, {"n": 1}]


def test_ids_come_from_id_func_and_repeat(segmenter: Segmenter) -> None:
    parser = SageNodeParser(segmenter=segmenter, id_func=lambda i, doc: f"{doc.node_id}/{i}")
    document = Document(id_="d", text=story())
    assert [n.node_id for n in parser([document])] == [f"d/{i}" for i in range(5)]
    assert parser([document]) == parser([document])


@pytest.mark.parametrize("make", [SageNodeParser, SageNodeParser.from_defaults])
def test_unknown_arguments_are_refused(make: Any) -> None:
    for wrong, named in (
        ({"chunksize": 100}, "chunksize"),
        ({"embed_model": None}, "embed_model"),
        ({"target_tokens": -1}, "target_tokens"),
        ({"target_tokens": 50, "segmenter": Segmenter(OverlapModel())}, "target_tokens"),
    ):
        with pytest.raises((ValueError, TypeError), match=named):
            make(**wrong)
    with pytest.warns(UserWarning, match="chunk_overlap"):
        assert make(chunk_overlap=20).chunk_overlap == 0


def test_from_defaults_takes_every_argument(segmenter: Segmenter) -> None:
    settings = {"include_metadata": False, "include_prev_next_rel": False, "chunk_size": 99}
    manager = CallbackManager([])
    parser = SageNodeParser.from_defaults(
        callback_manager=manager, id_func=lambda i, doc: f"x{i}", segmenter=segmenter, **settings
    )
    assert parser.callback_manager is manager
    assert {name: getattr(parser, name) for name in settings} == settings
    nodes = parser([Document(text=story())])
    assert nodes[0].node_id == "x0"
    assert all(n.prev_node is None and n.next_node is None for n in nodes)
    assert SageNodeParser.from_defaults().chunk_size == SageNodeParser().chunk_size


def test_split_text_in_all_its_forms(parser: SageNodeParser) -> None:
    assert parser.split_text(story()) == TOPICS
    assert parser.split_texts([story((0, 1)), "", story((2,))]) == TOPICS[:3]
    assert parser.split_text_metadata_aware(story(), "a: b") == TOPICS
    assert parser.split_texts_metadata_aware([story((0,)), story((1,))], ["", "k: v"]) == TOPICS[:2]
    small = SageNodeParser(chunk_size=30, segmenter=Segmenter(OverlapModel(), counter="words"))
    assert max(len(t.split()) for t in small.split_text_metadata_aware(story(), "word " * 20)) <= 10


async def test_async_gives_the_same_and_lets_the_loop_run(segmenter: Segmenter) -> None:
    loop_ran = threading.Event()

    class Waiting(OverlapModel):
        def probabilities(self, documents: Any) -> Any:
            assert loop_ran.wait(30)
            return super().probabilities(documents)

    parser = SageNodeParser(segmenter=Segmenter(Waiting(), min_tokens=0))
    asyncio.get_running_loop().call_later(0.01, loop_ran.set)
    nodes = await parser.aget_nodes_from_documents([Document(text=story())])
    assert [n.get_content() for n in nodes] == TOPICS
    assert_linked(nodes)


async def test_events_and_spans(segmenter: Segmenter) -> None:
    debug, spans, root = LlamaDebugHandler(print_trace_on_end=False), SimpleSpanHandler(), get_dispatcher()
    parser = SageNodeParser(segmenter=segmenter, callback_manager=CallbackManager([debug]))
    root.add_span_handler(spans)
    try:
        parser.get_nodes_from_documents([Document(text=story())])
        await parser.aget_nodes_from_documents([Document(text=story())])
    finally:
        root.span_handlers.remove(spans)
    chunking = debug.get_event_pairs(CBEventType.CHUNKING)
    assert len(debug.get_event_pairs(CBEventType.NODE_PARSING)) == len(chunking) == 2
    start, end = chunking[0]
    assert (start.payload, end.payload) == ({EventPayload.CHUNKS: [story()]}, {EventPayload.CHUNKS: TOPICS})
    names = [span.id_ for span in spans.completed_spans]
    assert any("_aparse_nodes" in name for name in names)
    assert any("._parse_nodes" in name for name in names)
