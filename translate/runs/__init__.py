"""The runs of training: folder.py (what a run leaves, and where), and what a run begins with.

That is its text (preparing.py), its model (starting.py) and, if it goes on, how far it has got (resuming.py).
"""
