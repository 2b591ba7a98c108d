"""Chunks as LlamaIndex nodes: offsets, links, metadata, kinds of node, limits, async, events."""

import asyncio
import logging
import pickle
import threading
from typing import Any

import pytest
from llama_index.core import Document, Settings
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    HTMLNodeParser,
    MarkdownNodeParser,
    SentenceSplitter,
    TokenTextSplitter,
)
from llama_index.core.node_parser.interface import NodeParser
from llama_index.core.schema import (
    BaseNode,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    TextNode,
)
from llama_index.core.utils import get_tokenizer

from sage_core.segmentation import Segmenter
from sage_core.text.tokens import get_counter
from sage_core.text.wordpiece import TOKENIZER_FILE
from sage_llamaindex import SageNodeParser
from tests.fakes.llamaindex import TOPICS, OverlapModel, Recorder, story

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def assert_exact(nodes: list[BaseNode], text: str) -> None:
    """Every chunk is the slice of ``text`` it says; together they hold all that is not white space."""
    cursor = 0
    for node in nodes:
        assert isinstance(node, TextNode)
        assert node.start_char_idx is not None
        assert node.end_char_idx is not None
        assert text[node.start_char_idx : node.end_char_idx] == node.text
        assert node.start_char_idx >= cursor
        assert not text[cursor : node.start_char_idx].strip()
        cursor = node.end_char_idx
    assert not text[cursor:].strip()


def assert_linked(nodes: list[BaseNode]) -> None:
    """Previous and next, and nothing but them, both ways, with the neighbors' final metadata and hash."""
    for i, node in enumerate(nodes):
        before = nodes[i - 1] if i else None
        after = nodes[i + 1] if i + 1 < len(nodes) else None
        for neighbor, info in ((before, node.prev_node), (after, node.next_node)):
            if neighbor is None or neighbor.ref_doc_id != node.ref_doc_id:
                assert info is None
                continue
            assert info is not None
            assert (info.node_id, info.hash, info.metadata) == (
                neighbor.node_id,
                neighbor.hash,
                neighbor.metadata,
            )


def test_chunks_follow_the_topics(parser: SageNodeParser) -> None:
    nodes = parser.get_nodes_from_documents([Document(text=story())])
    assert [n.get_content() for n in nodes] == TOPICS
    assert_exact(nodes, story())
    assert_linked(nodes)


def test_a_setting_that_is_refused_leaves_the_parser_as_it_was() -> None:
    parser = SageNodeParser(threshold=0.4)
    with pytest.raises(ValueError, match="threshold"):
        parser.threshold = 4.0
    assert parser.threshold == 0.4
    assert parser.split_text(story())


@pytest.mark.parametrize("counter", ["bert", "words", "chars", "cl100k_base"])
def test_chunk_and_metadata_together_stay_within_chunk_size(counter: str) -> None:
    get_tokenizer()  # loads cl100k_base from the cache folder that llama-index-core ships
    count = get_counter(counter)
    metadata = {"title": "On the northern coast", "tags": ["sea", "stone"], "year": 1987}
    size = count.count("\n".join(f"{k}: {v}" for k, v in metadata.items())) + (
        200 if counter == "chars" else 30
    )
    parser = SageNodeParser(
        chunk_size=size,
        segmenter=Segmenter(OverlapModel(), counter=counter, coarse_tokens=10_000, max_tokens=10_000),
    )
    document = Document(text=story() * 3, metadata=metadata, excluded_llm_metadata_keys=["tags"])
    nodes = parser.get_nodes_from_documents([document])
    lengths = [
        count.count(n.get_content(metadata_mode=mode))
        for n in nodes
        for mode in (MetadataMode.EMBED, MetadataMode.LLM)
    ]
    assert max(lengths) <= size
    assert max(lengths) > size - (80 if counter == "chars" else 20)  # the room is used
    assert_exact(nodes, document.text)


def test_metadata_without_room_is_an_error_and_little_room_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    document = Document(text=story(), metadata={"k": "word " * 60})
    with pytest.raises(ValueError, match="chunk_size"):
        SageNodeParser(chunk_size=50, tokenizer="words").get_nodes_from_documents([document])
    with caplog.at_level(logging.WARNING):
        nodes = SageNodeParser(chunk_size=80, segmenter=Segmenter(OverlapModel(), counter="words"))(
            [document]
        )
    assert "metadata leaves 19 of 80 tokens" in caplog.text
    assert max(len(n.get_content().split()) for n in nodes) <= 19


