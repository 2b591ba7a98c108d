"""Show the fields of pydantic classes in the API reference, with their descriptions (see mkdocs.yml)."""

from __future__ import annotations

import ast
from typing import Any

import griffe


class FieldDescriptions(griffe.Extension):
    """The ``description`` of a ``Field(...)`` becomes the docstring of its attribute.

    griffe-pydantic fails where a base class outside this project has a field without a type.
    """

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Read one attribute."""
        call = attr.value
        if attr.docstring is not None or not isinstance(call, griffe.ExprCall):
            return
        for argument in call.arguments:
            if isinstance(argument, griffe.ExprKeyword) and argument.name == "description":
                attr.docstring = griffe.Docstring(ast.literal_eval(str(argument.value)), parent=attr)
