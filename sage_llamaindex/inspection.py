"""`inspect`: what any retriever or query engine of LlamaIndex did with a question."""

from __future__ import annotations

import inspect as signatures
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.instrumentation.events.llm import LLMChatStartEvent, LLMCompletionStartEvent
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import active_instrument_tags, instrument_tags
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import Field, PrivateAttr

from sage_core.errors import InputError
from sage_core.feedback.drivers import Call, Steps, adrive, drive
from sage_core.inspecting import Inspection, Passage, Record, Recorder
from sage_core.selection import Selection
from sage_core.text.outline import PATH_KEY, TITLE_KEY
from sage_llamaindex._component import text_counter
from sage_llamaindex._neighbors import SOURCE_KEYS
from sage_llamaindex.postprocessor import Ranking

_TAG = "sage_inspect"
_SETTINGS = ("similarity_top_k", "top_n", "similarity_cutoff", "num_queries")


def inspect(retriever: Any, question: str) -> Inspection:
    """What a retriever or engine found, moved, cut and sent for a question.

    The steps are those that LlamaIndex's own instrumentation reports, so that any retriever will do.

    Examples:
        >>> from llama_index.core import MockEmbedding, VectorStoreIndex
        >>> from llama_index.core.schema import TextNode
        >>> index = VectorStoreIndex([TextNode(text="Bees fly.")], embed_model=MockEmbedding(8))
        >>> found = inspect(index.as_retriever(similarity_top_k=4), "Do bees fly?")
        >>> [step.name for step in found.steps], [p.text for p in found.sent]
        (['VectorIndexRetriever'], ['Bees fly.'])

    Args:
        retriever: A retriever, query engine or chat engine. It is called once.
        question: The question.

    Raises:
        InputError: For what is neither a retriever nor an engine.
    """
    return drive(_inspected(retriever, question))


async def ainspect(retriever: Any, question: str) -> Inspection:
    """`inspect`, with the coroutines of retrievers, postprocessors and engines."""
    return await adrive(_inspected(retriever, question))


def _inspected(subject: Any, question: str) -> Steps[Inspection]:
    if not isinstance(subject, BaseRetriever | BaseQueryEngine | BaseChatEngine):
        raise InputError(
            "inspect takes a retriever, a query engine or a chat engine, such as index.as_retriever(), not "
            f"{type(subject).__name__}"
        )
    answer = None
    with _listening() as recorder:
        if isinstance(subject, BaseRetriever):
            yield from Call(subject.retrieve, subject.aretrieve, question)
        elif isinstance(subject, BaseChatEngine):
            answer = str((yield from Call(subject.chat, subject.achat, question)))
        else:
            answer = str((yield from Call(subject.query, subject.aquery, question)))
    return recorder.inspection(question, type(subject).__name__, answer=answer, count=text_counter().count)


@contextmanager
def _listening() -> Iterator[Recorder]:
    """Record what the calls within report; those of other threads and tasks have other tags."""
    recorder, run = Recorder(), uuid.uuid4().hex
    spans, prompts = _Spans(recorder, run), _Prompts(recorder=recorder, run=run)
    root = get_dispatcher("root")
    root.add_span_handler(spans)
    root.add_event_handler(prompts)
    try:
        with instrument_tags({**active_instrument_tags.get(), _TAG: run}):
            yield recorder
    finally:
        root.span_handlers[:] = [handler for handler in root.span_handlers if handler is not spans]
        root.event_handlers[:] = [handler for handler in root.event_handlers if handler is not prompts]


class _Prompts(BaseEventHandler):
    """Keeps what LLMs are sent."""

    recorder: Any = Field(exclude=True)
    run: str

    def handle(self, event: Any, **kwargs: Any) -> None:
        if event.tags.get(_TAG) != self.run:
            return
        if isinstance(event, LLMChatStartEvent):
            self.recorder.prompts.append("\n\n".join(str(m.content or "") for m in event.messages))
        elif isinstance(event, LLMCompletionStartEvent):
            self.recorder.prompts.append(event.prompt)


