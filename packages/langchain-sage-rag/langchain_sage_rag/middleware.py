"""sage-rag's middlewares for agents (extra ``agents``); the classes are `sage_langchain`'s own."""

from sage_langchain.middleware import SageGroundingMiddleware, SageRetrievalMiddleware

__all__ = ["SageGroundingMiddleware", "SageRetrievalMiddleware"]
