"""Every public class has an example in its docstring, and every example runs."""

import doctest
import importlib
import inspect
import sys
from importlib.util import find_spec

import pytest

from sage_core import SageError

ROOMS = ("selection", "feedback", "ranking", "llm", "verify", "segmentation", "embedding")
PACKAGES = (
    "sage_core",
    *(f"sage_core.{room}" for room in ROOMS),
    "sage_app",
    "sage_app.documents",
    "sage_app.answers",
    "sage_llamaindex",
    "sage_langchain",
)
FRAMEWORKS = {"sage_llamaindex": "llama_index", "sage_langchain": "langchain_core"}

# What an example needs beyond the base install.
NEEDS = {
    "Answer": ("chromadb",),
    "Candidate": ("chromadb",),
    "ChromaStore": ("chromadb",),
    "LLMAnswerer": ("openai",),
    "OpenAIChat": ("openai",),
    "Retrieval": ("chromadb",),
    "Sage": ("chromadb",),
}

# Protocols that extend another or that only the pipeline implements, and errors whose base has the example.
WITHOUT = {
    "Answerer",
    "ChatModel",
    "StreamingAnswerer",
    "Store",
    "InputError",
    "ModelError",
    "StoreError",
}


def public_classes() -> dict[str, type]:
    found: dict[str, type] = {}
    for package in PACKAGES:
        if find_spec(FRAMEWORKS.get(package, "sage_core")) is None:
            continue
        module = importlib.import_module(package)
        for name in module.__all__:
            if inspect.isclass(value := getattr(module, name)):
                found.setdefault(f"{value.__module__}.{name}", value)
    return found


def examples_of(value: type) -> doctest.DocTest:
    names = vars(sys.modules[value.__module__])
    return doctest.DocTestParser().get_doctest(value.__doc__ or "", {**names}, value.__name__, None, 0)


CLASSES = public_classes()
WITH_EXAMPLE = [
    pytest.param(value, id=name) for name, value in CLASSES.items() if ">>>" in (value.__doc__ or "")
]


def test_every_public_class_has_an_example():
    without = {value.__name__: value for value in CLASSES.values() if ">>>" not in (value.__doc__ or "")}
    assert without.keys() <= WITHOUT
    assert all(
        issubclass(value, SageError) or getattr(value, "_is_protocol", False) for value in without.values()
    )


@pytest.mark.parametrize("value", WITH_EXAMPLE)
def test_the_example_runs(value: type):
    for package in NEEDS.get(value.__name__, ()):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    result = runner.run(examples_of(value), out=report.append)
    assert result.attempted
    assert not result.failed, "".join(report)
