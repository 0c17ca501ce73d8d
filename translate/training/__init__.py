"""From a model and batches to a trained model: the loop around the updates, and what it measures, saves and logs.

Read learner.py (what the parts of training share) and trainer.py, the loop. In the loop, model_selection.py measures
the model and keeps the best, states.py saves the run, micro_batches.py cuts batches that do not fit into memory. The
rest supports long runs: files (checkpoint.py, snapshots.py, writer.py), memory (memory.py, rehearsal.py), an end before
an update is over (abandon.py), and display and log (progress.py, tracking.py).
"""
