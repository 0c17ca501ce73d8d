"""From text on disk to batches of ids."""
