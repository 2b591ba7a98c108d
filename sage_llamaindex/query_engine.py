"""`SageQueryEngine`: a retriever query engine whose context sizes itself and whose answers are checked."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import RESPONSE_TYPE, AsyncStreamingResponse
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.llms import LLM
from llama_index.core.llms.utils import LLMType, resolve_llm
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.query_engine.retriever_query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import BaseSynthesizer, get_response_synthesizer
from llama_index.core.schema import QueryBundle, QueryType
from llama_index.core.settings import Settings
from llama_index_instrumentation import get_dispatcher
from typing_extensions import Self, Unpack

from sage_core._checks import near_match
from sage_core.errors import InputError
from sage_core.feedback import (
    DEFAULT_FEEDBACK,
    FeedbackConfig,
    FeedbackResult,
)
from sage_core.feedback.drivers import Call, Steps, adrive, drive
from sage_core.feedback.types import LOOP_SETTINGS, LoopSettings
from sage_core.ranking.candidates import CANDIDATES
from sage_core.selection import SelectionConfig, SelectionSettings
from sage_core.verify import AnswerMark, LocalJudge, mark_answer
from sage_llamaindex._critic import make_critic
from sage_llamaindex._private import callback_manager_of, llm_of, parts_of
from sage_llamaindex._question import RESULT, WITHOUT_ANSWER, Parts, SageQuestion
from sage_llamaindex._streams import drained
from sage_llamaindex.grounded import source_passages
from sage_llamaindex.postprocessor import Ranking, SageNodePostprocessor, postprocessed
from sage_llamaindex.retriever import STOCK_ARGUMENTS, SageRetriever, checked_question

dispatcher = get_dispatcher(__name__)

Feedback = Literal["before_stream", "after_stream", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What `SageQueryEngine` takes beyond `RetrieverQueryEngine`; they are documented there."""

    critic: Any = None
    critic_template: BasePromptTemplate | None = None
    feedback: Feedback = "before_stream"
    trace_key: str | None = "sage"
    loop: FeedbackConfig = DEFAULT_FEEDBACK

    def __post_init__(self) -> None:
        if self.feedback not in get_args(Feedback):
            raise InputError(f"feedback is one of {', '.join(get_args(Feedback))}, not {self.feedback!r}")
        replace(self.loop, critic=self.grading)  # checks it

    @property
    def grading(self) -> str:
        """`FeedbackConfig.critic`, which ``critic`` may be."""
        return self.critic if isinstance(self.critic, str) else self.loop.critic

    def config(self, sage: SageNodePostprocessor, ranking: Ranking | None = None) -> FeedbackConfig:
        """Settings for the core's loop; those of the selection are the postprocessor's.

        Candidates without any score are all shown at first, as the postprocessor does.
        """
        selection = sage.selection if ranking is None else ranking.selecting(sage.selection)
        if ranking is not None and ranking.nodes and not ranking.scored:
            selection = replace(selection, min_k=len(ranking.nodes), max_k=None)
        rounds = 1 if self.feedback == "after_stream" else self.loop.max_rounds
        return replace(self.loop, max_rounds=rounds, selection=selection, critic=self.grading)


_OWN = tuple(field.name for field in fields(EngineOptions))
OPTIONS = LOOP_SETTINGS.union(_OWN)
_SELECTION = frozenset(SelectionSettings.__annotations__)

# Names of `RetryQueryEngine`, and of other postprocessors.
RENAMED = {
    **SageNodePostprocessor._advice,
    "max_retries": "use `max_rounds`, which counts the first answer too: max_retries + 1",
    "evaluator": "use `critic`, which takes an evaluator as well",
    "query_evaluator": "use `critic`, which takes an evaluator as well",
    "max_tokens": "use `max_llm_tokens` for the whole loop, `max_context_tokens` for the nodes shown",
    "similarity_top_k": "use `candidates`, how many nodes are ranked",
}


def refuse_unknown(options: Mapping[str, Any], known: frozenset[str], where: str, advice: str = "") -> None:
    """Raise TypeError, as Python does, for a keyword argument that is not known."""
    for name in options:
        if name not in known:
            hint = near_match(name, known, RENAMED) + ("" if name in RENAMED else advice)
            raise TypeError(f"{where}() got an unexpected keyword argument {name!r}{hint}")


_PARTS = frozenset({"node_postprocessors", "callback_manager"})
_SYNTHESIS = frozenset(inspect.signature(get_response_synthesizer).parameters)


