"""The command line `sage-rag`."""
