"""Strings to ids and back: tokenizers.py cuts, vocabulary.py numbers, spacing.py puts spaces back, codec.py does all.

Nothing here knows PyTorch. spaCy and torchtext are imported where they are called, so that what is already cut and
counted can be used without them.
"""
