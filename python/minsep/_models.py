"""Models and optimizers that cannot be trained privately, refused by the name of a layer or a
parameter."""

from __future__ import annotations

from typing import Any

import torch

from ._arguments import shown

_ITSELF = "give the model itself, which is its attribute module, to private and to the optimizer: "
_WRAPPERS = {
    "DataParallel": _ITSELF + "gradients by example are made on one device of each process",
    "DistributedDataParallel": _ITSELF + "private finds the processes of torch.distributed, and adds up their sums, exactly, before there is noise",
    "FullyShardedDataParallel": "divide the model by torch.distributed.fsdp.fully_shard(model), from PyTorch 2.6 on, in its place, before there is an optimizer",
    "GradSampleModule": _ITSELF + "private makes the gradients by example itself",
}


def check_types(model: Any, optimizer: Any, loss: Any, scheduler: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: must be a torch.nn.Module, and not {type(model).__name__}")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer: must be one of torch.optim, and not {type(optimizer).__name__}")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("optimizer: LBFGS asks for several gradients in a step, and the noise of a step hides one: take another optimizer, such as SGD or Adam")
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError("model: is a module of TorchScript, of whose layers no gradients by example are made: give the module itself, and export it after the training")
    if isinstance(loss, torch.nn.modules.loss._Loss):
        raise TypeError(f"loss: is torch.nn.{type(loss).__name__}, a function of outputs and targets: must be one of the model and one example: loss=lambda model, x, y: criterion(model(x), y)")
    if not callable(loss):
        raise TypeError(f"loss: must be a function of the model and one example, such as lambda model, x, y: cross_entropy(model(x), y), and not {type(loss).__name__}")
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise ValueError("scheduler: ReduceLROnPlateau needs a metric: step it yourself, with a metric of data outside the training")
    if scheduler is not None and (isinstance(scheduler, type) or not hasattr(scheduler, "step")):
        raise TypeError(f"scheduler: must be one of torch.optim.lr_scheduler, such as StepLR(optimizer, 10), and not {shown(scheduler)}")


def check_parameters(trained: dict[str, torch.Tensor], model: Any, loss: Any, optimizer: Any) -> None:
    """The parameters that are trained are those of the optimizer."""
    given = [p for group in optimizer.param_groups for p in group["params"]]
    known, names = {id(p) for p in given}, {id(p): name for name, p in model.named_parameters()}
    for name, p in trained.items():
        if id(p) not in known:
            raise ValueError(f"optimizer: does not have the parameter {name}, which requires a gradient: give it to the optimizer, or set its requires_grad to False: noise and norm are for the trained parameters")
        if not p.is_floating_point():
            raise ValueError(f"model: the parameter {name} is of type {p.dtype}: must be floating-point; if it is not trained, set its requires_grad to False")
    for name, p in loss.named_parameters() if isinstance(loss, torch.nn.Module) else ():
        if p.requires_grad and id(p) not in names:
            raise ValueError(f"loss: has a parameter of its own, {name}, which requires a gradient: move it into the model, or set its requires_grad to False")
    for p in given:
        if id(p) not in names:
            raise ValueError(f"optimizer: has a parameter of shape {tuple(p.shape)} that is not in the model: it would be trained without clipping and noise. Give the optimizer the parameters of this model, after moving it to its device and dividing it")
        if not p.requires_grad:
            raise ValueError(f"optimizer: has the parameter {names[id(p)]}, which is frozen: give it [p for p in model.parameters() if p.requires_grad]")


def check_modules(model: Any) -> None:
    """Refuses layers that mix examples, or whose buffers or weights would learn of them, by name."""
    for name, module in model.named_modules():
        kind = type(module).__name__
        at = f"{kind} at {name or 'the top'}"
        if kind in _WRAPPERS:
            raise ValueError(f"model: {at}: {_WRAPPERS[kind]}")
        if isinstance(module, torch.nn.modules.instancenorm._InstanceNorm):
            mixes = module.track_running_stats and module.training
        else:
            batch_norm = isinstance(module, torch.nn.modules.batchnorm._BatchNorm) or "BatchNorm" in kind and not kind.startswith("Frozen")
            mixes = batch_norm and (module.training or not getattr(module, "track_running_stats", True))
        if mixes:
            raise ValueError(
                f"model: {at}: normalises by the statistics of a batch, so that an example changes the gradients of others, or keeps statistics of examples without noise. "
                "Take GroupNorm or LayerNorm in its place, or keep its eval mode with statistics of public data"
            )
        if kind == "_SpectralNorm" and module.training:
            raise ValueError(f"model: {at}: its buffers change in forward, with each example: take another norm, or keep its eval mode")
        if getattr(module, "sparse", False) is True:
            raise ValueError(f"model: {at}: has sparse gradients, and noise is added to all coordinates: give it sparse=False")
        if getattr(module, "max_norm", None) is not None and isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            raise ValueError(f"model: {at}: rescales in forward, without noise, the rows of weights that an example looks up: leave max_norm out")
