"""How good a model is, in training and afterwards.

bleu.py scores translations, accuracy.py labels, and score_warnings.py says what makes scores mislead. validation.py
measures a model during training; scoring.py a saved model on any text, and reports.py finds what it has written.
"""
