"""The pipeline: documents in, answers out, composed of the other parts."""
