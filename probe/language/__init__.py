"""What language models know, seen from the probabilities of their tokens: of sentences, facts and single words."""
