"""sage-rag core: segment text, select by score, check answers. Knows no framework."""
