"""From a model and batches to a trained model: loss, optimizer, schedule, the loop, and what it saves and logs.

Read loss.py, objective.py, schedule.py, optimizer.py (with muon.py and uncompiled.py) and update.py, then learner.py
(what the parts of training share) and trainer.py, the loop. In the loop, model_selection.py measures the model and
keeps the best, states.py saves the run, micro_batches.py cuts batches that do not fit into memory.
build.py chooses how an update runs: operation by operation, in two threads on a CPU (threaded.py), or as CUDA graphs on
a GPU (recorded.py). The rest supports long runs: checkpoints (checkpoint.py, writer.py, snapshots.py), signals
(interrupt.py, abandon.py), memory (memory.py, rehearsal.py, recompute.py), several processes (processes.py,
distributed.py, parallel.py), and display and log (progress.py, tracking.py).
"""
