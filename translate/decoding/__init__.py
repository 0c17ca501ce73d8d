"""Search: from a model's next-token log-probabilities to ids.

Read step.py, then hypothesis.py, greedy.py, beam.py and sampling.py, which know no model and no settings;
search.py applies them to the transformer, within limits.py and in batches that fit into memory (batch_size.py);
ensemble.py makes several models into one. teacher_forcing.py passes given translations through the model: how probable
they are, and what validation asks of them.
"""
