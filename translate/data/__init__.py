"""From text on disk to batches of ids.

Read lines.py and corpus.py (labelled.py for labels; digest.py names text by its content), dataset.py and cache.py (with
encoding.py and arrays.py), selection.py and batching.py. mixing.py makes one text of several corpora, resegmented.py
segments text anew in every epoch. corpora.py has all text that a config names (with splits.py, archives.py, multi30k.py
and fetch.py), sides.py, copies.py, processed.py and checks.py say what looks wrong with it, and holdout.py divides a
corpus beforehand, also one in a table (table.py).
"""
