"""Data sets, metrics, methods and experiments: the papers' tables, remade by anyone."""
