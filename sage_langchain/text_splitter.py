"""`SageTextSplitter`: a LangChain `TextSplitter` whose chunks are exact slices of the text."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.documents import Document
from langchain_text_splitters import TextSplitter

from sage_core.errors import InputError, MissingExtraError
from sage_core.segmentation.limits import CHARACTERS_PER_TOKEN, Size, chunk_sizes
from sage_core.text.header import MAX_HEADER_TOKENS, SEPARATOR, fit_parts, with_header
from sage_core.text.outline import HEADER_KEY, PATH_KEY, TITLE_KEY, Context, Outline, join_path
from sage_core.text.spans import Span, padded
from sage_core.text.tokens import (
    CallableCounter,
    TokenCounter,
    TokenizerCounter,
    function_name,
)

if TYPE_CHECKING:
    from sage_core.segmentation import BoundaryModel, Segmenter

CHARACTERS = CallableCounter(len, "chars")


class SageTextSplitter(TextSplitter):
    """Splits text where a small trained model sees the topic change, never above ``chunk_size``.

    Text is never rewritten: ``text[start_index : start_index + len(chunk)] == chunk`` holds for every chunk,
    whatever the text and the length function. Use it wherever LangChain takes a `TextSplitter`.

    Where a document has a title or headings, its chunks know them: ``metadata["title"]`` and
    ``metadata["header_path"]``, the headings above the chunk (``"/Harbor rules/Dues/"``). What LangChain's
    header splitters have written ("Header 1", ...) goes before them. Most vector stores embed
    ``page_content`` alone: for those, ``prepend_header=True`` puts title and headings before the text, and
    `SageRetriever` takes them off again.

    Examples:
        >>> SageTextSplitter().split_text("The ferry leaves at seven. It returns at noon.")
        ['The ferry leaves at seven. It returns at noon.']

    Args:
        chunk_size: Hard limit of every chunk, in the unit of ``length_function``; chunks have two thirds of
            it on average, as those of the splitters that this one replaces. None takes the segmenter's own
            sizes (at most 130 tokens, some 65 on average), counted in BERT word pieces unless
            ``length_function`` says otherwise.
        chunk_overlap: Accepted, with a warning, and not used: chunks do not overlap.
        length_function: From a text to its length. As everywhere in LangChain, a ``chunk_size`` given
            without one counts characters.
        keep_separator: Accepted for compatibility. Separators always stay where they are in the text.
        add_start_index: Write ``start_index`` (characters) into the metadata of each chunk.
        strip_whitespace: Leave white space at the ends of a chunk out. If False, white space between two
            chunks goes with the one before it, or the one after it, as far as ``chunk_size`` allows; what is
            left is in chunks of its own, so that nothing is lost.
        prepend_header: Put a line such as ``"Harbor rules > Dues"`` before the text in ``page_content``, and
            into ``metadata["header"]``, by which `SageRetriever` and `SageCompressor` find it to take it off;
            ``start_index`` is that of the text. Header and text together are within
            ``chunk_size``, where that is given.
        target_tokens: Mean size of the chunks, in the unit of ``length_function`` or else in BERT word
            pieces: a number, ``"sentence"`` (35), ``"passage"`` (80), ``"section"`` (250), or ``"topic"``: as
            the text has it.
        model: Name of a bundled model, a folder, or a `BoundaryModel`.
        segmenter: A ready `Segmenter`, which then decides everything, as one with the paper's settings
            (``strategy="threshold"``) does; no other setting may be given with it.

    Raises:
        InputError: For settings out of range (it is a ValueError too).
    """

    def __init__(
        self,
        chunk_size: int | None = None,
        chunk_overlap: int = 0,
        length_function: Callable[[str], int] | TokenCounter = len,
        keep_separator: bool | Literal["start", "end"] = False,
        add_start_index: bool = False,
        strip_whitespace: bool = True,
        *,
        prepend_header: bool = False,
        target_tokens: int | Size | None = None,
        model: str | BoundaryModel = "default",
        segmenter: Segmenter | None = None,
    ) -> None:
        from sage_core.segmentation import Segmenter

        if chunk_overlap:
            warnings.warn(
                f"chunk_overlap={chunk_overlap} does nothing: chunks do not overlap",
                stacklevel=2,
            )
        chosen = {
            "target_tokens": target_tokens,
            "chunk_size": chunk_size,
            "model": None if model == "default" else model,
            "length_function": _counter(chunk_size, length_function),
        }
        settings: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        if segmenter is not None and settings:
            others = ", ".join(settings)
            raise InputError(f"a ready segmenter decides everything: give it alone, without {others}")
        if hasattr(chunk_size, "embed_documents"):
            raise InputError("SageTextSplitter takes no embeddings: leave them out, SageTextSplitter()")
        counts_characters = settings.get("length_function") == CHARACTERS
        if counts_characters and target_tokens is not None:
            raise InputError(
                "chunk_size counts characters here and target_tokens tokens: give one of them, or a "
                "length_function that counts tokens"
            )
        if segmenter is None:
            counter = settings.get("length_function", "bert")
            segmenter = Segmenter(model, counter=counter, **chunk_sizes(chunk_size, target_tokens))
        self._segmenter = segmenter
        super().__init__(
            chunk_size=self._segmenter.max_tokens,
            chunk_overlap=0,
            length_function=self._segmenter.counter.count,
            keep_separator=keep_separator,
            add_start_index=add_start_index,
            strip_whitespace=strip_whitespace,
        )
        self._prepend_header = prepend_header
        # The most of a header, and of a header with its text, in the unit of the length function.
        # MAX_HEADER_TOKENS is in tokens, the limit in the unit of the length function.
        self._longest_header = MAX_HEADER_TOKENS * (CHARACTERS_PER_TOKEN if counts_characters else 1)
        self._header_limit = chunk_size if prepend_header else None

    @property
    def segmenter(self) -> Segmenter:
        """The segmenter that does the work; its ``fingerprint`` is the key for caches of chunks."""
        return self._segmenter

    def split_spans(self, text: str) -> list[Span]:
        """Where the chunks of ``text`` lie: ``text[span.start:span.end]`` is the chunk.

        Returns:
            Ordered spans that do not overlap and together hold every character that is not white space;
            ``[]`` where there is none.
        """
        return self._finished(_checked_text(text), self._segmenter.segment(text), self._segmenter.max_tokens)

    def split_text(self, text: str) -> list[str]:
        """The chunks of ``text``: slices of it, in order; ``[]`` for empty text."""
        return [span.of(text) for span in self.split_spans(text)]

    def create_documents(
        self, texts: list[str], metadatas: list[dict[Any, Any]] | None = None
    ) -> list[Document]:
        """Chunks of several texts, all segmented in common batches.

        Args:
            texts: The texts.
            metadatas: One mapping per text, copied into each of its chunks.

        Raises:
            InputError: If ``texts`` is one string, or the two lists are not equally long.
        """
        if isinstance(texts, str):
            raise InputError("texts is a list of texts, not one text: use create_documents([text])")
        texts = [_checked_text(text) for text in texts]
        if metadatas is not None and len(metadatas) != len(texts):
            raise InputError(
                f"{len(texts)} texts came with {len(metadatas)} metadatas: give one for each text"
            )
        known = metadatas or [{}] * len(texts)
        outlines = [self._outline(text, own) for text, own in zip(texts, known, strict=True)]
        spans_of = self._spans(texts, outlines)
        return [
            chunk
            for text, own, outline, spans in zip(texts, known, outlines, spans_of, strict=True)
            for chunk in self._chunks(text, own, outline, spans)
        ]

    def split_documents(self, documents: Iterable[Document]) -> list[Document]:
        """Chunks of several documents, all segmented in common batches. Chunks get no id of their own."""
        checked = [_checked_document(document) for document in documents]
        return self.create_documents([d.page_content for d in checked], [d.metadata for d in checked])

    @classmethod
    def from_tiktoken_encoder(
        cls,
        encoding_name: str = "gpt2",
        model_name: str | None = None,
        allowed_special: Literal["all"] | AbstractSet[str] | None = None,
        disallowed_special: Literal["all"] | Collection[str] = "all",
        **kwargs: Any,
    ) -> SageTextSplitter:
        """A splitter that counts tokens with tiktoken. Unlike the base class's, it can be pickled.

        Args:
            encoding_name: Name of the encoding.
            model_name: Name of an OpenAI model, which overrides ``encoding_name``.
            allowed_special: Special tokens allowed in the text.
            disallowed_special: Special tokens that raise an error when met in the text.
            **kwargs: Passed to the class.

        Raises:
            MissingExtraError: If tiktoken is not installed.
        """
        length = TiktokenLength(encoding_name, model_name, allowed_special or frozenset(), disallowed_special)
        return cls(length_function=length, **kwargs)

    @classmethod
    def from_huggingface_tokenizer(cls, tokenizer: Any, **kwargs: Any) -> SageTextSplitter:
        """A splitter that counts the tokens of a Hugging Face tokenizer, special ones not included.

        Args:
            tokenizer: A tokenizer of `transformers`, or a bare `tokenizers.Tokenizer`.
            **kwargs: Passed to the class.

        Raises:
            InputError: If it is neither (it is a ValueError too).
        """
        return cls(length_function=TokenizerCounter(tokenizer), **kwargs)

    def _spans(self, texts: Sequence[str], outlines: Sequence[Outline | None]) -> list[list[Span]]:
        """Chunk spans of every text, with room for its headers where they count."""
        most = self._segmenter.max_tokens
        if self._header_limit is None:
            limits = [most] * len(texts)
            segmented = self._segmenter.segment_many(texts)
        else:
            limits = [most - self._reserved(outline, most) for outline in outlines]
            segmented = self._segmenter.segment_within(texts, limits)
        return [self._finished(*each) for each in zip(texts, segmented, limits, strict=True)]

    def _reserved(self, outline: Outline | None, most: int) -> int:
        """What a text's chunks leave free for headers: a quarter at most, so that text is not crowded out."""
        if outline is None:
            return 0
        longest = outline.longest(self._segmenter.counter, self._longest_header)
        # 1 is the line break between header and text.
        return min(longest + 1, most // 4) if longest else 0

    def _finished(self, text: str, spans: Sequence[Span], limit: int) -> list[Span]:
        if self._strip_whitespace:
            return list(spans)
        return padded(text, spans, self._segmenter.counter.count, limit)

    def _outline(self, text: str, metadata: Mapping[Any, Any]) -> Outline | None:
        """Title and headings of a text; None if there are none."""
        return (Outline(text, metadata) or None) if text.strip() else None

    def _chunks(
        self, text: str, metadata: Mapping[Any, Any], outline: Outline | None, spans: Sequence[Span]
    ) -> Iterator[Document]:
        contexts = [Context()] * len(spans) if outline is None else outline.contexts(spans)
        for span, context in zip(spans, contexts, strict=True):
            # Each chunk its own: stores and loaders write into nested metadata.
            own = copy.deepcopy(dict(metadata))
            if self._add_start_index:
                own["start_index"] = span.start
            content = span.of(text)
            if outline is not None:
                if outline.found_title:
                    own[TITLE_KEY] = outline.title
                if context.path or outline.found_path:
                    own[PATH_KEY] = join_path(context.path, outline.separator)
            if self._prepend_header and (header := self._header(context.parts, content)):
                own[HEADER_KEY] = header
                content = with_header(header, content)
            yield Document(page_content=content, metadata=own)

    def _header(self, parts: Sequence[str], text: str) -> str:
        """The line before a chunk's text, shortened as its own limit and ``chunk_size`` ask."""
        count, limit = self._segmenter.counter.count, self._header_limit

        def fits(some: Sequence[str]) -> bool:
            line = SEPARATOR.join(some)
            if count(line) > self._longest_header:
                return False
            return limit is None or count(with_header(line, text)) <= limit

        return SEPARATOR.join(fit_parts(parts, fits))


def _checked_document(document: Document) -> Document:
    if isinstance(document, str):
        raise InputError("documents are Document objects, not texts: for texts use create_documents([text])")
    return document


def _checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"a text is a str, not {type(text).__name__}; for Documents use split_documents")
    return text


