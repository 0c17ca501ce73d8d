"""PyTorch's optimizers without its compiler, which they import only to tell it to leave them alone.

That takes most of a second and 70 MiB, and nothing here is compiled. What keeps the compiler away is wrapped around
methods; these classes have the methods themselves.
"""

from inspect import unwrap

import torch
from torch import optim


class Optimizer(optim.Optimizer):
    """The base class of all optimizers here."""

    add_param_group = unwrap(optim.Optimizer.add_param_group)
    state_dict = unwrap(optim.Optimizer.state_dict)
    load_state_dict = unwrap(optim.Optimizer.load_state_dict)


class Adam(Optimizer, optim.Adam):
    """Adam (Kingma and Ba, 2015): `torch.optim.Adam`."""

    step = torch.no_grad()(unwrap(optim.Adam.step))


class AdamW(Optimizer, optim.AdamW):
    """AdamW (Loshchilov and Hutter, 2019): `torch.optim.AdamW`."""

    step = torch.no_grad()(unwrap(optim.AdamW.step))