class _Spans(BaseSpanHandler[BaseSpan]):
    """Keeps what calls return, where that is nodes."""

    _recorder: Recorder = PrivateAttr()
    _run: str = PrivateAttr()
    _given: dict[str, list[Passage]] = PrivateAttr(default_factory=dict)
    _ranking: Ranking | None = PrivateAttr(default=None)

    def __init__(self, recorder: Recorder, run: str) -> None:
        super().__init__()
        self._recorder, self._run = recorder, run

    def new_span(
        self,
        id_: str,
        bound_args: signatures.BoundArguments,
        instance: Any = None,
        parent_span_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> BaseSpan | None:
        """Note what a call is given, before it changes that."""
        if (tags or {}).get(_TAG) != self._run:
            return None
        with self._recorder.lock:
            # Known for every span, so that steps can be put under the nearest one that returned nodes.
            self._recorder.parents[id_] = parent_span_id
            ranking, given = (bound_args.arguments.get(name) for name in ("ranking", "nodes"))
            if isinstance(ranking, Ranking):  # before a cut
                name = f"{type(instance).__name__}.rerank"
                nodes = self._given.get(parent_span_id or "")
                ranked = _passages(ranking.best_first)
                self._recorder.records.append(
                    Record(f"{id_} ranking", parent_span_id, name, ranked, nodes, scale=ranking.scale)
                )
                self._given[id_] = ranked
            if _are_nodes(given) and given:
                self._given[id_] = _passages(given)
                if isinstance(instance, BaseSynthesizer):
                    self._recorder.sent = self._given[id_]
        return BaseSpan(id_=id_, parent_id=parent_span_id)

    def prepare_to_exit_span(
        self,
        id_: str,
        bound_args: signatures.BoundArguments,
        instance: Any = None,
        result: Any = None,
        **kwargs: Any,
    ) -> BaseSpan | None:
        """Note what it returned."""
        span = self.open_spans.get(id_)
        if span is None:
            return None
        with self._recorder.lock:
            self._returned(span, bound_args.arguments, instance, result)
        return span

    def prepare_to_drop_span(self, id_: str, *_: Any, **kwargs: Any) -> BaseSpan | None:
        """A call that failed returned nothing."""
        return self.open_spans.get(id_)

    def _returned(self, span: BaseSpan, arguments: dict[str, Any], instance: Any, result: Any) -> None:
        scale, chosen = str(arguments.get("scale", "")), None
        if isinstance(result, Selection):
            self._recorder.notes[str(span.parent_id)] = {"reason": result.reason, "scale": scale}
        elif isinstance(result, dict) and "indices" in result and self._ranking is not None:  # of an engine
            chosen, result = result, [self._ranking.nodes[i] for i in result["indices"]]
        elif isinstance(result, Ranking):
            self._ranking, scale, result = result, result.scale, result.best_first
        if not _are_nodes(result) or isinstance(instance, BaseSynthesizer):
            return
        given = self._given.get(span.id_)
        if chosen is not None and self._ranking is not None:
            given = _passages(self._ranking.best_first)
        settings = [(name, getattr(instance, name, None)) for name in _SETTINGS]
        query = arguments.get("query_bundle") or arguments.get("str_or_query_bundle") or ""
        self._recorder.records.append(
            Record(
                span.id_,
                span.parent_id,
                _name(span.id_),
                _passages(result),
                given,
                query.query_str if isinstance(query, QueryBundle) else str(query),
                scale,
                str(chosen["reason"]) if chosen else "",
                ", ".join(f"{name}={value}" for name, value in settings if isinstance(value, int | float)),
            )
        )


def _name(id_: str) -> str:
    """The class in an id such as ``VectorIndexRetriever._retrieve-<uuid>``, with an unusual method."""
    owner, _, method = id_.rsplit("-", 5)[0].partition(".")
    plain = re.sub("^_*a?(?=retrieve|rerank|query|postprocess|critic|feedback)|^_*", "", method)
    return owner if plain in ("retrieve", "postprocess_nodes", "cut") else f"{owner}.{plain}"


def _are_nodes(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(n, NodeWithScore | BaseNode) for n in value)


def _passages(nodes: Sequence[NodeWithScore | BaseNode]) -> list[Passage]:
    passages = []
    for scored in nodes:
        node, score = (scored.node, scored.score) if isinstance(scored, NodeWithScore) else (scored, None)
        text, read = (node.get_content(metadata_mode=mode) for mode in (MetadataMode.NONE, MetadataMode.LLM))
        source = next((str(node.metadata[k]) for k in SOURCE_KEYS if node.metadata.get(k)), node.ref_doc_id)
        titles = (str(node.metadata[key]) for key in (TITLE_KEY, PATH_KEY) if node.metadata.get(key))
        passages.append(
            Passage(
                text,
                node.node_id,
                " | ".join(dict.fromkeys(filter(None, (source, *titles)))),
                None if score is None else float(score),
                "" if read == text else read,
            )
        )
    return passages
