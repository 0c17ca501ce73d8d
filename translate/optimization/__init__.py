"""From a batch to new weights: the loss, its gradient, the optimizer, and its learning rate.

Read loss.py, objective.py, optimizer.py (with muon.py) and update.py, where they come together, and schedule.py.
build.py chooses how an update runs: operation by operation, in two threads on a CPU (threaded.py), or as CUDA graphs on
a GPU (recorded.py). recompute.py is for models that take too much memory.
"""
