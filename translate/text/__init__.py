"""Strings to ids and back: a tokenizer splits text into tokens, a vocabulary numbers them, and a codec does both.

Read tokenizers.py, the interface, then words.py, whitespace.py, pieces.py and labels.py, which hold the tokenizers,
vocabulary.py and codec.py. spacing.py puts spaces back between words, casing.py lower-cases and truecases,
languages.py tells what is special about the writing of a language, bpe_dropout.py segments one text in many ways, and
build.py learns codecs from text (with piece_learning.py). Nothing here uses PyTorch. spaCy, `tokenizers` and torchtext
are imported only in the functions that call them, so that text that is already encoded can be used, and ids decoded,
without them.
"""
