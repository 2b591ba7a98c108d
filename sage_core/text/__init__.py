"""Plain text: spans, sentences, layout blocks, tokens and keywords. No models."""
