"""The runs of training: folder.py (what a run leaves, and where), and what a run begins and ends with.

It begins with its text (preparing.py), its model (starting.py), how far it has got, if it goes on (resuming.py), and
what the log says of these (messages.py). It ends with its best model and a summary (result.py).
"""
