"""From a model and batches to a trained model: loss, optimizer, schedule, the loop, and what it saves and logs."""
