"""Evidence-based evaluation of retrieval: whether a search finds all that a question needs."""
