"""The weights of `sage-minilm`, the cross-encoder of sage-rag. There is no code here: sage-rag reads them."""
