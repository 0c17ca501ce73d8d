"""Several processes that train one model together.

Read processes.py (what training asks of its processes, and the single one) and group.py (several of them, with
rendezvous.py, where they find each other), then parallel.py: one model in all of them.
"""
