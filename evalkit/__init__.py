"""Evidence-based evaluation of retrieval: does a search find all that a question needs?"""
