"""sage-rag for LangChain; every name is `sage_langchain`'s own."""

from sage_langchain import *  # noqa: F403
from sage_langchain import __all__ as __all__