def _loop(loop: FeedbackConfig | None, settings: Mapping[str, Any]) -> FeedbackConfig:
    """The loop's settings, with those given by keyword in the place of its own."""
    refuse_unknown(settings, LOOP_SETTINGS | _SELECTION, "SageQueryEngine")
    if loop is not None and loop.selection != SelectionConfig():
        raise InputError("the selection of a loop is the engine's: say selection= beside loop=")
    own = {name: value for name, value in settings.items() if name in LOOP_SETTINGS}
    if not isinstance(own.get("no_answer", ()), str):
        own |= {"no_answer": tuple(own["no_answer"])} if "no_answer" in own else {}
    return replace(loop if loop is not None else DEFAULT_FEEDBACK, **own)


def feedback_of(response: RESPONSE_TYPE) -> FeedbackResult | None:
    """The whole feedback trace behind a response of `SageQueryEngine`; None if there was no feedback."""
    if not isinstance(response, get_args(RESPONSE_TYPE)):
        raise InputError(f"feedback_of takes what an engine returned, not {type(response).__name__}")
    result = vars(response).get(RESULT)
    return result if isinstance(result, FeedbackResult) else None


def marks_of(
    response: RESPONSE_TYPE, question: str = "", judge: LocalJudge | None = None
) -> tuple[AnswerMark, ...]:
    """The parts of an answer, and which source node supports each; calls no LLM.

    Args:
        response: What any query engine returned. A stream is read to its end; one of `SageQueryEngine` can
            be read again.
        question: The question; an answer of a few words is read together with it.
        judge: Shared with the rest of the process where None.

    Returns:
        Parts in the order of the answer. ``passage`` is a position in ``response.source_nodes``, and
        ``evidence`` the span in that node's text; with its ``start_char_idx`` added, in the document.

    Raises:
        InputError: For what is no response, or an asynchronous stream.
    """
    if not isinstance(response, get_args(RESPONSE_TYPE)) or isinstance(response, AsyncStreamingResponse):
        raise InputError(
            f"marks_of takes what an engine returned, not {type(response).__name__}; of an asynchronous "
            "stream, what awaiting its get_response() gives"
        )
    text, _ = drained(response)
    passages, sources = source_passages(response)
    return mark_answer(text, passages, question=question, judge=judge, sources=sources)


