"""The parser saved, pickled, cached, and run by ingestion pipelines, worker processes included."""

import pickle
from functools import partial
from typing import Any

import pytest
from llama_index.core import Document
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.schema import BaseNode, MetadataMode

from sage_core.segmentation import Segmenter
from sage_llamaindex import SageNodeParser
from tests.fakes.llamaindex import TOPICS, OverlapModel, story

pytestmark = pytest.mark.slow


def numbered_id(i: int, doc: BaseNode) -> str:
    return f"{doc.node_id}-{i}"


numbered_id.fingerprint = "numbered"  # type: ignore[attr-defined]


def prefixed_id(prefix: str, i: int, doc: BaseNode) -> str:
    return f"{prefix}-{i}"


def key(parser: SageNodeParser) -> str:
    return get_transformation_hash([Document(text="a text")], parser)


class TestSaving:
    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"chunk_size": 77, "include_prev_next_rel": False},
            {"target_tokens": 50, "include_metadata": False},
        ],
    )
    def test_dict_and_json_round_trips(self, settings: dict[str, Any]) -> None:
        parser = SageNodeParser(**settings)
        data = parser.to_dict()
        for again in (
            SageNodeParser.from_dict(data),
            SageNodeParser.from_json(parser.to_json()),
        ):
            assert again.to_dict() == data
            assert again.split_text(story()) == parser.split_text(story())
        assert {name: data[name] for name in settings} == settings

    def test_arguments_win_over_what_was_saved(self) -> None:
        data = SageNodeParser(chunk_size=77).to_dict()
        assert SageNodeParser.from_dict(data, chunk_size=88).chunk_size == 88
        assert data["chunk_size"] == 77

    @pytest.mark.parametrize(
        ("own", "again"),
        [
            ({"segmenter": Segmenter(OverlapModel())}, {}),
            ({"segmenter": Segmenter(OverlapModel("old"))}, {"segmenter": Segmenter(OverlapModel("new"))}),
            ({"id_func": numbered_id}, {}),
            ({"id_func": partial(prefixed_id, "p")}, {}),
        ],
    )
    def test_objects_are_passed_again_and_others_are_told(
        self, own: dict[str, Any], again: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        data = SageNodeParser(**own).to_dict()
        assert SageNodeParser.from_dict(data, **own).split_text(story())
        assert not caplog.text
        SageNodeParser.from_dict(data, **again)
        assert "from_dict again" in caplog.text


class TestPickling:
    def test_every_setting_survives_and_the_live_object_is_left_alone(self) -> None:
        own = Segmenter(OverlapModel(), max_tokens=50, min_tokens=0, counter="words")
        parser = SageNodeParser(segmenter=own, chunk_size=66, id_func=numbered_id)
        before = dict(vars(parser))
        again = pickle.loads(pickle.dumps(parser))
        assert vars(parser) == before
        assert again.to_dict() == parser.to_dict()
        assert again.id_func is numbered_id
        document = Document(id_="d", text=story())
        assert [n.get_content() for n in again([document])] == [n.get_content() for n in parser([document])]

    def test_what_cannot_be_pickled_is_an_error_not_a_default(self) -> None:
        with pytest.raises((pickle.PicklingError, AttributeError)):
            pickle.dumps(SageNodeParser(id_func=lambda i, doc: "x"))


class TestCacheKeys:
    def test_everything_that_changes_chunks_changes_the_key(self) -> None:
        later = SageNodeParser()
        later.target_tokens = 40
        parsers = [
            SageNodeParser(),
            later,
            SageNodeParser(target_tokens=90),
            SageNodeParser(chunk_size=99),
            SageNodeParser(segmenter=Segmenter(strategy="threshold")),
            SageNodeParser(id_func=numbered_id),
            SageNodeParser(id_func=partial(prefixed_id, "a")),
            SageNodeParser(id_func=partial(prefixed_id, "b")),
            SageNodeParser(id_func=Tenant("a").node_id),
            SageNodeParser(id_func=Tenant("b").node_id),
            SageNodeParser(segmenter=Segmenter(OverlapModel("one"))),
            SageNodeParser(segmenter=Segmenter(OverlapModel("two"))),
            SageNodeParser(segmenter=Segmenter(OverlapModel("two"), counter="words")),
        ]
        assert len({key(p) for p in parsers}) == len(parsers)

    def test_equal_parsers_have_equal_keys(self) -> None:
        assert key(SageNodeParser()) == key(SageNodeParser())

        def same(i: int, document: BaseNode) -> str:
            return "x"

        assert key(SageNodeParser(id_func=same)) != key(SageNodeParser(id_func=same))
        same.fingerprint = "always x"  # type: ignore[attr-defined]
        assert key(SageNodeParser(id_func=same)) == key(SageNodeParser(id_func=same))


class TestPipelines:
    def test_the_cache_serves_the_same_parser_only(self) -> None:
        cache = IngestionCache()
        documents = [Document(id_="d", text=story())]
        models = [OverlapModel("one"), OverlapModel("one"), OverlapModel("two")]
        found = []
        for model in models:
            parser = SageNodeParser(segmenter=Segmenter(model, min_tokens=0))
            found.append(IngestionPipeline(transformations=[parser], cache=cache).run(documents=documents))
        assert [len(m.calls) for m in models] == [1, 0, 1]
        assert [[n.get_content() for n in nodes] for nodes in found] == [TOPICS] * 3

    def test_two_worker_processes(self) -> None:
        own = Segmenter(OverlapModel(), min_tokens=0, max_tokens=12, counter="words")
        parser = SageNodeParser(segmenter=own, id_func=numbered_id)
        documents = [Document(id_=f"d{i}", text=story(), metadata={"n": i}) for i in range(4)]
        pipeline = IngestionPipeline(transformations=[parser], disable_cache=True)
        alone = pipeline.run(documents=documents)
        together = pipeline.run(documents=documents, num_workers=2)
        assert together == alone
        # The parser of this process still works, with its own settings.
        assert parser.segmenter is own
        assert pipeline.run(documents=documents) == alone
        assert max(len(n.get_content(metadata_mode=MetadataMode.NONE).split()) for n in alone) <= 12


class Tenant:
    def __init__(self, name: str) -> None:
        self.name_of_tenant = name

    def node_id(self, i: int, doc: BaseNode) -> str:
        return f"{self.name_of_tenant}-{doc.node_id}-{i}"


def test_paths_are_kept_and_not_shown_to_the_llm() -> None:
    document = Document(text=story(), metadata={"file_path": "/data/guide.md", "year": 1911})
    for node in SageNodeParser().get_nodes_from_documents([document]):
        assert node.metadata == document.metadata
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert "file_path" not in node.get_content(mode) and "1911" in node.get_content(mode)
    assert "file_path" not in document.excluded_llm_metadata_keys
