"""Strings to ids and back: a tokenizer cuts and joins, vocabulary.py numbers tokens, codec.py does both.

Read tokenizers.py, the interface, and then words.py, pieces.py and labels.py, which hold the tokenizers. spacing.py
puts spaces back between words, casing.py changes the case, bpe_dropout.py cuts one text in many ways, and build.py
learns all of it from text. Nothing here uses PyTorch. spaCy, `tokenizers` and torchtext are imported only where they
are called, so that text that is already cut and counted can be used without them.
"""
