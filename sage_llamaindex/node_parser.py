"""`SageNodeParser`: LlamaIndex documents into chunks, cut where a trained model sees the topic change."""

from __future__ import annotations

import asyncio
import copy
import logging
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.node_parser.interface import MetadataAwareTextSplitter
from llama_index.core.node_parser.node_utils import default_id_func
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.utils import get_tqdm_iterable
from llama_index_instrumentation import get_dispatcher
from pydantic import ConfigDict, Field, PrivateAttr, computed_field, field_validator
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import Self

from sage_core.errors import InputError
from sage_core.segmentation import Segmenter
from sage_core.segmentation.limits import Size, chunk_sizes
from sage_core.text.header import MAX_HEADER_TOKENS, SEPARATOR, fit_parts
from sage_core.text.outline import PATH_KEY, TITLE_KEY, Context, Outline, join_path
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span
from sage_core.text.tokens import TokenCounter, function_name
from sage_llamaindex._component import SageComponent, chosen_tokenizer, text_counter

logger = logging.getLogger(__name__)
dispatcher = get_dispatcher(__name__)

DEFAULT_CHUNK_SIZE = 1024
"""Most tokens of text and metadata where no ``chunk_size`` was given: that of LlamaIndex's own splitters."""
# Kept by chunks, and not shown to the LLM: on short chunks a path is a fifth of the prompt.
_HIDDEN = ("file_path", PATH_KEY)
_SMALL = 50  # tokens left for text below which LlamaIndex's own splitters warn
# Tokens of "title: ", "header_path: " and what separates them from the text, in the default templates.
_LABELS = 12