def test_metadata_left_out_of_chunks_takes_no_room(segmenter: Segmenter) -> None:
    document = Document(text=story(), metadata={"k": "word " * 600})
    nodes = SageNodeParser(segmenter=segmenter, include_metadata=False)([document])
    assert [n.get_content() for n in nodes] == TOPICS
    assert all(n.metadata == {} for n in nodes)


def test_chunk_size_and_target_give_the_mean() -> None:
    text = " ".join(f"Sentence number {n} of the story says something new." for n in range(600))
    count = get_counter("bert").count
    for arguments, mean in (
        ({"chunk_size": 150}, 100), ({"target_tokens": 60}, 60), ({"chunk_size": 150, "target_tokens": 60}, 60),
    ):  # fmt: skip
        nodes = SageNodeParser(**arguments)([Document(text=text)])
        sizes = [count(n.get_content()) for n in nodes]
        assert sum(sizes) / len(sizes) == pytest.approx(mean, rel=0.1)
    with pytest.warns(UserWarning, match="max_tokens"):
        SageNodeParser(chunk_size=100, max_tokens=200)


def test_metadata_as_long_as_stock_splitters_take_is_no_error_by_default() -> None:
    document = Document(text=story(), metadata={"k": "word " * 600})
    assert SageNodeParser()([document])


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
    parser = SageNodeParser(max_tokens=12)
    expected = {"function": 2, "tiktoken": 5, "transformers": 7}[kind]
    assert parser._active.counter.count("lighthousekeepers unbelievably") == expected
    again = pickle.loads(pickle.dumps(parser))
    assert again._active.counter.count("lighthousekeepers unbelievably") == expected
    nodes = parser([Document(text=story())])
    assert max(parser._active.counter.count(n.get_content()) for n in nodes) <= 12


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


@pytest.mark.parametrize("text", ["", " ", "\n\t\u00a0\n"])
async def test_blank_documents_give_no_nodes_and_ask_no_model(text: str) -> None:
    model = OverlapModel()
    parser = SageNodeParser(segmenter=Segmenter(model))
    assert parser([Document(text=text)]) == []
    assert await parser.acall([Document(text=text)]) == []
    assert parser.split_text(text) == []
    assert model.calls == []
    mixed = parser([Document(text=text), Document(text=TOPICS[0]), Document(text=text)])
    assert [n.get_content() for n in mixed] == [TOPICS[0]]
    assert parser([]) == []


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

    def test_behind_a_token_splitter(self, parser: SageNodeParser) -> None:
        document = Document(text=story())
        parts = TokenTextSplitter(chunk_size=60, chunk_overlap=0)([document])
        nodes = parser(parts)
        assert len(parts) > 2
        assert_exact(nodes, document.text)
        assert_linked(nodes)

    def test_behind_itself_changes_nothing(self, parser: SageNodeParser) -> None:
        document = Document(text=story())
        once = parser([document])
        twice = parser(once)
        assert [(n.text, n.start_char_idx) for n in once if isinstance(n, TextNode)] == [
            (n.text, n.start_char_idx) for n in twice if isinstance(n, TextNode)
        ]
        assert_linked(twice)

    def test_text_that_a_parser_rewrote_has_no_offsets(self, parser: SageNodeParser) -> None:
        pytest.importorskip("bs4")
        html = Document(text=f"<h1>Light</h1><p>{TOPICS[0]}</p><p>{TOPICS[1]}</p>")
        parts = HTMLNodeParser(tags=["p"]).get_nodes_from_documents([html])
        for part in parts:
            assert isinstance(part, TextNode)
            part.start_char_idx = part.end_char_idx = None
        nodes = parser(parts)
        assert nodes
        assert all(n.start_char_idx is None for n in nodes if isinstance(n, TextNode))

    @pytest.mark.slow  # SentenceSplitter loads NLTK, which takes seconds
    def test_within_a_hierarchy(self, segmenter: Segmenter) -> None:
        parsers: dict[str, NodeParser] = {
            "coarse": SentenceSplitter(chunk_size=120, chunk_overlap=0),
            "fine": SageNodeParser(segmenter=segmenter),
        }
        hierarchy = HierarchicalNodeParser.from_defaults(
            node_parser_ids=["coarse", "fine"], node_parser_map=parsers
        )
        nodes = hierarchy.get_nodes_from_documents([Document(text=story())])
        children = [n for n in nodes if NodeRelationship.PARENT in n.relationships]
        assert children
        parents = {n.node_id: n for n in nodes}
        for child in children:
            assert child.parent_node is not None
            assert child.get_content() in parents[child.parent_node.node_id].get_content()


