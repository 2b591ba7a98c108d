"""`SageNodeParser`: LlamaIndex documents into chunks, cut where a trained model sees the topic change."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

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
from llama_index_instrumentation import get_dispatcher
from pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    computed_field,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import Self

from sage_core.errors import InputError
from sage_core.segmentation import Segmenter
from sage_core.segmentation.limits import Size, chunk_sizes
from sage_core.text.header import MAX_HEADER_TOKENS, SEPARATOR, fit_parts
from sage_core.text.outline import PATH_KEY, TITLE_KEY, Context, Outline, join_path
from sage_core.text.sentences import split_sentences
from sage_core.text.spans import Span
from sage_core.text.tokens import CallableCounter, TokenCounter, TokenizerCounter, function_name, get_counter
from sage_llamaindex._component import IdFunc, SageComponent, cache_token

logger = logging.getLogger(__name__)
dispatcher = get_dispatcher(__name__)

DEFAULT_CHUNK_SIZE = 1024
"""Most tokens of text and metadata where no ``chunk_size`` was given: that of LlamaIndex's own splitters."""
CUSTOM = "custom"
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
        description="Name of a bundled boundary model, or the folder of a trained one. "
        "'custom' with a `segmenter` of your own.",
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
    tokenizer: str | None = Field(
        default=None,
        description="Name of the token counter: 'bert', 'cl100k_base', 'o200k_base', 'words' or a "
        "Hugging Face tokenizer. None: Settings.tokenizer where it was set, else 'bert'.",
    )
    segmenter: SkipJsonSchema[Segmenter | None] = Field(
        default=None,
        exclude=True,
        description="A `sage_core` Segmenter of your own, with a model object, a sentence splitter or a "
        "token counter of yours. It stands for `model`, `tokenizer` and `target_tokens`.",
    )
    id_func: IdFunc = Field(
        default=default_id_func,
        description="From (number of the chunk, its document) to the id of the chunk.",
    )

    _active: Segmenter = PrivateAttr()
    # That of ``Settings`` in the process where the parser was pickled: a worker process has no such Settings.
    _pickled_counter: str | TokenCounter | None = PrivateAttr(default=None)
    _made_from: tuple[Any, ...] | None = PrivateAttr(default=None)
    _saved_fingerprint: str | None = PrivateAttr(default=None)

    _derived: ClassVar[frozenset[str]] = frozenset({"class_name", "fingerprint"})

    def __init__(
        self,
        chunk_size: int | None = None,
        chunk_overlap: int = 0,
        *,
        target_tokens: int | Size | None = None,
        model: str = "default",
        tokenizer: str | None = None,
        segmenter: Segmenter | None = None,
        include_metadata: bool = True,
        include_prev_next_rel: bool = True,
        callback_manager: CallbackManager | None = None,
        id_func: Callable[..., str] | None = None,
        class_name: object = None,  # what `to_dict` adds
        fingerprint: object = None,
    ) -> None:
        """See the fields; sizes by position are as those of LlamaIndex's TokenTextSplitter."""
        fields = {
            "chunk_size": chunk_size,
            "chunk_overlap": chunk_overlap,
            "target_tokens": target_tokens,
            "model": model,
            "tokenizer": tokenizer,
            "segmenter": segmenter,
            "include_metadata": include_metadata,
            "include_prev_next_rel": include_prev_next_rel,
            "callback_manager": callback_manager,
            "id_func": id_func,
        }
        super().__init__(**{name: value for name, value in fields.items() if value is not None})

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
        """A parser from `to_dict`. What was an object (``segmenter``, ``id_func``) is passed again by name.

        Raises:
            ValueError: Where such an object is missing.
        """
        parser = super().from_dict(data, **kwargs)
        parser._saved_fingerprint = str(data.get("fingerprint") or "").partition(":")[0] or None
        return parser

    @field_validator("chunk_overlap")
    @classmethod
    def _no_overlap(cls, value: int) -> int:
        if value:
            warnings.warn(
                f"chunk_overlap={value} does nothing: chunks do not overlap",
                stacklevel=2,
            )
        return 0

    @field_validator("tokenizer", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if callable(value):
            raise InputError(
                "tokenizer is a name, so that it can be saved and cached; for a function pass "
                "segmenter=Segmenter(counter=CallableCounter(function, name)) from sage_core"
            )
        return value

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        """Make the segmenter anew where a setting has changed. Cheap: its model is loaded on first use."""
        counter = self.tokenizer or self._pickled_counter or chosen_tokenizer()
        made_from = (
            self.model, self.tokenizer, counter, self.target_tokens, self.chunk_size, id(self.segmenter)
        )  # fmt: skip
        # Every assignment validates: the segmenter, with its caches, is made anew only on change.
        if made_from == self._made_from:
            return self
        if self.segmenter is not None:
            if (
                self.target_tokens is not None
                or self.model not in ("default", CUSTOM)
                or self.tokenizer not in (None, "bert", CUSTOM)
            ):
                raise InputError(
                    "a segmenter of your own has its settings already: leave target_tokens, model and "
                    "tokenizer out"
                )
            active = self.segmenter
            # Not by assignment, which would validate again.
            self.__dict__.update(model=CUSTOM, tokenizer=CUSTOM)
            made_from = (CUSTOM, CUSTOM, counter, None, self.chunk_size, id(active))
        elif self.model == CUSTOM:
            raise InputError(
                "the parser was saved with a segmenter of its own: pass it again, "
                "SageNodeParser.from_dict(data, segmenter=...)"
            )
        else:
            sizes = chunk_sizes(self.chunk_size, target_tokens=self.target_tokens)
            active = Segmenter(self.model, counter=counter, **sizes)
        self._active = active
        self._made_from = made_from
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if self.tokenizer is None and self.segmenter is None:
            try:
                pickle.dumps(self._active.counter)
            except Exception as error:  # whatever a user's function raises
                logger.warning(
                    "Settings.tokenizer cannot be pickled (%s): another process counts with 'bert'. Name "
                    "one, SageNodeParser(tokenizer=...)",
                    error,
                )
            else:
                state["counter"] = self._active.counter
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if (counter := state.get("counter")) is not None:
            # A worker process has its own `Settings`: without this it would cut by another counter.
            self._pickled_counter = counter
            self._prepare()  # type: ignore[operator]  # a validator is callable

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def fingerprint(self) -> str:
        """SHA-256 over the model's weights and every setting of the segmenter.

        Part of `to_dict`, hence of the key of an ingestion cache: chunks of another model are never served.
        """
        splitter = self._active.sentences
        # Ours is versioned with the segmenter.
        if splitter is split_sentences:
            return self._active.fingerprint
        return f"{self._active.fingerprint}:{cache_token(splitter, 'the sentence splitter')}"

    def split_text(self, text: str) -> list[str]:
        """The chunks of one text, as strings; none for a blank text."""
        return self.split_texts([text])

    def split_texts(self, texts: list[str]) -> list[str]:
        """The chunks of all texts, one after the other. The texts are segmented together."""
        spans_of = self._spans(texts, [self._limit(0)] * len(texts))
        return [span.of(text) for text, spans in zip(texts, spans_of, strict=True) for span in spans]

    def split_text_metadata_aware(self, text: str, metadata_str: str) -> list[str]:
        """The chunks of one text, leaving room for metadata within ``chunk_size``."""
        return self.split_texts_metadata_aware([text], [metadata_str])

    def split_texts_metadata_aware(self, texts: list[str], metadata_strs: list[str]) -> list[str]:
        """Like `split_text_metadata_aware`, for many texts together."""
        if len(texts) != len(metadata_strs):
            raise InputError("texts and metadata_strs must have the same length")
        sizes = self._active.counter.count_many(
            [f"{m.strip()}\n\n" if m.strip() else "" for m in metadata_strs]
        )
        spans_of = self._spans(texts, [self._limit(size) for size in sizes])
        return [span.of(text) for text, spans in zip(texts, spans_of, strict=True) for span in spans]

    def get_nodes_from_documents(
        self, documents: Sequence[Document], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        """The chunks of all documents.

        Raises:
            InputError: For plain texts in their place.
        """
        _check_documents(documents)
        return super().get_nodes_from_documents(documents, show_progress, **kwargs)

    async def aget_nodes_from_documents(
        self, documents: Sequence[Document], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        """`get_nodes_from_documents` as a coroutine."""
        _check_documents(documents)
        return await super().aget_nodes_from_documents(documents, show_progress, **kwargs)

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
        # All texts of a call together: the boundary model runs in full batches.
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
        offset, source = offset_of(node, text), source_of(node)
        return [
            chunk_node(
                node,
                span.of(text),
                self.id_func(i, node),
                source,
                None if offset is None else span.shift(offset),
                self.include_metadata,
                _HIDDEN,
            )
            for i, span in enumerate(spans)
        ]

    def _limit(self, overhead: int, outline: Outline | None = None) -> int:
        """Most tokens of a chunk's text, where metadata takes ``overhead``, and the headings some more."""
        room = room_for_text(self._active, self.chunk_size, overhead)
        if outline is None:
            return room
        # Headings are kept within a quarter of what there is, so that they never crowd out the text.
        left = self._ceiling - overhead
        longest = outline.longest(self._active.counter)
        return min(room, left - min(longest + _LABELS, left // 4) if longest else left)

    @property
    def _ceiling(self) -> int:
        """Most tokens of a chunk together with its metadata."""
        if self.chunk_size is not None:
            return self.chunk_size
        return max(DEFAULT_CHUNK_SIZE, int(self._active.max_tokens))

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

            def fits(
                some: Sequence[str],
                chunk: BaseNode = chunk,
                context: Context = context,
                whole: Sequence[str] = parts,
            ) -> bool:
                self._write(chunk, outline, context, whole, some)
                # Templates may be anything, so what a model is given is counted as it is.
                return count(chunk.get_content(metadata_mode=MetadataMode.EMBED)) <= self._ceiling

            self._write(chunk, outline, context, parts, fit_parts(cache[parts], fits))

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
        if self._saved_fingerprint not in (None, self._active.fingerprint):
            logger.warning(
                "this parser was saved with another version of its model or defaults: chunks may differ"
            )
            self._saved_fingerprint = None
        with self.callback_manager.event(
            CBEventType.CHUNKING, payload={EventPayload.CHUNKS: list(texts)}
        ) as event:
            segmented = self._active.segment_within(texts, limits, progress=show_progress)
            pieces = [span.of(text) for text, spans in zip(texts, segmented, strict=True) for span in spans]
            event.on_end(payload={EventPayload.CHUNKS: pieces})
        return segmented


def _check_documents(documents: Sequence[Any]) -> None:
    if isinstance(documents, BaseNode):
        raise InputError("documents are a list of Document objects: give [document]")
    if isinstance(documents, str) or any(isinstance(item, str) for item in documents):
        raise InputError("documents are Document objects, not texts: give [Document(text=text)]")


class EncodedLength:
    """Length of what a function encodes a text to: a counter that pickles if the function does."""

    def __init__(self, encode: Callable[[str], Sequence[Any]]) -> None:
        self.encode = encode
        self.name = f"len:{function_name(encode)}"

    def __call__(self, text: str) -> int:
        """Number of tokens of ``text``."""
        return len(self.encode(text))


def text_counter() -> TokenCounter:
    """What sizes nodes where nothing is said: ``Settings.tokenizer``, or ``"bert"``."""
    counter = chosen_tokenizer()
    return get_counter(counter) if isinstance(counter, str) else counter


def chosen_tokenizer() -> str | TokenCounter:
    """A counter for ``Settings.tokenizer`` where the user has set one; else ``"bert"``.

    LlamaIndex puts a tokenizer of its own there the first time any part asks for one; that is no choice.
    """
    import llama_index.core

    encode = llama_index.core.global_tokenizer
    if encode is None:
        return "bert"
    owner = getattr(encode, "__self__", None)
    if isinstance(encode, partial):
        owner = getattr(encode.func, "__self__", None)
        if type(owner).__module__.startswith("tiktoken") and encode.keywords == {"allowed_special": "all"}:
            return "bert"
    if type(owner).__module__.startswith("tiktoken"):
        return get_counter(str(getattr(owner, "name", "cl100k_base")))
    for candidate in (owner, encode):
        try:
            return TokenizerCounter(candidate)
        except InputError:
            continue
    length = EncodedLength(encode)
    return CallableCounter(length, length.name)


def room_for_text(segmenter: Segmenter, chunk_size: int | None, overhead: int) -> int:
    """Most tokens of a chunk's text where metadata takes ``overhead`` of ``chunk_size``.

    Raises:
        InputError: Where metadata leaves no room.
    """
    most = int(segmenter.max_tokens)
    if chunk_size is None:
        chunk_size = max(DEFAULT_CHUNK_SIZE, most)
    room = chunk_size - overhead
    if room <= 0:
        raise InputError(
            f"the metadata is {overhead} tokens long and chunk_size is {chunk_size}: raise chunk_size, or "
            "list long metadata keys in excluded_embed_metadata_keys and excluded_llm_metadata_keys"
        )
    if overhead and room < min(_SMALL, most):
        logger.warning("metadata leaves %d of %d tokens of a chunk for text", room, chunk_size)
    return min(room, most)


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


def chunk_node(
    parent: BaseNode,
    text: str,
    node_id: str,
    source: RelatedNodeInfo,
    span: Span | None,
    include_metadata: bool,
    hidden: Sequence[str],
) -> BaseNode:
    """One chunk of ``parent``, of the kind that keeps what the parent carries.

    Args:
        parent: The node that was split.
        text: The chunk's text.
        node_id: Its id.
        source: See `source_of`.
        span: Where the chunk lies in the source, if known.
        include_metadata: Whether the chunk gets a copy of the parent's metadata.
        hidden: Metadata keys that the LLM is not shown.
    """
    unseen = [
        key for key in hidden if key in parent.metadata and key not in parent.excluded_llm_metadata_keys
    ]
    shared: dict[str, Any] = {
        "id_": node_id,
        "relationships": {NodeRelationship.SOURCE: source},
        "metadata": copy.deepcopy(parent.metadata) if include_metadata else {},
        "excluded_embed_metadata_keys": list(
            dict.fromkeys([*parent.excluded_embed_metadata_keys, *_PLACE_KEYS.intersection(parent.metadata)])
        ),
        "excluded_llm_metadata_keys": [*parent.excluded_llm_metadata_keys, *unseen],
        "metadata_separator": parent.metadata_separator,
        "metadata_template": parent.metadata_template,
    }
    if isinstance(parent, Node | TextNode):
        shared["text_template"] = parent.text_template
    if isinstance(parent, Node) and has_media(parent) and not isinstance(parent, ImageDocument):
        return Node(
            text_resource=MediaResource(text=text),
            image_resource=parent.image_resource,
            audio_resource=parent.audio_resource,
            video_resource=parent.video_resource,
            **shared,
        )
    shared |= {
        "text": text,
        "start_char_idx": span.start if span else None,
        "end_char_idx": span.end if span else None,
    }
    if isinstance(parent, ImageDocument | ImageNode) and has_media(parent):
        return ImageNode(
            image=parent.image,
            image_path=parent.image_path,
            image_url=parent.image_url,
            image_mimetype=parent.image_mimetype,
            **shared,
        )
    if isinstance(parent, IndexNode):
        return IndexNode(index_id=parent.index_id, obj=parent.obj, **shared)
    if isinstance(parent, TextNode) and not isinstance(parent, Document):
        shared["mimetype"] = parent.mimetype
    return TextNode(**shared)


def link(nodes: Sequence[BaseNode]) -> None:
    """Set PREVIOUS and NEXT between neighbors that have the same source. Metadata must be final by now."""
    infos = [node.as_related_node_info() for node in nodes]
    # Neighbors are those of one document; the list holds the chunks of many.
    sources = [node.ref_doc_id for node in nodes]
    for i in range(1, len(nodes)):
        if sources[i] is not None and sources[i] == sources[i - 1]:
            nodes[i].relationships[NodeRelationship.PREVIOUS] = infos[i - 1]
            nodes[i - 1].relationships[NodeRelationship.NEXT] = infos[i]
