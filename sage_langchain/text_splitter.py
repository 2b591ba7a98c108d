"""`SageTextSplitter`: a LangChain `TextSplitter` whose chunks are exact slices of the text."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.documents import Document
from langchain_text_splitters import TextSplitter

from sage_core.errors import InputError
from sage_core.segmentation.limits import Size, chunk_sizes
from sage_core.text.outline import PATH_KEY, TITLE_KEY, Outline, join_path
from sage_core.text.spans import Span
from sage_core.text.tokens import CallableCounter, TokenCounter, function_name

if TYPE_CHECKING:
    from sage_core.segmentation import BoundaryModel, Segmenter

CHARACTERS = CallableCounter(len, "chars")


class SageTextSplitter(TextSplitter):
    """Splits text where a small trained model sees the topic change, never above ``chunk_size``.

    Text is never rewritten: ``text[start_index : start_index + len(chunk)] == chunk`` holds for every chunk,
    whatever the text and the length function. Use it wherever LangChain takes a `TextSplitter`.

    Where a document has a title or headings, its chunks know them: ``metadata["title"]`` and
    ``metadata["header_path"]``, the headings above the chunk (``"/Harbor rules/Dues/"``). What LangChain's
    header splitters have written ("Header 1", ...) goes before them.

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
        strip_whitespace: False is accepted, with a warning, and not used: white space between two chunks is
            in neither.
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
        target_tokens: int | Size | None = None,
        model: str | BoundaryModel = "default",
        segmenter: Segmenter | None = None,
    ) -> None:
        from sage_core.segmentation import Segmenter

        if chunk_overlap:
            warnings.warn(f"chunk_overlap={chunk_overlap} does nothing: chunks do not overlap", stacklevel=2)
        if not strip_whitespace:
            warnings.warn("strip_whitespace=False does nothing: chunks begin and end in words", stacklevel=2)
        counter = _counter(chunk_size, length_function)
        chosen = {
            "target_tokens": target_tokens,
            "chunk_size": chunk_size,
            "model": None if model == "default" else model,
            "length_function": counter,
        }
        given = [name for name, value in chosen.items() if value is not None]
        if segmenter is not None and given:
            raise InputError(
                f"a ready segmenter decides everything: give it alone, without {', '.join(given)}"
            )
        if counter is CHARACTERS and target_tokens is not None:
            raise InputError(
                "chunk_size counts characters here and target_tokens tokens: give one of them, or a "
                "length_function that counts tokens"
            )
        if segmenter is None:
            segmenter = Segmenter(model, counter=counter or "bert", **chunk_sizes(chunk_size, target_tokens))
        self._segmenter = segmenter
        super().__init__(
            chunk_size=self._segmenter.max_tokens,
            chunk_overlap=0,
            length_function=self._segmenter.counter.count,
            keep_separator=keep_separator,
            add_start_index=add_start_index,
        )

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
        return self._segmenter.segment(_checked_text(text))

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
        segmented = self._segmenter.segment_many(texts)
        return [
            chunk
            for text, own, spans in zip(texts, known, segmented, strict=True)
            for chunk in self._chunks(text, own, spans)
        ]

    def split_documents(self, documents: Iterable[Document]) -> list[Document]:
        """Chunks of several documents, all segmented in common batches. Chunks get no id of their own."""
        some = list(documents)
        return self.create_documents([d.page_content for d in some], [d.metadata for d in some])

    def _chunks(self, text: str, metadata: dict[Any, Any], spans: list[Span]) -> Iterator[Document]:
        outline = Outline(text, metadata)
        for span, context in zip(spans, outline.contexts(spans) if spans else (), strict=True):
            # Each chunk its own: stores and loaders write into nested metadata.
            own = copy.deepcopy(dict(metadata))
            if self._add_start_index:
                own["start_index"] = span.start
            if outline.found_title:
                own[TITLE_KEY] = outline.title
            if outline and (context.path or outline.found_path):
                own[PATH_KEY] = join_path(context.path, outline.separator)
            yield Document(page_content=span.of(text), metadata=own)


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