class TestKindsOfNode:
    def test_document_and_text_node_become_text_nodes(self, parser: SageNodeParser) -> None:
        for node in (Document(text=story()), TextNode(text=story())):
            chunks = parser([node])
            assert [type(c) for c in chunks] == [TextNode] * 5
            assert_exact(chunks, story())
            assert chunks[0].source_node is not None
            assert chunks[0].source_node.node_id == node.node_id

    def test_plain_node_is_split_too(self, parser: SageNodeParser) -> None:
        chunks = parser([Node(text_resource=MediaResource(text=story()))])
        assert [type(c) for c in chunks] == [TextNode] * 5

    def test_node_with_a_picture_keeps_it(self, parser: SageNodeParser) -> None:
        picture = MediaResource(path="a.png")
        chunks = parser([Node(text_resource=MediaResource(text=story((0, 1))), image_resource=picture)])
        assert [c.get_content() for c in chunks] == [TOPICS[0], TOPICS[1]]
        for chunk in chunks:
            assert isinstance(chunk, Node)
            assert chunk.image_resource == picture

    def test_index_node_keeps_what_it_points_to(self, parser: SageNodeParser) -> None:
        target = TextNode(text="behind it")
        chunks = parser([IndexNode(text=story((0, 1)), index_id="there", obj=target)])
        assert len(chunks) == 2
        for chunk in chunks:
            assert isinstance(chunk, IndexNode)
            assert chunk.index_id == "there"
            assert chunk.obj is target

    def test_image_nodes_keep_the_image(self, parser: SageNodeParser) -> None:
        for node in (
            ImageNode(text=story((0, 1)), image=PNG),
            ImageDocument(text=story((0, 1)), image=PNG.encode()),
        ):
            chunks = parser([node])
            assert [c.get_content() for c in chunks] == [TOPICS[0], TOPICS[1]]
            for chunk in chunks:
                assert isinstance(chunk, ImageNode)
                assert chunk.image == PNG

    def test_an_image_without_words_is_kept(self, parser: SageNodeParser) -> None:
        (chunk,) = parser([ImageNode(text="", image=PNG)])
        assert isinstance(chunk, ImageNode)
        assert chunk.image == PNG

    def test_another_kind_is_refused(self, parser: SageNodeParser) -> None:
        class Odd(BaseNode):
            @classmethod
            def get_type(cls) -> str:
                return "odd"

            def get_content(self, metadata_mode: MetadataMode = MetadataMode.ALL) -> str:
                return "text"

            def get_content_blocks(self, metadata_mode: MetadataMode = MetadataMode.ALL) -> list[Any]:
                return []

            def set_content(self, value: Any) -> None:
                pass

            @property
            def hash(self) -> str:
                return ""

        with pytest.raises(ValueError, match="Odd"):
            parser([Odd()])


def test_nothing_is_added_to_metadata_and_nothing_is_shared(parser: SageNodeParser) -> None:
    document = Document(
        text=story(),
        metadata={"tags": ["a"], "n": 1},
        excluded_embed_metadata_keys=["n"],
        excluded_llm_metadata_keys=["tags"],
        metadata_separator=" | ",
        metadata_template="{key}={value}",
        text_template="[{metadata_str}] {content}",
    )
    nodes = parser([document])
    for node in nodes:
        assert node.metadata == {"tags": ["a"], "n": 1}
        assert node.get_content(metadata_mode=MetadataMode.EMBED) == f"[tags=['a']] {node.get_content()}"
        assert node.get_content(metadata_mode=MetadataMode.LLM) == f"[n=1] {node.get_content()}"
    nodes[0].metadata["tags"].append("b")
    assert document.metadata["tags"] == ["a"]
    assert nodes[1].metadata["tags"] == ["a"]
    assert nodes[1].source_node is not None
    assert nodes[1].source_node.metadata["tags"] == ["a"]


def test_chunks_do_not_inherit_an_embedding(parser: SageNodeParser) -> None:
    assert all(n.embedding is None for n in parser([Document(text=story(), embedding=[1.0, 2.0])]))


def test_documents_of_one_id_keep_their_own_metadata(parser: SageNodeParser) -> None:
    pair = [Document(id_="same", text=TOPICS[i], metadata={"n": i}) for i in (0, 1)]
    assert [n.metadata for n in parser(pair)] == [{"n": 0}, {"n": 1}]


