"""`SageQueryEngine`: a retriever query engine whose context sizes itself and whose answers are checked."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, get_args

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.llms import LLM
from llama_index.core.llms.utils import LLMType, resolve_llm
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.query_engine.retriever_query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import BaseSynthesizer, get_response_synthesizer
from llama_index.core.schema import QueryBundle
from llama_index.core.settings import Settings
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index_instrumentation import get_dispatcher
from typing_extensions import Self

from sage_core.errors import InputError
from sage_core.feedback import DEFAULT_FEEDBACK, FeedbackConfig, FeedbackResult
from sage_core.feedback.drivers import Call, Steps, adrive, drive
from sage_core.ranking.candidates import CANDIDATES
from sage_core.selection import SelectionConfig
from sage_llamaindex._private import llm_of, parts_of
from sage_llamaindex._question import RESULT, WITHOUT_ANSWER, Critic, Parts, SageQuestion
from sage_llamaindex.postprocessor import Ranking, SageNodePostprocessor, postprocessed
from sage_llamaindex.retriever import SageRetriever, checked_question

dispatcher = get_dispatcher(__name__)


def feedback_of(response: RESPONSE_TYPE) -> FeedbackResult | None:
    """The whole feedback trace behind a response of `SageQueryEngine`; None if there was no feedback."""
    if not isinstance(response, get_args(RESPONSE_TYPE)):
        raise InputError(f"feedback_of takes what an engine returned, not {type(response).__name__}")
    result = vars(response).get(RESULT)
    return result if isinstance(result, FeedbackResult) else None


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
        >>> engine = SageQueryEngine.from_args(index.as_retriever(), llm=MockLLM(), critic="off")
        >>> len(engine.query("When does the ferry leave?").source_nodes)
        1

    Args:
        retriever: Where candidates come from. Of a `SageRetriever` its candidates and its postprocessor are
            used; let another one return plenty, some 60.
        response_synthesizer: Answers from nodes. None: the default one with ``Settings.llm``.
        node_postprocessors: Applied in order. Those before the `SageNodePostprocessor` see all candidates,
            once; those after it see every selection. Without one of ours, a default one is put at the end.
        callback_manager: For this engine, its postprocessors and its critic.
        critic: Who grades. ``"llm"``: the LLM that answers. ``"auto"``: a local judge
            (`sage_core.verify.LocalJudge`) where it is sure, the LLM where it is not. ``"local"``: the local
            judge alone, without a call. ``"off"``: nobody; one answer, at once. Or another LLM, or an object
            whose ``grade(question, passages, answer)`` gives a `sage_core.feedback.Verdict`. The prompt of an
            LLM is the engine's, ``critic:critic_template`` for `update_prompts`.
        loop: Limits of the loop, such as ``FeedbackConfig(max_rounds=2)``, but for its selection. A graded
            answer is streamed once the loop has ended.

    Raises:
        InputError: For an option out of its range, or two `SageNodePostprocessor` objects.
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        response_synthesizer: BaseSynthesizer | None = None,
        node_postprocessors: list[BaseNodePostprocessor] | None = None,
        callback_manager: CallbackManager | None = None,
        *,
        critic: Any = None,
        loop: FeedbackConfig = DEFAULT_FEEDBACK,
    ) -> None:
        if isinstance(retriever, BaseIndex):
            raise InputError("the retriever is an index: SageQueryEngine.from_index(index) takes one")
        if not callable(getattr(retriever, "retrieve", None)):
            raise InputError(f"retriever is a LlamaIndex retriever, not {type(retriever).__name__}")
        if loop.selection != SelectionConfig():
            raise InputError("the selection is not the loop's: say it to the retriever or the postprocessor")
        if isinstance(critic, str) and critic != "off":
            loop, critic = replace(loop, critic=critic), None
        self._loop = loop
        postprocessors = list(node_postprocessors or [])
        ours = [i for i, p in enumerate(postprocessors) if isinstance(p, SageNodePostprocessor)]
        # Two sources for one setting would have to disagree in silence.
        selecting = isinstance(retriever, SageRetriever) and retriever.selects
        if len(ours) + selecting > 1:
            raise InputError(
                "give one SageNodePostprocessor: a second one would have nothing left to select, nor one "
                "behind a SageRetriever, but for its select=False"
            )
        if not ours:
            sage = SageNodePostprocessor()
            if isinstance(retriever, SageRetriever):
                sage = retriever.postprocessor
            # LlamaIndex's rerankers have a `top_n`, and no class in common. Their scores are selected on.
            if any(hasattr(postprocessor, "top_n") for postprocessor in postprocessors):
                sage = SageNodePostprocessor(reranker=None, selection=sage.selection)
            postprocessors.append(sage)
        if isinstance(retriever, SageRetriever):
            # The engine selects anew in every round, so the retriever must hand over all candidates.
            retriever = retriever.unselected()
        # Postprocessors before it see candidates, those after it see selections.
        self._at = ours[0] if ours else len(postprocessors) - 1
        super().__init__(retriever, response_synthesizer, postprocessors, callback_manager)
        if isinstance(critic, Critic):
            self._critic: Critic | None = critic
        else:
            self._critic = None if critic == "off" else Critic(critic or llm_of(self._response_synthesizer))
        # A manager that the user passed replaces the critic's own; the global one does not.
        if self._critic is not None:
            self._critic.share(self.callback_manager, force=callback_manager is not None)

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
        *,
        critic: Any = None,
        loop: FeedbackConfig = DEFAULT_FEEDBACK,
        **synthesis: Any,
    ) -> Self:
        """An engine from the arguments of `RetrieverQueryEngine.from_args`, and ours.

        Args:
            retriever: See the class.
            llm: Answers; ``Settings.llm`` if None.
            response_synthesizer: Instead of one made from the arguments.
            node_postprocessors: See the class, and so the next three.
            callback_manager: For engine, postprocessors and critic.
            critic: Who grades.
            loop: Limits of the loop.
            synthesis: Arguments of `get_response_synthesizer` (``response_mode``, ``text_qa_template``,
                ``streaming``, ...), as of the stock engine.

        Raises:
            TypeError: For an argument that is neither.
        """
        if response_synthesizer is None:
            response_synthesizer = get_response_synthesizer(llm=llm or Settings.llm, **synthesis)
        elif synthesis:
            names = ", ".join(synthesis)
            raise TypeError(f"a response_synthesizer has its settings already: leave {names} out")
        made = cls(
            retriever, response_synthesizer, node_postprocessors, callback_manager, critic=critic, loop=loop
        )
        # As LlamaIndex's own engines: without one of its own an engine reports to the global one.
        return made if callback_manager is not None else made._observed_by(Settings.callback_manager)

    @classmethod
    def from_index(
        cls,
        index: BaseIndex[Any],
        *,
        llm: LLMType | None = None,
        candidates: int = CANDIDATES,
        selection: SelectionConfig | None = None,
        max_context_tokens: int | None = None,
        filters: MetadataFilters | None = None,
        **arguments: Any,
    ) -> Self:
        """What ``index.as_query_engine(...)`` is for the stock engine.

        Args:
            index: Any index.
            llm: As for ``as_query_engine``.
            candidates: See `SageRetriever`, and so the next three.
            selection: How much of the candidates is shown at first.
            max_context_tokens: Most tokens shown.
            filters: Which nodes may be used, by their metadata.
            arguments: As for `from_args`.

        Raises:
            InputError: For what is no index.
            TypeError: For an unknown argument.
        """
        if not isinstance(index, BaseIndex):
            raise InputError(
                f"from_index takes an index, as VectorStoreIndex.from_documents(...) gives, not {index!r:.80}"
                "; for a retriever there is from_args(retriever)"
            )
        retriever = SageRetriever.from_index(
            index,
            candidates=candidates,
            selection=selection,
            max_context_tokens=max_context_tokens,
            filters=filters,
            # A postprocessor among the arguments may select.
            select=selection is not None or max_context_tokens is not None,
        )
        chosen = resolve_llm(llm, callback_manager=retriever.callback_manager) if llm else Settings.llm
        return cls.from_args(retriever, llm=chosen, **arguments)

    @classmethod
    def from_query_engine(
        cls, engine: BaseQueryEngine, *, critic: Any = None, loop: FeedbackConfig | None = None
    ) -> Self:
        """The parts of an existing engine, with selection and feedback around them.

        Args:
            engine: A `RetrieverQueryEngine`, such as ``index.as_query_engine(...)`` gives. It stays as it is:
                prompts of the new engine can be updated alone. Retriever and postprocessors are shared; of a
                vector index a `SageRetriever` fetches enough candidates.
            critic: See the class; None: of an engine of ours, as it has it, and so ``loop``.
            loop: Limits of the loop.

        Raises:
            InputError: For another kind of engine.
        """
        if not isinstance(engine, RetrieverQueryEngine):
            raise InputError(f"from_query_engine takes a RetrieverQueryEngine, not {type(engine).__name__}")
        retriever, synthesizer, postprocessors = parts_of(engine)
        if isinstance(retriever, VectorIndexRetriever):
            # Of the two nodes that an engine retrieves by default there is nothing to select.
            retriever = SageRetriever(retriever, select=False)
        if isinstance(engine, SageQueryEngine):
            critic, loop = critic or engine._own_critic, loop or engine._loop
        parts = retriever, copy.copy(synthesizer), postprocessors
        made = cls(*parts, critic=critic, loop=loop or DEFAULT_FEEDBACK)
        return made._observed_by(engine.callback_manager)

    def _observed_by(self, manager: CallbackManager) -> Self:
        """Use a callback manager that the user did not give: a critic that has handlers keeps them."""
        self.callback_manager = manager
        for postprocessor in self._node_postprocessors:
            postprocessor.callback_manager = manager
        if self._critic is not None:
            self._critic.share(manager, force=False)
        return self

    @property
    def _own_critic(self) -> Any:
        """The critic as it is now, for another engine, which can update its prompt alone."""
        return "off" if self._critic is None else copy.copy(self._critic)

    def with_retriever(self, retriever: BaseRetriever) -> Self:
        """The same engine with another retriever; its prompts can be updated alone."""
        synthesizer, others = copy.copy(self._response_synthesizer), list(self._node_postprocessors)
        made = type(self)(retriever, synthesizer, others, critic=self._own_critic, loop=self._loop)
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
        critic = "off" if self._critic is None else self._loop.critic
        return f"{type(self).__name__}({self._retriever!r}, critic={critic!r})"

    def _get_prompt_modules(self) -> PromptMixinType:
        """The synthesizer's prompts and the critic's: one level, LlamaIndex addresses no prompts below."""
        modules: PromptMixinType = {"response_synthesizer": self._response_synthesizer}
        return modules if self._critic is None else modules | {"critic": self._critic}

    @dispatcher.span
    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        """Answer a query."""
        return drive(self._answering(query_bundle))

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        """Answer a query, never blocking the event loop."""
        return await adrive(self._answering(query_bundle))

    def _answering(self, query_bundle: QueryBundle) -> Steps[RESPONSE_TYPE]:
        checked_question(query_bundle)
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            ranking = yield from self._ranking(query_bundle)
            graded = not isinstance(self._response_synthesizer, WITHOUT_ANSWER)
            parts = Parts(
                sage=self._sage,
                after=self._node_postprocessors[self._at + 1 :],
                synthesizer=self._response_synthesizer,
                critic=self._critic if graded else None,
            )
            selection = ranking.selecting(self._sage.selection)
            # Candidates without any score are all shown at first, as the postprocessor does.
            if ranking.nodes and not ranking.scored:
                selection = replace(selection, min_k=len(ranking.nodes), max_k=None)
            loop = replace(self._loop, selection=selection)
            response = yield from SageQuestion(query_bundle, ranking, parts, loop).run()
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    def _ranking(self, query_bundle: QueryBundle) -> Steps[Ranking]:
        """The candidates with their scores."""
        retriever, sage = self._retriever, self._sage
        nodes = yield from Call(retriever.retrieve, retriever.aretrieve, query_bundle)
        for postprocessor in self._node_postprocessors[: self._at]:
            nodes = yield from postprocessed(postprocessor, nodes, query_bundle)
        if not nodes:
            return Ranking((), "probability")
        return (yield from Call(sage.rerank, sage.arerank, nodes, query_bundle))
