"""One model in several processes: a copy in each (DDP), or its tensors sharded between them (FSDP).

Either way, the gradient of an update is the mean over the processes, the same in all of them.
"""

import copy
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.torch_version import TorchVersion

from translate.distributed.processes import Processes
from translate.errors import ConfigError
from translate.model.build import Model
from translate.model.layers import DecoderLayer, blocks_of
from translate.system.uncompiled import DistributedDataParallel, import_compiler


class ParallelModel:
    """A model as the processes of a run train it: what is the same however many they are, and however they share it.

    Calling it is the forward pass in training. `model` is what is trained; the optimizers get its parameters.
    """

    passes_alone = True  # whether a pass that is not the last one of an update needs no other process

    def __init__(self, model: Model) -> None:
        self.model = model
        self.forward: nn.Module = model

    def __call__(self, *inputs: Tensor | None, **options: bool) -> Tensor:
        return self.forward(*inputs, **options)

    def backward_pass(self, *, last: bool) -> AbstractContextManager[None]:
        """Wraps the passes over one batch; after the `last` of an update, gradients are averaged over processes."""
        return nullcontext()

    def unsharded_model(self) -> Model:
        """The model with unsharded weights, not to be changed; its weights are valid in the first process only."""
        return self.model

    def unsharded(self, tensor: Tensor) -> Tensor:
        """The unsharded tensor of a parameter, or of another tensor that is sharded like one."""
        return tensor

    def shard_of(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        """This process's shard of `tensor`, which is unsharded, and is to be sharded like `parameter`."""
        return tensor

    def weights(self) -> dict[str, Tensor]:
        """All parameters, unsharded."""
        return {name: self.unsharded(parameter.detach()) for name, parameter in self.model.named_parameters()}

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set all parameters from unsharded ones."""
        for name, parameter in self.model.named_parameters():
            parameter.copy_(self.shard_of(weights[name], parameter))


class Single(ParallelModel):
    """The model in a single process, which has nothing to share."""


class Replicated(ParallelModel):
    """A copy of the model in each process (DistributedDataParallel: Li et al., 2020)."""

    def __init__(self, model: Model, processes: Processes) -> None:
        super().__init__(model)
        with warnings.catch_warnings():
            # Newer versions of PyTorch deprecate this argument; the one in its place still copies buffers at the start.
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated")
            # DDP must not broadcast buffers: tables of positions grow on demand, and so differ between processes.
            self.ddp = DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
        self.forward = self.ddp

    def backward_pass(self, *, last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last else self.ddp.no_sync()


class Sharded(ParallelModel):
    """Parameters, gradients and optimizer state in shards (torch.distributed.fsdp: Zhao et al., 2023).

    FSDP gathers the weights of a block only while it computes. The first process also has an unsharded copy of the
    model, for validation.

    Raises:
        ConfigError: this PyTorch cannot do it on a CPU.
    """

    passes_alone = False

    def __init__(self, model: Model, processes: Processes) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        super().__init__(model)
        device_type = next(model.parameters()).device.type
        # 2.6 lacks what it takes; 2.7 and 2.8 add up gradients in place of averaging them.
        if device_type == "cpu" and TorchVersion(torch.__version__) < "2.9":
            raise ConfigError(
                f"training.parallel: fsdp does not work on CPUs with PyTorch {torch.__version__}; "
                "install 2.9 or later, or use training.parallel: ddp"
            )
        import_compiler()
        self.copy = copy.deepcopy(model) if processes.rank == 0 else None
        # FSDP warns for each projection that changing its output in place would drop a hook. Only the loss changes one,
        # the logits, and it detaches them first, which keeps the hook.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        self.mesh = init_device_mesh(device_type, (processes.count,))
        # PyTorch's caches keep the mesh, and in newer versions the mesh keeps the group, whose threads would still run
        # while Python shuts down, and can then end the process by SIGABRT.
        processes.at_the_end(getattr(self.mesh, "_pg_registry", {}).clear)
        for block in blocks_of(model):
            # Keys and values of the source are computed before the block's forward, in which FSDP gathers its weights.
            if isinstance(block, DecoderLayer):
                attention = block.cross_attention
                for module in (attention.key, attention.key_norm, attention.value):
                    fully_shard(module, mesh=self.mesh)
            fully_shard(block, mesh=self.mesh)
        fully_shard(model, mesh=self.mesh)

    @torch.no_grad()
    def unsharded_model(self) -> Model:
        own = {} if self.copy is None else dict(self.copy.named_parameters())
        for name, parameter in self.model.named_parameters():
            tensor = self.unsharded(parameter)
            if name in own:
                own[name].copy_(tensor)
        return self.model if self.copy is None else self.copy

    def unsharded(self, tensor: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor

        return tensor.full_tensor().cpu() if isinstance(tensor, DTensor) else tensor

    def shard_of(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor, Replicate

        assert isinstance(parameter, DTensor)
        everywhere = DTensor.from_local(tensor.to(self.mesh.device_type), self.mesh, [Replicate()], run_check=False)
        return everywhere.redistribute(placements=parameter.placements)  # without communication


def replicated(tensor: Tensor) -> Tensor:
    """The same tensor, unsharded in every process if FSDP has sharded it."""
    if not hasattr(tensor, "redistribute"):
        return tensor
    from torch.distributed.tensor import Replicate

    return tensor.redistribute(placements=[Replicate()])


PARALLEL: dict[str, Callable[[Model, Processes], ParallelModel]] = {"ddp": Replicated, "fsdp": Sharded}


def build_parallel(name: str, model: Model, processes: Processes) -> ParallelModel:
    """The model for these processes; if there are several, `name` says how they share it."""
    return Single(model) if processes.count == 1 else PARALLEL[name](model, processes)