def test_links_can_be_left_out(segmenter: Segmenter) -> None:
    nodes = SageNodeParser(segmenter=segmenter, include_prev_next_rel=False)([Document(text=story())])
    assert all(n.prev_node is None and n.next_node is None for n in nodes)


def test_ids_come_from_id_func_and_repeat(segmenter: Segmenter) -> None:
    parser = SageNodeParser(segmenter=segmenter, id_func=lambda i, doc: f"{doc.node_id}/{i}")
    document = Document(id_="d", text=story())
    assert [n.node_id for n in parser([document])] == [f"d/{i}" for i in range(5)]
    assert parser([document]) == parser([document])


def test_unknown_arguments_are_refused_with_advice() -> None:
    for make in (SageNodeParser, SageNodeParser.from_defaults):
        with pytest.raises(ValueError, match="'chunk_size'"):
            make(chunksize=100)
        with pytest.raises(ValueError, match="model"):
            make(embed_model=None)
        with pytest.raises(ValueError, match="threshold"):
            make(breakpoint_percentile_threshold=95)
        with pytest.warns(UserWarning, match="chunk_overlap"):
            assert make(chunk_overlap=20).chunk_overlap == 0
        with pytest.raises(ValueError, match="tokenizer"):
            make(tokenizer=len)
        with pytest.raises(ValueError, match="threshold"):
            make(threshold=1.5)
    with pytest.raises(ValueError, match="threshold"):
        SageNodeParser(segmenter=Segmenter(OverlapModel()), threshold=0.5)


def test_pipelines_may_pass_further_arguments_to_the_call(parser: SageNodeParser) -> None:
    assert len(parser.get_nodes_from_documents([Document(text=story())], show_progress=False, other=1)) == 5
    assert len(parser([Document(text=story())], other=1)) == 5


def test_from_defaults_takes_every_argument(segmenter: Segmenter) -> None:
    manager = CallbackManager([])
    parser = SageNodeParser.from_defaults(
        include_metadata=False,
        include_prev_next_rel=False,
        callback_manager=manager,
        id_func=lambda i, doc: f"x{i}",
        chunk_size=99,
        segmenter=segmenter,
    )
    assert parser.callback_manager is manager
    assert (parser.include_metadata, parser.include_prev_next_rel, parser.chunk_size) == (False, False, 99)
    assert parser([Document(text=TOPICS[0])])[0].node_id == "x0"
    assert SageNodeParser.from_defaults().chunk_size == SageNodeParser().chunk_size


def test_split_text_in_all_its_forms(parser: SageNodeParser) -> None:
    assert parser.split_text(story()) == TOPICS
    assert parser.split_texts([story((0, 1)), "", story((2,))]) == TOPICS[:3]
    assert parser.split_text_metadata_aware(story(), "a: b") == TOPICS
    assert parser.split_texts_metadata_aware([story((0,)), story((1,))], ["", "k: v"]) == TOPICS[:2]
    with pytest.raises(ValueError, match="same length"):
        parser.split_texts_metadata_aware(["a"], [])
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


async def test_events_and_spans(segmenter: Segmenter, recorder: Recorder) -> None:
    from llama_index_instrumentation import get_dispatcher
    from llama_index_instrumentation.span_handlers import SimpleSpanHandler

    debug = LlamaDebugHandler(print_trace_on_end=False)
    parser = SageNodeParser(segmenter=segmenter, callback_manager=CallbackManager([debug]))
    spans = SimpleSpanHandler()
    root = get_dispatcher()
    root.add_span_handler(spans)
    try:
        parser.get_nodes_from_documents([Document(text=story())])
        await parser.aget_nodes_from_documents([Document(text=story())])
    finally:
        root.span_handlers.remove(spans)
    parsing = debug.get_event_pairs(CBEventType.NODE_PARSING)
    chunking = debug.get_event_pairs(CBEventType.CHUNKING)
    assert len(parsing) == len(chunking) == 2
    assert chunking[0][0].payload == {EventPayload.CHUNKS: [story()]}
    assert chunking[0][1].payload == {EventPayload.CHUNKS: TOPICS}
    names = [span.id_ for span in spans.completed_spans]
    assert any("_aparse_nodes" in name for name in names)
    assert any("._parse_nodes" in name for name in names)


def test_progress_is_shown_on_request(parser: SageNodeParser, capsys: pytest.CaptureFixture[str]) -> None:
    parser.get_nodes_from_documents([Document(text=story())], show_progress=True)
    captured = capsys.readouterr()
    assert "Segmenting" in captured.out + captured.err
