"""The training loss, and what is counted on the way: sums over tokens, divided once by the tokens of the whole step.

Dimension letters in names: N real target tokens, V target vocabulary.
"""

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Sums:
    """Sums over real target tokens. `loss` is label-smoothed, `nll` is not; both in nats."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0

    def add(self, loss: float, nll: float, tokens: int) -> None:
        self.loss += loss
        self.nll += nll
        self.tokens += tokens


def smoothed_loss(logits_NV: Tensor, labels_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The summed cross-entropy with and without label smoothing (Szegedy et al., 2016), as scalars in float32.

    The true token has probability 1 - smoothing, and `smoothing` is spread evenly over the whole vocabulary, as in
    `torch.nn.functional.cross_entropy`; written out because that computes just one of the two.
    """
    logits_NV = logits_NV.float()
    normalizer_N = logits_NV.logsumexp(1)
    nll_N = normalizer_N - logits_NV.gather(1, labels_N[:, None]).squeeze(1)
    if smoothing == 0.0:
        return nll_N.sum(), nll_N.sum()
    uniform_N = normalizer_N - logits_NV.mean(1)
    return ((1 - smoothing) * nll_N + smoothing * uniform_N).sum(), nll_N.sum()