class SageNodeParser(SageComponent, MetadataAwareTextSplitter):
    r"""Splits documents into short chunks that are complete in meaning.

    Every chunk is an exact slice of its document, with the right ``start_char_idx`` and ``end_char_idx``,
    also behind another parser; chunk and metadata together never exceed ``chunk_size`` tokens; chunks of
    one source are linked to the previous and the next; blank documents give no chunks. Documents are
    segmented together in large batches, so hand over many at once rather than starting worker processes.

    Where a document has a title or headings, its chunks know them: ``metadata["title"]`` and
    ``metadata["header_path"]``, the headings above the chunk as `MarkdownNodeParser` writes them, but for a
    first one that is the title. They are embedded with the text and not shown to the LLM. Behind a
    `MarkdownNodeParser` its path is kept, and headings of the section are added for chunks below them. Ids
    of nodes do not depend on it, hashes do.

    Sizes: by themselves chunks have some 65 tokens and at most 130. ``target_tokens`` asks for another mean;
    ``chunk_size``, as from a `SentenceSplitter`, sets the ceiling and with it the mean, two thirds of it.

    Examples:
        >>> from llama_index.core.schema import Document
        >>> nodes = SageNodeParser().get_nodes_from_documents([Document(text="The ferry leaves at seven.")])
        >>> nodes[0].text
        'The ferry leaves at seven.'
        >>> guide = Document(text="# Island\n\n## Ferry\n\nIt leaves at seven.")
        >>> SageNodeParser().get_nodes_from_documents([guide])[0].metadata["title"]
        'Island'
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", validate_assignment=True)

    model: str = Field(
        default="default",
        description="Name of a bundled boundary model, or the folder of a trained one.",
    )
    chunk_size: int | None = Field(
        default=None,
        gt=0,
        description="Most tokens of a chunk together with its metadata; chunks have two thirds of it on "
        "average, as those of SentenceSplitter. None: the segmenter's own sizes (at most 130, some 65 on "
        "average), and 1,024 with metadata.",
    )
    chunk_overlap: int = Field(
        default=0, ge=0, description="Accepted, with a warning, and not used: chunks do not overlap."
    )
    target_tokens: int | Size | None = Field(
        default=None,
        description="Mean tokens of a chunk's own text, or 'sentence' (35), 'passage' (80), 'section' (250), "
        "or 'topic': as the text has it.",
    )
    segmenter: SkipJsonSchema[Segmenter | None] = Field(
        default=None,
        exclude=True,
        description="A `sage_core` Segmenter of your own, with a model object, a sentence splitter or a "
        "token counter of yours. It stands for `model` and `target_tokens`; it is not saved. Without one "
        "tokens are those of Settings.tokenizer, if that was set, else of 'bert'.",
    )
    id_func: SkipJsonSchema[Callable[..., str]] = Field(
        default=default_id_func,
        exclude=True,
        description="From (number of the chunk, its document) to the id of the chunk; it is not saved.",
    )

    _made: tuple[tuple[Any, ...], Segmenter] | None = PrivateAttr(default=None)

    def __init__(
        self,
        chunk_size: int | None = None,
        chunk_overlap: int = 0,
        *,
        target_tokens: int | Size | None = None,
        model: str = "default",
        segmenter: Segmenter | None = None,
        include_metadata: bool = True,
        include_prev_next_rel: bool = True,
        callback_manager: CallbackManager | None = None,
        id_func: Callable[..., str] | None = None,
    ) -> None:
        """See the fields; sizes by position are as those of LlamaIndex's TokenTextSplitter."""
        if segmenter is not None and (target_tokens is not None or model != "default"):
            raise InputError("a segmenter of your own has its settings: leave target_tokens and model out")
        fields: dict[str, Any] = {
            "chunk_size": chunk_size,
            "chunk_overlap": chunk_overlap,
            "target_tokens": target_tokens,
            "model": model,
            "segmenter": segmenter,
            "include_metadata": include_metadata,
            "include_prev_next_rel": include_prev_next_rel,
            "callback_manager": callback_manager or CallbackManager([]),
            "id_func": id_func or default_id_func,
        }
        super().__init__(**fields)
        _ = self._active  # what does not go together fails now

    @classmethod
    def class_name(cls) -> str:
        """Name in serialized form."""
        return "SageNodeParser"

    @classmethod
    def from_defaults(cls, *sizes: int, **settings: Any) -> Self:
        """The same as the constructor."""
        return cls(*sizes, **settings)

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """A parser from `to_dict`. What was an object (``segmenter``, ``id_func``) is passed again."""
        saved = str(data.get("fingerprint") or "")
        parser = super().from_dict({k: v for k, v in data.items() if k != "fingerprint"}, **kwargs)
        # Of functions only their number is compared: one without a name of its own has another each time.
        if saved and _outline_of(saved) != _outline_of(parser.fingerprint):
            logger.warning(
                "this parser was saved with another model, segmenter or id_func: pass it to from_dict again, "
                "or chunks and ids differ"
            )
        return parser

    @field_validator("chunk_overlap")
    @classmethod
    def _no_overlap(cls, value: int) -> int:
        if value:
            warnings.warn(f"chunk_overlap={value} does nothing: chunks do not overlap", stacklevel=2)
        return 0

    @property
    def _active(self) -> Segmenter:
        """What cuts, by the settings as they are now."""
        if self.segmenter is not None:
            return self.segmenter
        settings = (self.model, self.chunk_size, self.target_tokens, chosen_tokenizer())
        if self._made is None or self._made[0] != settings:
            sizes = chunk_sizes(self.chunk_size, target_tokens=self.target_tokens)
            self._made = settings, Segmenter(self.model, counter=text_counter(), **sizes)
        return self._made[1]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # A worker process has no such Settings, and would cut by another counter.
        if self.segmenter is None and chosen_tokenizer() is not None:
            state |= {"segmenter": self._active, "model": "default", "target_tokens": None}
        return state

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def fingerprint(self) -> str:
        """SHA-256 over weights and settings of the segmenter, and the names of functions of yours.

        Part of `to_dict`, hence of the key of an ingestion cache: chunks of another model are never served.
        """
        functions = ((self._active.sentences, split_sentences), (self.id_func, default_id_func))
        names = [function_name(function) for function, ours in functions if function is not ours]
        return ":".join([self._active.fingerprint, *names])

    def split_text(self, text: str) -> list[str]:
        """The chunks of one text, as strings; none for a blank text."""
        return self.split_text_metadata_aware(text, "")

    def split_text_metadata_aware(self, text: str, metadata_str: str) -> list[str]:
        """The chunks of one text, leaving room for metadata within ``chunk_size``."""
        metadata = f"{metadata_str.strip()}\n\n" if metadata_str.strip() else ""
        (spans,) = self._spans([text], [self._limit(self._active.counter.count(metadata))])
        return [span.of(text) for span in spans]

    def _parse_nodes(
        self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        """The chunks of all ``nodes``. Further arguments, which pipelines pass to every part, are ignored."""
        texts = [text_of(node) for node in nodes]
        sizes = metadata_tokens(nodes, self._active.counter) if self.include_metadata else [0] * len(nodes)
        outlines = [self._outline(node, text) for node, text in zip(nodes, texts, strict=True)]
        limits = [
            self._limit(size, outline) if text.strip() else 0
            for size, outline, text in zip(sizes, outlines, texts, strict=True)
        ]
        spans_of = self._spans(texts, limits, show_progress)
        chunks: list[BaseNode] = []
        for node, text, outline, spans in zip(nodes, texts, outlines, spans_of, strict=True):
            made = self._chunks_of(node, text, spans)
            if outline is not None and spans:
                self._describe(made, outline, outline.contexts(spans))
            chunks += made
        return chunks

    @dispatcher.span
    async def _aparse_nodes(
        self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        """`_parse_nodes` in a thread, so that the event loop goes on."""
        return await asyncio.to_thread(self._parse_nodes, nodes, show_progress, **kwargs)

    def _postprocess_parsed_nodes(
        self, nodes: list[BaseNode], parent_doc_map: dict[str, Document]
    ) -> list[BaseNode]:
        """Link neighbors.

        Instead of the inherited method, which searches each chunk's text again and links before metadata is
        complete: `_parse_nodes` has set offsets, metadata and source from what it knows.
        """
        if self.include_prev_next_rel:
            link(nodes)
        return nodes

    def _chunks_of(self, node: BaseNode, text: str, spans: Sequence[Span]) -> list[BaseNode]:
        if not spans and has_media(node):  # a picture without words is content all the same
            spans = [Span(0, len(text))]
        if not spans:
            return []
        offset = offset_of(node, text)
        kind: type[BaseNode] = IndexNode if isinstance(node, IndexNode) else TextNode
        if has_media(node):
            kind = ImageNode if isinstance(node, ImageDocument | ImageNode) else Node
        unread = [*node.excluded_embed_metadata_keys, *_PLACE_KEYS.intersection(node.metadata)]
        unseen = [*node.excluded_llm_metadata_keys, *(key for key in _HIDDEN if key in node.metadata)]
        # What the kind has of the node stays; all else is the chunk's own.
        shared = {name: getattr(node, name) for name in kind.model_fields if hasattr(node, name)} | {
            "embedding": None,
            "relationships": {NodeRelationship.SOURCE: source_of(node)},
            "excluded_embed_metadata_keys": list(dict.fromkeys(unread)),
            "excluded_llm_metadata_keys": list(dict.fromkeys(unseen)),
        }
        chunks = []
        for i, span in enumerate(spans):
            own: dict[str, Any] = {"id_": self.id_func(i, node)}
            own["metadata"] = copy.deepcopy(node.metadata) if self.include_metadata else {}
            if kind is Node:
                own["text_resource"] = MediaResource(text=span.of(text))
            else:
                place = None if offset is None else span.shift(offset)
                own["text"] = span.of(text)
                own |= {"start_char_idx": place and place.start, "end_char_idx": place and place.end}
            chunks.append(kind(**shared | own))
        return chunks

    def _limit(self, overhead: int, outline: Outline | None = None) -> int:
        """Most tokens of a chunk's text, where metadata takes ``overhead``, and the headings some more.

        Raises:
            InputError: If metadata leaves no room.
        """
        most, left = int(self._active.max_tokens), self._ceiling - overhead
        if left <= 0:
            raise InputError(
                f"the metadata is {overhead} tokens long and chunk_size is {self._ceiling}: raise chunk_size "
                "or list long metadata keys in excluded_embed_metadata_keys and excluded_llm_metadata_keys"
            )
        if overhead and left < min(_SMALL, most):
            logger.warning("metadata leaves %d of %d tokens of a chunk for text", left, self._ceiling)
        # Headings are kept within a quarter of what there is, so that they never crowd out the text.
        longest = outline.longest(self._active.counter) if outline is not None else 0
        return min(most, left - min(longest + _LABELS, left // 4) if longest else left)

    @property
    def _ceiling(self) -> int:
        """Most tokens of a chunk together with its metadata."""
        return self.chunk_size or max(DEFAULT_CHUNK_SIZE, int(self._active.max_tokens))

    def _outline(self, node: BaseNode, text: str) -> Outline | None:
        """Title and headings of a node's text; None if they are not used."""
        if not (self.include_metadata and text.strip()):
            return None
        return Outline(text, node.metadata, whole=node.source_node is None) or None

    def _describe(self, chunks: Sequence[BaseNode], outline: Outline, contexts: Sequence[Context]) -> None:
        """Write title and headings into the metadata of a text's chunks, as far as ``chunk_size`` allows."""
        count = self._active.counter.count
        # The LLM is not shown what is written here.
        cache: dict[tuple[str, ...], tuple[str, ...]] = {}
        for chunk, context in zip(chunks, contexts, strict=True):
            # A title that the document brings is shown as the document has it, and not counted here.
            parts = context.parts if outline.found_title else context.path
            if parts not in cache:
                cache[parts] = fit_parts(parts, lambda some: count(SEPARATOR.join(some)) <= MAX_HEADER_TOKENS)

            write = partial(self._write, chunk, outline, context, parts)

            def fits(some: Sequence[str], chunk: BaseNode = chunk, write: Any = write) -> bool:
                write(some)
                # Templates may be anything, so what a model is given is counted as it is.
                return count(chunk.get_content(metadata_mode=MetadataMode.EMBED)) <= self._ceiling

            write(fit_parts(cache[parts], fits))

    def _write(
        self,
        chunk: BaseNode,
        outline: Outline,
        context: Context,
        whole: Sequence[str],
        parts: Sequence[str],
    ) -> None:
        """Write the title, and of the headings those that are left of ``parts``, the shortened ``whole``."""
        metadata, unread = chunk.metadata, chunk.excluded_embed_metadata_keys
        has_title = len(whole) > len(context.path)
        if outline.found_title:
            metadata[TITLE_KEY] = outline.title
            if has_title and len(parts) == len(whole):
                unread[:] = [key for key in unread if key != TITLE_KEY]
            elif TITLE_KEY not in unread:  # the path or the text repeats it, or there is no room
                unread.append(TITLE_KEY)
        headings = parts[1:] if has_title and len(parts) == len(whole) else parts
        if headings or outline.found_path:
            metadata[PATH_KEY] = join_path(headings, outline.separator)
        else:
            metadata.pop(PATH_KEY, None)
        for key, present in ((TITLE_KEY, outline.found_title), (PATH_KEY, PATH_KEY in metadata)):
            if present and key not in chunk.excluded_llm_metadata_keys:
                chunk.excluded_llm_metadata_keys.append(key)

    def _spans(
        self, texts: Sequence[str], limits: Sequence[int], show_progress: bool = False
    ) -> list[list[Span]]:
        """Chunk spans of every text, none above its limit, and the events that tell of it."""
        with self.callback_manager.event(
            CBEventType.CHUNKING, payload={EventPayload.CHUNKS: list(texts)}
        ) as event:
            # All together, so that the boundary model runs in full batches; for a bar in smaller ones.
            step = 16 if show_progress else max(len(texts), 1)
            starts = get_tqdm_iterable(range(0, len(texts), step), show_progress, "Parsing nodes")
            segmented: list[list[Span]] = []
            for i in starts:
                segmented += self._active.segment_within(texts[i : i + step], limits[i : i + step])
            pieces = [span.of(text) for text, spans in zip(texts, segmented, strict=True) for span in spans]
            event.on_end(payload={EventPayload.CHUNKS: pieces})
        return segmented


def _outline_of(fingerprint: str) -> tuple[str, int]:
    return fingerprint.partition(":")[0], fingerprint.count(":")


# Where a file lies on a disk says nothing of what a chunk is about. LlamaIndex's reader leaves out all other
# keys that it writes.
_PLACE_KEYS = frozenset({"file_path"})


def text_of(node: BaseNode) -> str:
    """The node's own text, without metadata.

    Raises:
        InputError: For a kind of node that carries no text.
    """
    if not isinstance(node, Node | TextNode):
        raise InputError(f"cannot split a {type(node).__name__}: pass Document, Node or TextNode objects")
    return node.get_content(metadata_mode=MetadataMode.NONE)


def has_media(node: BaseNode) -> bool:
    """Whether the node carries an image, a sound or a video beside its text."""
    if isinstance(node, ImageNode):
        return any((node.image, node.image_path, node.image_url))
    if isinstance(node, Node):
        return any((node.image_resource, node.audio_resource, node.video_resource))
    return False


def metadata_tokens(nodes: Sequence[BaseNode], counter: TokenCounter) -> list[int]:
    """Tokens that metadata and template add to each chunk of ``nodes``, when embedded or shown to an LLM."""
    # One letter stands for the chunk, so that separators between metadata and text are counted.
    filled: list[str] = []
    for node in nodes:
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            metadata = node.get_metadata_str(mode=mode).strip()
            template = node.text_template if isinstance(node, Node | TextNode) else ""
            filled.append(template.format(content="x", metadata_str=metadata).strip() if metadata else "x")
    counts = counter.count_many(filled)
    # Tokens of a template are counted around a text, since a tokenizer joins at its edges.
    letter = counter.count("x")
    return [max(counts[i], counts[i + 1]) - letter for i in range(0, len(counts), 2)]


def source_of(node: BaseNode) -> RelatedNodeInfo:
    """What chunks of ``node`` name as their source: its own source if it is itself a part, else the node."""
    # Chunks of a chunk name the document, so that they can be found and deleted by it.
    info = node.source_node or node.as_related_node_info()
    return info.model_copy(update={"metadata": copy.deepcopy(info.metadata)})


def offset_of(node: BaseNode, text: str) -> int | None:
    """Where ``text`` starts in the source that its chunks name; None if that cannot be known."""
    if node.source_node is None:
        return 0
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    # A text that was changed after it was cut has no known place in its source.
    if start is None or end is None or end - start != len(text):
        return None
    return int(start)


def link(nodes: Sequence[BaseNode]) -> None:
    """Set PREVIOUS and NEXT between neighbors that have the same source. Metadata must be final by now."""
    infos = [node.as_related_node_info() for node in nodes]
    # Neighbors are those of one document; the list holds the chunks of many.
    sources = [node.ref_doc_id for node in nodes]
    for i in range(1, len(nodes)):
        if sources[i] is not None and sources[i] == sources[i - 1]:
            nodes[i].relationships[NodeRelationship.PREVIOUS] = infos[i - 1]
            nodes[i - 1].relationships[NodeRelationship.NEXT] = infos[i]
