"""Boundary models: numpy inference of the bundled ones, and how models are stored and loaded."""
