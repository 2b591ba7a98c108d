"""`inspect`: what any retriever or chain of LangChain did with a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.load import load
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from sage_core.errors import InputError
from sage_core.feedback.drivers import Call, Steps, adrive, drive
from sage_core.inspecting import Inspection, Passage, Record, Recorder
from sage_langchain._messages import text_of
from sage_langchain._passages import SCORE_KEY
from sage_langchain._runnables import query_of
from sage_langchain.compressor import SEARCH_SCORE_KEY

_Asked = str | Mapping[str, Any]


def inspect(
    retriever: Runnable[Any, Any], question: _Asked, *, config: RunnableConfig | None = None
) -> Inspection:
    """What a retriever or chain found, moved, cut and sent for a question.

    The steps are those that LangChain's callbacks report, so that any Runnable will do. LangChain's vector
    store retrievers report no scores.

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
        config: As for ``invoke``.

    Raises:
        InputError: For what is no Runnable.
    """
    return drive(_inspected(retriever, question, config))


async def ainspect(
    retriever: Runnable[Any, Any], question: _Asked, *, config: RunnableConfig | None = None
) -> Inspection:
    """`inspect`, with ``ainvoke``."""
    return await adrive(_inspected(retriever, question, config))


def _inspected(subject: Any, question: _Asked, config: RunnableConfig | None) -> Steps[Inspection]:
    if not isinstance(subject, Runnable):
        raise InputError(
            f"inspect takes a retriever or chain, such as store.as_retriever(), not {type(subject).__name__}"
        )
    recorder = Recorder()
    traced = merge_configs(config, {"callbacks": [_Tracer(recorder)]})
    output = yield from Call(subject.invoke, subject.ainvoke, question, traced)
    answer = None
    if isinstance(output, Mapping):
        if _are_documents(output.get("context")):
            recorder.sent = _passages(output["context"])
        answer = text_of(output["answer"]) if "answer" in output else None
    elif not _are_documents(output):
        answer = text_of(output)
    return recorder.inspection(query_of(question), subject.get_name(), answer=answer)


class _Tracer(BaseTracer):
    """Keeps what runs return, where that is documents, and what models are sent."""

    run_inline = True

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

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
        self._recorder.records.append(record)


def _are_documents(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(d, Document) for d in value)


def _passages(documents: Sequence[Document]) -> list[Passage]:
    passages = []
    for document in documents:
        metadata = document.metadata
        scores = (metadata.get(key) for key in (SCORE_KEY, SEARCH_SCORE_KEY))
        titles = (str(metadata[key]) for key in ("title", "header_path") if metadata.get(key))
        passages.append(
            Passage(
                document.page_content,
                document.id or "",
                " | ".join(dict.fromkeys(filter(None, (str(metadata.get("source") or ""), *titles)))),
                next((float(s) for s in scores if isinstance(s, int | float)), None),
            )
        )
    return passages


def _prompts(inputs: Mapping[str, Any]) -> list[str]:
    """What a model was sent, as text."""
    if "prompts" in inputs:
        return list(inputs["prompts"])
    return ["\n\n".join(text_of(load(message)) for message in batch) for batch in inputs.get("messages", [])]
