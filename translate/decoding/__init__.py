"""Search: from a model's next-token log-probabilities to ids.

Read step.py, then hypothesis.py, greedy.py, beam.py and sampling.py, which know no model and import only torch;
search.py applies them to the transformer, in batches that fit into memory (fitting.py); ensemble.py makes several
models into one. rescore.py finds how probable given translations are.
"""

from translate.decoding.beam import beam_search
from translate.decoding.greedy import greedy_search
from translate.decoding.hypothesis import Hypothesis, length_penalized
from translate.decoding.sampling import sample
from translate.decoding.step import State, Step

__all__ = ["Hypothesis", "State", "Step", "beam_search", "greedy_search", "length_penalized", "sample"]
