"""PyTorch's own operators in place of the fast ones: to see what those gain, and whether they cause an error."""

from collections.abc import Collection

from torch import nn

from translate.model.attention import MultiHeadAttention
from translate.model.dropout import Dropout
from translate.model.projection import Projection
from translate.model.rows import PaddedRows


def make_plain(model: nn.Module, names: Collection[str]) -> None:
    """Switch off the fast paths in `names` in all of `model`, which keeps its weights.

    Their names are attention, dropout, rows and projection; others have no effect here.
    """
    for module in model.modules():
        if "attention" in names and isinstance(module, MultiHeadAttention):
            module.explicit = False
        if "rows" in names and isinstance(module, PaddedRows):
            module.multiple = 1
        if "projection" in names and isinstance(module, Projection):
            module.columns = 1
        if "dropout" in names:
            for name, child in module.named_children():
                if isinstance(child, Dropout):
                    setattr(module, name, nn.Dropout(child.p))
