"""From a model and batches to a trained model: loss, optimizer, schedule, the loop, and what it saves and logs.

Read loss.py, objective.py, schedule.py, optimizer.py and update.py, then trainer.py. The rest keeps runs alive: states
(checkpoint.py, writer.py, snapshots.py, interrupt.py), memory (memory.py, free_memory.py, rehearsal.py, recompute.py),
several processes (distributed.py, parallel.py), updates recorded on a GPU (recorded.py), and what is shown and logged
(progress.py, tracking.py).
"""
