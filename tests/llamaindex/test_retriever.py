"""`SageRetriever` over real indices: candidates by meaning and by words, filters, changes, and what it says."""

import pickle
from pathlib import Path

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from sage_core.errors import InputError
from sage_core.selection import SelectionConfig
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine, SageRetriever
from tests.fakes.llamaindex import FixedRetriever, HashEmbedding, ScriptedLLM, grade, trace_of

MANY = [f"The pump number {i} of the ferry is painted green." for i in range(80)]
PART = "Spare parts: seal XK-200/7b fits."
QUESTION = "the pump of the ferry painted green, what fits XK-200/7b?"
SCORES = (0.5, 0.49, 0.48, 0.47, 0.46)


def nodes() -> list[TextNode]:
    texts = [*MANY, PART]
    return [
        TextNode(text=t, id_=f"n{i}", metadata={"i": i, "kind": f"k{i % 2}"}) for i, t in enumerate(texts)
    ]


def simple() -> VectorStoreIndex:
    return VectorStoreIndex(nodes(), embed_model=HashEmbedding())


def test_filters_within_filters_and_lists_of_nodes():
    some = MetadataFilters(
        filters=[
            MetadataFilter(key="i", value=80, operator=FilterOperator.GTE),
            MetadataFilters(
                filters=[MetadataFilter(key="kind", value="k0"), MetadataFilter(key="kind", value="k1")],
                condition=FilterCondition.OR,
            ),
        ],
        condition=FilterCondition.AND,
    )
    words = SageRetriever.from_index(simple(), candidates=3)._words
    assert [n.node_id for n in words.search(QUESTION, 5, {"filters": some})] == ["n80"]
    assert [n.node_id for n in words.search("pump", 5, {"node_ids": ["n3"]})] == ["n3"]
    assert words.search("pump", 5, {"doc_ids": ["no such document"]}) == []


def test_a_node_deleted_from_the_index_alone_is_not_found():
    index = simple()
    retriever = SageRetriever.from_index(index, candidates=3, select=False)
    index.delete_nodes(["n80"])  # stays in the docstore
    assert PART not in [n.text for n in retriever.retrieve(QUESTION)]


def test_a_small_index_is_no_reason_for_a_warning(caplog):
    index = VectorStoreIndex(nodes()[:2], embed_model=HashEmbedding())
    assert len(SageRetriever.from_index(index).retrieve(QUESTION)) == 2
    assert not caplog.records
    SageNodePostprocessor().postprocess_nodes(index.as_retriever().retrieve(QUESTION), query_str=QUESTION)
    assert "similarity_top_k (some 60)" in caplog.text


def test_over_any_retriever():
    found = SageRetriever(FixedRetriever(*SCORES), words=nodes(), select=False).retrieve(QUESTION)
    assert PART in [n.text for n in found] and len(found) > 5
    plain = SageRetriever(FixedRetriever(*SCORES), select=False).retrieve(QUESTION)
    assert [n.node_id for n in plain] == [f"n{i}" for i in range(5)]


@pytest.mark.parametrize("unknown", [(0,), (2, 3), (4,)])
def test_a_node_without_a_score_among_others_with_one_stays(unknown):
    scores = [None if i in unknown else score for i, score in enumerate(SCORES)]
    found = SageRetriever(FixedRetriever(*scores), select=False).retrieve(QUESTION)
    assert {n.node_id for n in found} == {f"n{i}" for i in range(5)}


def test_an_empty_index_and_one_filled_later():
    index = VectorStoreIndex([], embed_model=HashEmbedding())
    retriever = SageRetriever.from_index(index)
    assert retriever.retrieve(QUESTION) == []
    index.insert_nodes([TextNode(text=PART)])
    assert [n.text for n in retriever.retrieve(QUESTION)] == [PART]


def test_the_engine_takes_a_retriever_with_its_settings():
    retriever = SageRetriever.from_index(simple(), candidates=3, selection=SelectionConfig(max_k=1))
    engine = SageQueryEngine.from_args(retriever, llm=MockLLM(), critic="off")
    assert len(engine.query(QUESTION).source_nodes) == len(retriever.retrieve(QUESTION)) == 1
    with pytest.raises(InputError):
        SageQueryEngine.from_args(retriever, llm=MockLLM(), node_postprocessors=[SageNodePostprocessor()])


def test_a_round_of_the_engine_widens_beyond_what_the_retriever_selects():
    retriever = SageRetriever.from_index(simple(), candidates=9, selection=SelectionConfig(min_k=1, max_k=4))
    llm = ScriptedLLM.of(["short", "long"], [grade(3, 1), grade(9)])
    first, second = trace_of(SageQueryEngine.from_args(retriever, llm=llm).query(QUESTION)).rounds
    assert first.selection.cut < second.selection.cut
    assert first.selection.candidates > len(retriever.retrieve(QUESTION)), "all candidates, not the kept"


@pytest.mark.parametrize(
    ("wrong", "options"),
    [
        (FixedRetriever(), {"candidates": 0}),
        (FixedRetriever(), {"words": "bm25"}),
        (FixedRetriever(), {"selection": SelectionConfig(max_context_tokens=9), "max_context_tokens": 8}),
        ("a text", {}),
    ],
)
def test_wrong_arguments(wrong, options):
    with pytest.raises(InputError):
        SageRetriever(wrong, **options)
    with pytest.raises(InputError):
        SageRetriever.from_index(wrong, **options)


def test_the_word_search_of_a_file_survives_a_pickle(tmp_path: Path):
    words = SageRetriever.from_index(simple(), words_path=tmp_path / "w.sqlite3")._words
    words.search("pump", 1)
    assert len(pickle.loads(pickle.dumps(words.index))) == 81


@pytest.mark.soak  # 20,000 nodes, twice
def test_words_of_many_nodes_are_indexed_behind_llamaindex_s_progress_bar(capsys):
    nodes = [TextNode(text=f"Note {i} on boat {i % 97}.", id_=str(i)) for i in range(20_000)]
    for shown in (False, True):
        index = VectorStoreIndex(nodes, embed_model=MockEmbedding(2), show_progress=shown)
        retriever = SageRetriever.from_index(index)
        capsys.readouterr()
        retriever.retrieve("What is said of boat 42?")
        assert ("Indexing words" in capsys.readouterr().err) == shown
