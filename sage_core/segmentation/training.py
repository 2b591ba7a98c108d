"""Training of boundary models (Algorithm 1 of the paper, and the model with context).

``train(data, output, options=TrainOptions(), *, progress=None) -> TrainReport`` is the only door:

- ``data``: a ``.jsonl``/``.jsonl.gz`` file, or a folder of such files or of ``.txt``/``.md`` files, or a list of
  those (see ``mining.read_corpus``);
- ``output``: the folder that gets ``model.safetensors``, ``config.json`` and ``MODEL_CARD.md``;
- ``options``: ``TrainOptions(kind="context" | "pair", init="default" | None | path, epochs=..., seed=0, ...)``;
- ``progress``: called with a ``Progress(stage, step, steps, loss, auc, f1)`` now and then;
- the report holds ``figures`` (held-out metrics with their base rate) and ``path``.

Needs torch: ``pip install "sage-rag[models]"``.
"""