class SageQueryEngine(RetrieverQueryEngine):
    """Retrieves and ranks once, then answers from as much context as the answer needs.

    The first context is what `SageNodePostprocessor` selects. A critic grades the answer and says whether the
    context was too little or too much; another selection of the same candidates is tried, up to
    ``max_rounds`` in all, and the answer with the best grade is returned. Holds no state of a question: safe
    to share.

    The LLM sees of each node its title and headings (``title`` and ``header_path`` in the metadata, as
    `SageNodeParser` writes them), and its file's name where titles do not differ.

    Examples:
        >>> from llama_index.core import MockEmbedding, VectorStoreIndex
        >>> from llama_index.core.llms import MockLLM
        >>> from llama_index.core.schema import TextNode
        >>> nodes = [TextNode(text="The ferry leaves at seven.")]
        >>> index = VectorStoreIndex(nodes, embed_model=MockEmbedding(8))
        >>> engine = SageQueryEngine.from_args(index.as_retriever(), llm=MockLLM(), feedback="off")
        >>> len(engine.query("When does the ferry leave?").source_nodes)
        1

    Args:
        retriever: Where candidates come from. Of a `SageRetriever` its candidates and its postprocessor are
            used; let another one return plenty, some 60.
        response_synthesizer: Answers from nodes. None: the default one with ``Settings.llm``.
        node_postprocessors: Applied in order. Those before the `SageNodePostprocessor` see all candidates,
            once; those after it see every selection. Without one of ours, a default one is put at the end.
        callback_manager: For this engine, its postprocessors and its critic.
        critic: Who grades: an LLM, any LlamaIndex evaluator, or a judge of `sage_core` (an `Answerer`). None:
            the LLM that answers. ``"auto"``: a local judge (`sage_core.verify.LocalJudge`) where it is
            sure, the LLM that answers where it is not. ``"local"``: the local judge alone, without a call.
        critic_template: A prompt of your own for an LLM critic, with ``{question}``, ``{context}`` and
            ``{answer}``.
        feedback: ``"before_stream"``: grade and retry before anything is returned (a stream is then
            replayed). ``"after_stream"``: stream at once, grade afterwards, never retry. ``"off"``: no grade.
        trace_key: Key in ``response.metadata`` for a small summary; None for none.
        loop: Settings of the loop, but for its selection; each of them but ``policy`` can be given in its
            place: ``accept_score``, ``max_rounds``, ``max_calls``, ``max_llm_tokens``, ``no_answer`` (add
            what your own answer prompt uses), ``veto`` and ``correct``. See
            `sage_core.feedback.FeedbackConfig`.
        settings: These; and ``selection``, a `SelectionConfig`, or its fields: how much of the candidates is
            shown at first. For a `SageNodePostprocessor` of your own say it there.

    Raises:
        InputError: For an option out of its range, two `SageNodePostprocessor` objects, or settings of the
            selection beside one.
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        response_synthesizer: BaseSynthesizer | None = None,
        node_postprocessors: list[BaseNodePostprocessor] | None = None,
        callback_manager: CallbackManager | None = None,
        *,
        critic: Any = None,
        critic_template: BasePromptTemplate | None = None,
        feedback: Feedback = "before_stream",
        trace_key: str | None = "sage",
        loop: FeedbackConfig | None = None,
        **settings: Unpack[LoopSettings],
    ) -> None:
        if isinstance(retriever, BaseIndex):
            raise InputError("the retriever is an index: SageQueryEngine.from_index(index) takes one")
        if not callable(getattr(retriever, "retrieve", None)):
            raise InputError(f"retriever is a LlamaIndex retriever, not {type(retriever).__name__}")
        self._options = EngineOptions(
            critic=critic,
            critic_template=critic_template,
            feedback=feedback,
            trace_key=trace_key,
            loop=_loop(loop, settings),
        )
        postprocessors = list(node_postprocessors or [])
        ours = [i for i, p in enumerate(postprocessors) if isinstance(p, SageNodePostprocessor)]
        if len(ours) > 1:
            raise InputError("give one SageNodePostprocessor: a second one would have nothing left to select")
        selecting: dict[str, Any] = {
            name: value for name, value in settings.items() if name in _SELECTION and value is not None
        }
        # Two sources for one setting would have to disagree in silence.
        if ours and selecting:
            raise InputError(
                f"{', '.join(selecting)} go into the SageNodePostprocessor that is among node_postprocessors"
            )
        if isinstance(retriever, SageRetriever):
            if retriever.selects and (ours or selecting):
                raise InputError("the SageRetriever ranks and selects: give it the settings, or select=False")
            if retriever.selects:
                postprocessors.append(retriever.postprocessor)
                ours = [len(postprocessors) - 1]
            # The engine selects anew in every round, so the retriever must hand over all candidates.
            retriever = retriever.unselected()
        if not ours:
            # LlamaIndex's rerankers have a `top_n`, and no class in common. Their scores are selected on.
            reranked = any(hasattr(postprocessor, "top_n") for postprocessor in postprocessors)
            postprocessors.append(SageNodePostprocessor(reranker=None if reranked else "hybrid", **selecting))
        # Postprocessors before it see candidates, those after it see selections.
        self._at = ours[0] if ours else len(postprocessors) - 1
        super().__init__(retriever, response_synthesizer, postprocessors, callback_manager)
        self._critic = make_critic(
            None if isinstance(self._options.critic, str) else self._options.critic,
            llm_of(self._response_synthesizer),
            self._options.critic_template,
            self._options.loop.accept_score,
        )
        # A manager that the user passed replaces the critic's own; the global one does not.
        self._critic.share(self.callback_manager, force=callback_manager is not None)
        self._options.config(self._sage)  # settings out of range fail now

    @property
    def _sage(self) -> SageNodePostprocessor:
        postprocessor = self._node_postprocessors[self._at]
        assert isinstance(postprocessor, SageNodePostprocessor)
        return postprocessor

    @classmethod
    def from_args(  # type: ignore[override]
        cls,
        retriever: BaseRetriever,
        llm: LLM | None = None,
        response_synthesizer: BaseSynthesizer | None = None,
        node_postprocessors: list[BaseNodePostprocessor] | None = None,
        callback_manager: CallbackManager | None = None,
        **kwargs: Any,
    ) -> Self:
        """An engine from the arguments of `RetrieverQueryEngine.from_args`, and ours.

        Args:
            retriever: See the class.
            llm: Answers; ``Settings.llm`` where None.
            response_synthesizer: Instead of one made from the arguments.
            node_postprocessors: See the class.
            callback_manager: See the class.
            kwargs: Our options (see the class), and arguments of `get_response_synthesizer`
                (``response_mode``, ``text_qa_template``, ``streaming``, ...).

        Raises:
            TypeError: For an argument that is neither.
        """
        ours = OPTIONS | _SELECTION
        refuse_unknown(kwargs, _SYNTHESIS | ours, "SageQueryEngine.from_args")
        options = {name: value for name, value in kwargs.items() if name in ours}
        rest = {name: value for name, value in kwargs.items() if name not in ours}
        if response_synthesizer is None:
            response_synthesizer = get_response_synthesizer(llm=llm or Settings.llm, **rest)
        elif rest:
            raise TypeError(f"a response_synthesizer has its settings already: leave {', '.join(rest)} out")
        made = cls(retriever, response_synthesizer, node_postprocessors, callback_manager, **options)
        # As LlamaIndex's own engines: without one of its own an engine reports to the global one.
        return made if callback_manager is not None else made._observed_by(Settings.callback_manager)

    @classmethod
    def from_index(
        cls,
        index: BaseIndex[Any],
        *,
        candidates: int = CANDIDATES,
        llm: LLMType | None = None,
        retriever_args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """What ``index.as_query_engine(...)`` is for the stock engine.

        Args:
            index: Any index.
            candidates: Nodes of the vector search that are ranked (paper: N); where the index can be
                searched by keyword, as `SageRetriever` does, they come besides.
            llm: As for ``as_query_engine``.
            retriever_args: Further arguments of ``index.as_retriever``.
            kwargs: As for `from_args`; and ``filters``, ``vector_store_query_mode`` and other arguments of
                ``as_retriever`` that `SageRetriever.from_index` takes.

        Raises:
            InputError: For what is no index.
            TypeError: For an unknown argument.
        """
        if not isinstance(index, BaseIndex):
            raise InputError(
                f"from_index takes an index, as VectorStoreIndex.from_documents(...) gives, not {index!r:.80}"
                "; for a retriever there is from_args(retriever)"
            )
        known = OPTIONS | _SELECTION | _PARTS | _SYNTHESIS | STOCK_ARGUMENTS | {"response_synthesizer"}
        hint = "; retriever arguments go into retriever_args={...}"
        refuse_unknown(kwargs, known, "SageQueryEngine.from_index", hint)
        stock = {name: kwargs.pop(name) for name in STOCK_ARGUMENTS & kwargs.keys()}
        arguments = {**stock, **(retriever_args or {})}
        retriever = SageRetriever.from_index(
            index, candidates=candidates, retriever_args=arguments, select=False
        )
        chosen = resolve_llm(llm, callback_manager=callback_manager_of(index)) if llm else Settings.llm
        return cls.from_args(retriever, llm=chosen, **kwargs)

    @classmethod
    def from_query_engine(cls, engine: RetrieverQueryEngine, **options: Any) -> Self:
        """The parts of an existing engine, with selection and feedback around them.

        Args:
            engine: A `RetrieverQueryEngine`, such as ``index.as_query_engine(...)`` gives. It stays as it is:
                prompts of the new engine can be updated alone. Retriever and postprocessors are shared; of a
                vector index a `SageRetriever` fetches enough candidates.
            options: Our options (see the class), ``node_postprocessors`` and ``callback_manager``, instead of
                the engine's.

        Raises:
            InputError: For another kind of engine.
            TypeError: For an unknown option.
        """
        if not isinstance(engine, RetrieverQueryEngine):
            raise InputError(f"from_query_engine takes a RetrieverQueryEngine, not {type(engine).__name__}")
        refuse_unknown(options, OPTIONS | _SELECTION | _PARTS, "SageQueryEngine.from_query_engine")
        # So that an engine made from ours keeps critic, limits and feedback.
        inherited = engine._inherited() if isinstance(engine, SageQueryEngine) else {}
        retriever, synthesizer, postprocessors = parts_of(engine)
        if isinstance(retriever, VectorIndexRetriever):
            # Of the two nodes that an engine retrieves by default there is nothing to select.
            retriever = SageRetriever(retriever, select=False)
        arguments = {"node_postprocessors": postprocessors, **inherited, **options}
        made = cls(retriever, copy.copy(synthesizer), **arguments)
        return made if arguments.get("callback_manager") else made._observed_by(engine.callback_manager)

    def _observed_by(self, manager: CallbackManager) -> Self:
        """Use a callback manager that the user did not give: a critic that has handlers keeps them."""
        self.callback_manager = manager
        for postprocessor in self._node_postprocessors:
            postprocessor.callback_manager = manager
        self._critic.share(manager, force=False)
        return self

    def with_retriever(self, retriever: BaseRetriever) -> Self:
        """The same engine with another retriever; its prompts can be updated alone."""
        made = type(self)(
            retriever,
            copy.copy(self._response_synthesizer),
            list(self._node_postprocessors),
            **self._inherited(),
        )
        return made._observed_by(self.callback_manager)

    def as_chat_engine(self, llm: LLM | None = None, **kwargs: Any) -> CondenseQuestionChatEngine:
        """A chat engine that writes a question out by the conversation before it, then asks this engine.

        Args:
            llm: Rewrites the question; None for the one that answers.
            kwargs: For `CondenseQuestionChatEngine.from_defaults`, such as ``memory`` or ``chat_history``.
        """
        llm = llm if llm is not None else llm_of(self._response_synthesizer)
        return CondenseQuestionChatEngine.from_defaults(query_engine=self, llm=llm, **kwargs)

    def __repr__(self) -> str:
        critic, feedback = self._options.grading, self._options.feedback
        return f"{type(self).__name__}({self._retriever!r}, critic={critic!r}, feedback={feedback!r})"

    def _inherited(self) -> dict[str, Any]:
        """The options, with a copy of the critic as it is now: its prompt may have been updated."""
        options = {name: getattr(self._options, name) for name in _OWN}
        return {**options, "critic": copy.copy(self._critic), "critic_template": None}

    def _get_prompt_modules(self) -> PromptMixinType:
        """The synthesizer's prompts and, with feedback, the critic's: one level, so all can be updated."""
        modules: PromptMixinType = {"response_synthesizer": self._response_synthesizer}
        if self._options.feedback != "off":
            # One level deep: LlamaIndex's update_prompts cannot address prompts nested further.
            modules["critic"] = self._critic
        return modules

    def query(self, str_or_query_bundle: QueryType) -> RESPONSE_TYPE:
        """Answer a question.

        Raises:
            InputError: For what is no question, or a blank one.
        """
        return super().query(checked_question(str_or_query_bundle))

    async def aquery(self, str_or_query_bundle: QueryType) -> RESPONSE_TYPE:
        """`query` as a coroutine."""
        return await super().aquery(checked_question(str_or_query_bundle))

    @dispatcher.span
    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        """Answer a query."""
        return drive(self._answering(query_bundle, awaited=False))

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        """Answer a query, never blocking the event loop."""
        return await adrive(self._answering(query_bundle, awaited=True))

    def _answering(self, query_bundle: QueryBundle, *, awaited: bool) -> Steps[RESPONSE_TYPE]:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            question = self._question(query_bundle, (yield from self._ranking(query_bundle)))
            steps = question.run(awaited=awaited) if self._with_feedback else question.run_once()
            response = yield from steps
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    def _question(self, query_bundle: QueryBundle, ranking: Ranking) -> SageQuestion:
        parts = Parts(
            sage=self._sage,
            after=self._node_postprocessors[self._at + 1 :],
            synthesizer=self._response_synthesizer,
            critic=self._critic,
            grade_last=self._options.feedback == "after_stream",
            trace_key=self._options.trace_key,
        )
        return SageQuestion(query_bundle, ranking, parts, self._options.config(self._sage, ranking))

    def _ranking(self, query_bundle: QueryBundle) -> Steps[Ranking]:
        """The candidates with their scores."""
        retriever, sage = self._retriever, self._sage
        nodes = yield from Call(retriever.retrieve, retriever.aretrieve, query_bundle)
        for postprocessor in self._node_postprocessors[: self._at]:
            nodes = yield from postprocessed(postprocessor, nodes, query_bundle)
        if not nodes:
            return Ranking((), "probability")
        return (yield from Call(sage.rerank, sage.arerank, nodes, query_bundle))

    @property
    def _with_feedback(self) -> bool:
        improves = not isinstance(self._response_synthesizer, WITHOUT_ANSWER)
        return self._options.feedback != "off" and improves
