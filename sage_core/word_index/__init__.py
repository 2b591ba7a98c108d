"""Search by words, and by the names of documents, over whatever holds the texts."""
