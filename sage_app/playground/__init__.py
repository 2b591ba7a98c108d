"""The page of `sage-rag serve`: a text cut, and a question's ranking cut, with settings to move."""
