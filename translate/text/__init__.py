"""Strings to ids and back: a tokenizer cuts and joins, vocabulary.py numbers tokens, codec.py does both.

words.py and pieces.py hold the tokenizers, spacing.py puts spaces back between words, bpe_dropout.py cuts one text in
many ways. Nothing here uses PyTorch. spaCy, `tokenizers` and torchtext are imported only where they are called, so that
text that is already cut and counted can be used without them.
"""
