"""`inspect`: what any retriever or chain of LangChain did with a question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict, overload

from langchain_core.documents import Document
from langchain_core.load import load
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import merge_configs
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BaseModel
from typing_extensions import Unpack

from sage_core.errors import InputError
from sage_core.feedback.drivers import Call, Compute, Steps, adrive, drive
from sage_core.inspecting import TOP_K, Comparison, Inspection, Passage, Record, Recorder, Survey
from sage_core.ranking.candidates import CANDIDATES
from sage_core.text.outline import take_header
from sage_langchain._messages import text_of
from sage_langchain._runnables import query_of
from sage_langchain.compressor import SCORE_KEY, SEARCH_SCORE_KEY
from sage_langchain.scored_search import ScoredVectorStoreRetriever


class _Options(TypedDict, total=False):
    config: RunnableConfig | None
    evidence: str | Sequence[str]
    top_k: int


_Asked = str | Mapping[str, Any]


@overload
def inspect(
    retriever: Runnable[Any, Any], question: _Asked, *, against: None = None, **options: Unpack[_Options]
) -> Inspection: ...
@overload
def inspect(
    retriever: Runnable[Any, Any],
    question: _Asked,
    *,
    against: Runnable[Any, Any],
    **options: Unpack[_Options],
) -> Comparison: ...


def inspect(
    retriever: Runnable[Any, Any],
    question: _Asked,
    *,
    against: Runnable[Any, Any] | None = None,
    config: RunnableConfig | None = None,
    evidence: str | Sequence[str] = (),
    top_k: int = TOP_K,
) -> Inspection | Comparison:
    """What a retriever or chain found, moved, cut and sent for a question.

    The steps are those that LangChain's callbacks report, so that any Runnable will do. LangChain's vector
    store retrievers report no scores, and `ParentDocumentRetriever` not its search: their stores are asked
    once more for them.

    Examples:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> store = InMemoryVectorStore.from_texts(["Bees fly."], DeterministicFakeEmbedding(size=8))
        >>> found = inspect(store.as_retriever(), "Do bees fly?")
        >>> [step.name for step in found.steps], [p.text for p in found.sent]
        (['VectorStoreRetriever'], ['Bees fly.'])

    Args:
        retriever: A retriever, or any chain with one in it. It is called once.
        question: What it is invoked with: the question, or a mapping that holds it.
        against: Another one, for a `Comparison` of both.
        config: As for ``invoke``.
        evidence: Texts that a good retrieval holds; the result says whether they were sent.
        top_k: The fixed k that the passages sent are compared with.

    Raises:
        InputError: For what is no Runnable.
    """
    return drive(_compared(retriever, against, question, config, evidence=evidence, top_k=top_k))


async def ainspect(
    retriever: Runnable[Any, Any],
    question: _Asked,
    *,
    against: Runnable[Any, Any] | None = None,
    **options: Unpack[_Options],
) -> Inspection | Comparison:
    """`inspect`, with ``ainvoke``."""
    return await adrive(_compared(retriever, against, question, **options))


def inspect_many(
    retriever: Runnable[Any, Any],
    questions: Sequence[str | Mapping[str, Any]],
    *,
    against: Runnable[Any, Any] | None = None,
    config: RunnableConfig | None = None,
    top_k: int = TOP_K,
) -> Survey:
    """The questions for which two retrievers differ most, first.

    Args:
        retriever: As for `inspect`.
        questions: The questions.
        against: Another retriever; None: the ``top_k`` best of the first search of ``retriever``.
        config: As for ``invoke``.
        top_k: As for `inspect`.
    """

    def compared(question: str | Mapping[str, Any]) -> Comparison:
        first = drive(_inspected(retriever, question, config, top_k=top_k))
        if against is None:
            return Comparison(first, first.fixed_k)
        other = drive(_inspected(against, question, config, top_k=top_k))
        return Comparison(first, other)

    return Survey.of(map(compared, questions))


def _compared(
    retriever: Any, against: Any, question: _Asked, config: RunnableConfig | None = None, **options: Any
) -> Steps[Inspection | Comparison]:
    first = yield from _inspected(retriever, question, config, **options)
    if against is None:
        return first
    return Comparison(first, (yield from _inspected(against, question, config, **options)))


def _inspected(
    subject: Any, question: _Asked, config: RunnableConfig | None, **options: Any
) -> Steps[Inspection]:
    if not isinstance(subject, Runnable):
        raise InputError(
            f"inspect takes a retriever or chain, such as store.as_retriever(), not {type(subject).__name__}"
        )
    asked, parts = query_of(question), [*_parts(subject)]
    recorder = Recorder()
    tracer = _Tracer(recorder, [part for part in parts if isinstance(part, BaseRetriever)])
    traced = merge_configs(config, {"callbacks": [tracer]})
    output = yield from Call(subject.invoke, subject.ainvoke, question, traced)
    # After the run: a search inside a callback would be traced as part of it.
    yield from Compute(tracer.search_again)
    answer = None
    if isinstance(output, Mapping):
        if _are_documents(output.get("context")):
            recorder.sent = _passages(output["context"])
        answer = text_of(output["answer"]) if "answer" in output else None
    elif not _are_documents(output):
        answer = text_of(output)
    hidden = yield from Compute(_hidden, tracer.searching, asked, recorder)
    return recorder.inspection(asked, subject.get_name(), answer=answer, hidden=hidden, **options)


class _Tracer(BaseTracer):
    """Keeps what runs return, where that is documents, and what models are sent."""

    run_inline = True

    def __init__(self, recorder: Recorder, retrievers: Sequence[BaseRetriever]) -> None:
        super().__init__()
        self._recorder = recorder
        # Retrievers that search a store, by the name of their runs.
        self.searching: dict[str, list[Any]] = {}
        for retriever in retrievers:
            if isinstance(getattr(retriever, "vectorstore", None), VectorStore):
                self.searching.setdefault(retriever.get_name(), []).append(retriever)

    def _persist_run(self, run: Run) -> None:
        """The recorder holds what is needed."""

    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **kwargs: Any) -> None:
        """Our compressor says where it cut."""
        if name == "sage_selection":
            self._recorder.notes[str(run_id)] = {"reason": data["reason"], "scale": data["scale"]}

    def _on_run_update(self, run: Run) -> None:
        parent = None if run.parent_run_id is None else str(run.parent_run_id)
        with self._recorder.lock:
            self._recorder.parents[str(run.id)] = parent
            if run.run_type in ("llm", "chat_model"):
                self._recorder.prompts += _prompts(run.inputs)
            elif run.outputs is not None and run.error is None:
                self._returned(run, parent, run.outputs)

    def _returned(self, run: Run, parent: str | None, outputs: Mapping[str, Any]) -> None:
        returned = outputs.get("documents", outputs.get("output"))
        given = run.inputs.get("input")
        reason = ""
        if run.name == "sage_select" and "indices" in outputs and self._recorder.records:  # of a SageChain
            ranked = [p for record in self._recorder.records for p in record.passages if not record.reason]
            given, reason = ranked[-outputs["candidates"] :], str(outputs["reason"])
            passages: Sequence[Passage] = [given[i] for i in outputs["indices"] if i < len(given)]
        elif _are_documents(returned):
            passages = _passages(returned)
            given = _passages(given) if _are_documents(given) and given else None
        else:
            return
        asked = run.inputs.get("query", "")
        record = Record(str(run.id), parent, run.name, passages, given, asked, reason=reason)
        searching = self.searching.get(run.name, [])
        if len(searching) == 1 and hasattr(searching[0], "search_type"):
            settings = {"search_type": str(searching[0].search_type), **searching[0].search_kwargs}
            record.settings = ", ".join(f"{name}={value}" for name, value in settings.items())
        self._recorder.records.append(record)

    def search_again(self) -> None:
        """Add the scores that retrievers do not report, or the whole search."""
        for record in [*self._recorder.records]:
            for retriever in self.searching.get(record.name, []):
                limits = {k: v for k, v in retriever.search_kwargs.items() if k == "filter"}
                store, at = retriever.vectorstore, self._recorder.records.index(record)
                if isinstance(retriever, VectorStoreRetriever):
                    known = _searched(store, record.question, CANDIDATES, limits)
                    # Reversed, so that of equal texts the first, which is the best, stays.
                    scores = {key: p.score for p in reversed(known) for key in (p.key, p.id)}
                    record.passages = [
                        p if p.score is not None else p.scored(scores.get(p.id or p.key))
                        for p in record.passages
                    ]
                elif not isinstance(retriever, ScoredVectorStoreRetriever):
                    found = _searched(store, record.question, retriever.search_kwargs.get("k", 4), limits)
                    name = f"{type(store).__name__} (searched again)"
                    again = Record(f"{record.id} search", record.id, name, found, question=record.question)
                    self._recorder.records.insert(at, again)


def _searched(store: VectorStore, question: str, k: int, kwargs: dict[str, Any]) -> list[Passage]:
    """What a store finds, with similarities; nothing of a store that reports none."""
    try:
        return _passages(
            ScoredVectorStoreRetriever(vectorstore=store, k=k, search_kwargs=kwargs).invoke(question)
        )
    except NotImplementedError:
        return []


def _hidden(searching: Mapping[str, Sequence[Any]], question: str, recorder: Recorder) -> list[Passage]:
    """What the searches with filters would have found without them."""
    found = {p.key for record in recorder.records for p in record.passages}
    hidden: dict[str, Passage] = {}
    for retriever in (r for some in searching.values() for r in some if "filter" in r.search_kwargs):
        k = retriever.search_kwargs.get("k", getattr(retriever, "k", 4))
        passages = _searched(retriever.vectorstore, question, k, {})
        hidden |= {p.key: p for p in passages if p.key not in found}
    return list(hidden.values())


def _parts(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """A Runnable and those inside it."""
    seen = set() if seen is None else seen
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _parts(item, seen)
    elif isinstance(value, Runnable) and id(value) not in seen:
        # Graphs of Runnables may share parts, and lead back to themselves.
        seen.add(id(value))
        yield value
        inside = (
            [getattr(value, name) for name in type(value).model_fields]
            if isinstance(value, BaseModel)
            else []
        )
        yield from _parts([*inside, *(value.deps if isinstance(value, RunnableLambda) else [])], seen)


def _are_documents(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(d, Document) for d in value)


def _passages(documents: Sequence[Document]) -> list[Passage]:
    passages = []
    for document in documents:
        metadata = document.metadata
        _, text = take_header(document.page_content, metadata)
        scores = (metadata.get(key) for key in (SCORE_KEY, SEARCH_SCORE_KEY))
        start = metadata.get("start_index")
        passages.append(
            Passage(
                text,
                document.id or "",
                " ".join(str(metadata[key]) for key in ("title", "header_path") if metadata.get(key)),
                str(metadata.get("source") or ""),
                start if isinstance(start, int) else None,
                next((float(s) for s in scores if isinstance(s, int | float)), None),
                prompt="" if text == document.page_content else document.page_content,
            )
        )
    return passages


def _prompts(inputs: Mapping[str, Any]) -> list[str]:
    """What a model was sent, as text."""
    if "prompts" in inputs:
        return list(inputs["prompts"])
    return ["\n\n".join(text_of(load(message)) for message in batch) for batch in inputs.get("messages", [])]
