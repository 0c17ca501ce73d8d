"""Optimizers without PyTorch's compiler do what its own do; what imports it does so before there are tensors.

That DDP gives the gradients of one process is tested in integration/test_several_processes.py.
"""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn, optim

from translate.system.uncompiled import Adam, AdamW

ROOT = Path(__file__).resolve().parents[2]
TRAINING = """
import sys
from pathlib import Path
from translate.config.loading import load_config
from translate.pipeline import train

few = "training.max_steps=4", "training.validate_every=2", "training.samples=0", "decoding.max_ratio=0.1"
small = "model.d_model=16", "model.ffn=16", "model.heads=2", "model.encoder_layers=1", "model.decoder_layers=1"
for kind in ("adam", "muon"):  # which has AdamW, too
    how = f"output={sys.argv[1]}/{kind}", f"data.cache={sys.argv[1]}/cache", f"training.optimizer={{kind: {kind}}}"
    train(load_config(Path("configs/demo.yaml"), [*few, *small, *how]))

import torch
import torch.distributed as dist
from translate.system.uncompiled import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
DistributedDataParallel(torch.nn.Linear(2, 1))(torch.ones(3, 2)).sum().backward()
dist.destroy_process_group()
print("torch._dynamo" in sys.modules)

import gc
from translate.config.model import TransformerConfig
from translate.model.build import build_transformer
from translate.optimization.recompute import recompute_blocks

# Activation checkpointing imports it, and then no activation may be left in what is only collected later.
sizes = {"d_model": 16, "ffn": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
model = build_transformer(TransformerConfig(**sizes), source_size=9, target_size=9)
tokens, mask = torch.ones(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)
gc.collect()
gc.disable()
recompute_blocks(model)
model(tokens, mask, tokens, mask).sum().backward()
gc.set_debug(gc.DEBUG_SAVEALL)
gc.collect()
print("torch._dynamo" in sys.modules, sum(isinstance(found, torch.Tensor) for found in gc.garbage))
"""


@pytest.mark.parametrize(("ours", "torchs"), [(Adam, optim.Adam), (AdamW, optim.AdamW)])
def test_they_are_the_same_optimizers(ours: type[optim.Optimizer], torchs: type[optim.Optimizer]) -> None:
    torch.manual_seed(1)
    one = nn.Linear(4, 3)
    other = copy.deepcopy(one)
    settings: dict[str, Any] = {"lr": 0.1, "betas": (0.9, 0.98), "fused": True}
    optimizers = ours(one.parameters(), **settings), torchs(other.parameters(), **settings)
    for seed in range(3):
        x = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))
        for model, optimizer in zip((one, other), optimizers, strict=True):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        optimizers[0].load_state_dict(copy.deepcopy(optimizers[1].state_dict()))
        assert torch.equal(one.weight, other.weight)
        assert torch.equal(one.bias, other.bias)
    assert one.weight.requires_grad


@pytest.mark.slow
def test_training_and_ddp_do_not_import_the_compiler_and_activation_checkpointing_does_in_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAINING, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "False\nTrue 0\n"
