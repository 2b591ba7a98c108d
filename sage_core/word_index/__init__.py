"""Search by keyword and by the names of documents, over whatever holds the texts."""
