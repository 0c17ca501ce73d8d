"""The machine: files, memory, cores and devices. Nothing here knows of translation (but paths.py knows the project's
folders), and any other file may use it.

Without PyTorch: files.py (written whole or not at all), paths.py, cgroups.py (limits of containers), pool.py (work in
one process per core), interrupt.py (signals that ask a process to stop), terminal.py (messages that are only shown).
With it: threads.py (work in several threads), device.py (where to compute), precision.py (bfloat16 or float32),
allocation.py (the memory of tensors), free_memory.py, storage.py (tensors in a file), uncompiled.py (optimizers and DDP
that start sooner).
"""