def _counter(
    chunk_size: int | None, length_function: Callable[[str], int] | TokenCounter
) -> TokenCounter | None:
    """The counter for a length function; None (the segmenter's own) where neither it nor a size is given."""
    if length_function is len:
        return None if chunk_size is None else CHARACTERS
    if isinstance(length_function, TokenCounter):
        return length_function
    return CallableCounter(length_function, function_name(length_function))


class TiktokenLength:
    """Number of tiktoken tokens of a text: a length function that can be pickled.

    Args:
        encoding_name: Name of a tiktoken encoding.
        model_name: Name of an OpenAI model, which overrides ``encoding_name``.
        allowed_special: Special tokens allowed in the text.
        disallowed_special: Special tokens that raise an error when met in the text.

    Raises:
        MissingExtraError: If tiktoken is not installed.
    """

    def __init__(
        self,
        encoding_name: str,
        model_name: str | None,
        allowed_special: Literal["all"] | AbstractSet[str],
        disallowed_special: Literal["all"] | Collection[str],
    ) -> None:
        try:
            import tiktoken
        except ImportError as error:
            raise MissingExtraError("from_tiktoken_encoder", "tiktoken") from error
        # An Encoding pickles as its name alone.
        self._encoding = (
            tiktoken.get_encoding(encoding_name)
            if model_name is None
            else tiktoken.encoding_for_model(model_name)
        )
        self._allowed = allowed_special
        self._disallowed = disallowed_special
        self.name = f"tiktoken:{self._encoding.name}"

    def __call__(self, text: str) -> int:
        """Number of tokens of ``text``."""
        return len(
            self._encoding.encode(text, allowed_special=self._allowed, disallowed_special=self._disallowed)
        )
