"""minsep in Hugging Face's Trainer: a training on the batches of a run directory, with its noise."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any, Callable

import torch
import transformers

from ._alone import Loader
from ._private import Private
from ._run import Run, need_run
from .errors import TrainingError

STATE_NAME = "minsep.json"


def last_checkpoint(folder: str | os.PathLike[str]) -> str | None:
    """The last checkpoint of a PrivateTrainer in a folder that was finished before a kill, for
    `train(resume_from_checkpoint=…)`. None if there is none."""
    found = [name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if name.removeprefix("checkpoint-").isdecimal()]
    paths = [os.path.join(folder, name) for name in sorted(found, key=lambda name: -int(name.removeprefix("checkpoint-")))]
    return next((path for path in paths if _is_finished(path)), None)


def _is_finished(checkpoint: str) -> bool:
    """Whether a checkpoint has the file that Trainer writes last, before it removes earlier ones,
    and that of the guard."""
    try:
        for name in STATE_NAME, "trainer_state.json":
            with open(os.path.join(checkpoint, name), encoding="utf-8") as file:
                json.load(file)
        return True
    except (OSError, ValueError):
        return False


class PrivateTrainer(transformers.Trainer):  # type: ignore[misc, unused-ignore]
    """A transformers.Trainer with a private training: it takes the batches and the noise of a run
    directory.

    run comes from `join` with the ids of train_dataset, in its order. Each step of Trainer is a
    step of the run. Its gradients are made for per_device_train_batch_size examples at a time, so
    that gradient_accumulation_steps, which warns, counts as 1.
    args.max_steps may be left out, or be at most the run's steps. All other arguments are those of
    Trainer. So is a resume, `train(resume_from_checkpoint=last_checkpoint(output_dir))`. A
    checkpoint has the state of the guard, in minsep.json; the first one is written before the first
    step, unless save_strategy is "no". loss(model, **example) is the loss of a batch of one
    example, by default the loss in the model's output. data_collator gets each example alone, and
    pads all to one length: no example may depend on another, as it would if all were padded to the
    longest. clipping, key, folder, checkpoint, checkpoint_steps and device_noise are as in
    `minsep.torch.private`. A trainer trains once; when `train` ends, another training may use the
    run.

    Trainer's reports on the training examples are left out: training loss, and counts of tokens and
    of operations, which no noise hides.

    `training_step` leaves the noisy mean in p.grad, and Trainer's own loop makes the step of the
    optimizer, which is refused with other gradients.
    """

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *more: Any,
        run: Run,
        key: str | os.PathLike[str] | None = None,
        loss: Callable[..., torch.Tensor] | None = None,
        clipping: str = "example",
        folder: str | os.PathLike[str] | None = None,
        checkpoint: str | None = None,
        checkpoint_steps: int = 100,
        device_noise: bool = False,
        **options: Any,
    ) -> None:
        self.run = need_run(run, "PrivateTrainer(model, args, run=run)")
        if args is None:
            raise ValueError("args: must be given: transformers.TrainingArguments(output_dir, max_grad_norm=0, …)")
        if args.gradient_accumulation_steps != 1:
            warnings.warn(f"gradient_accumulation_steps {args.gradient_accumulation_steps}: is not needed, and counts as 1: a batch of the run is one step, made per_device_train_batch_size examples at a time", stacklevel=2)
            args.gradient_accumulation_steps = 1
        _check_arguments(args, self.run)
        for name in "compute_loss_func", "model_init":
            if options.get(name) is not None:
                raise ValueError(f"{name}: must be left out: {_OPTIONS[name]}")
        if args.max_steps < 0:
            args.max_steps = self.run.steps
        args.ignore_data_skip = True  # the loader itself begins at the guard's next step
        self._loss = loss or _model_loss
        self._options: dict[str, Any] = {"key": key, "clipping": clipping, "folder": folder, "checkpoint": checkpoint, "checkpoint_steps": checkpoint_steps, "device_noise": device_noise}
        self._private: Private | None = None
        super().__init__(model, args, *more, **options)
        self._check_itself()

    def _check_itself(self) -> None:
        _check_arguments(self.args, self.run)  # once more: accelerator_config changes them
        if self.accelerator.num_processes > 1 or self.is_deepspeed_enabled or self.is_fsdp_enabled:
            raise ValueError("args: ask for several processes, DeepSpeed or FSDP, and PrivateTrainer trains on one device; minsep.torch.private trains on several processes, with fully_shard too")
        if self.accelerator.scaler is not None:
            raise ValueError("args: fp16 has a gradient scaler, which changes gradients after the noise is added: take bf16")
        for method, words in _METHODS.items():
            if getattr(type(self), method) is not getattr(PrivateTrainer, method):
                raise ValueError(f"{method}: of {type(self).__name__} {words}")
        others = self.eval_dataset.values() if isinstance(self.eval_dataset, dict) else [self.eval_dataset]
        if self.train_dataset is not None and any(x is self.train_dataset for x in others):
            raise ValueError("eval_dataset: is train_dataset, and no noise hides the metrics of training examples: give other examples, or none")
        self.get_train_dataloader()  # which refuses a data set

    # The training

    @property
    def private(self) -> Private:
        """The training, which begins with `train`."""
        if self._private is None:
            raise TrainingError("private: the training begins with train()")
        return self._private

    def train(self, resume_from_checkpoint: Any = None, *given: Any, **named: Any) -> Any:
        """Trainer's own, which gives the run back at its end, for a trainer that goes on from a
        checkpoint: True is `last_checkpoint(args.output_dir)`."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_checkpoint(self.args.output_dir)
            if resume_from_checkpoint is None:
                raise TrainingError(f"{self.args.output_dir}: has no finished checkpoint of PrivateTrainer: to begin a training, leave resume_from_checkpoint out")
        elif resume_from_checkpoint and not _is_finished(resume_from_checkpoint):
            raise TrainingError(f"{resume_from_checkpoint}: belongs to another trainer, or was not finished before a kill: take minsep.hf.last_checkpoint(folder), which finds the last finished one")
        try:
            return super().train(resume_from_checkpoint, *given, **named)
        finally:
            if self._private is not None:
                self._private.close()

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Makes the scheduler, and then the private training, which needs the optimizer as Trainer
        has prepared it."""
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        if self._private is not None:
            raise TrainingError("train: was called before: one trainer trains once. To go on, make a new one, and train(resume_from_checkpoint=…)")
        inner = getattr(self.optimizer, "optimizer", self.optimizer)
        self._private = Private(self.model, inner, self.run, loss=self._loss, microbatch=self.args.per_device_train_batch_size, scheduler=None, **self._options)
        return scheduler

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Leaves the noisy mean of the step's gradients in p.grad. The loss that it gives is 0: no
        noise hides that of the examples."""
        for part in model, self.optimizer:
            if callable(getattr(part, "train", None)):  # optimizers without a schedule have two modes
                part.train()
        if self.state.global_step == 0 and str(getattr(self.args.save_strategy, "value", self.args.save_strategy)) != "no":
            self._save_checkpoint(model, None)  # from here on a start after a kill has a checkpoint, whose state the guard asks for
        self.private.make_gradients(**_tensors(self._prepare_inputs(inputs)))
        return torch.zeros((), device=self.args.device)

    def get_train_dataloader(self) -> Any:
        """The batches of the run, from the guard's next step on."""
        data, collate = self.train_dataset, self.data_collator
        if type(data).__module__.startswith("datasets."):
            data = self._remove_unused_columns(data, description="training")
        else:
            collate = self._get_collator_with_removed_columns(collate, description="training")
        memory = self.args.dataloader_pin_memory and torch.cuda.is_available()
        try:
            return Loader(self.run, data, collate, lambda: self.private.secrets(), self.run.steps, num_workers=self.args.dataloader_num_workers, pin_memory=memory)
        except ValueError as err:
            raise ValueError(f"train_dataset: {str(err).removeprefix('data: ')}") from None

    def num_examples(self, dataloader: Any) -> int:
        if isinstance(dataloader, Loader):
            return self.run.examples
        return int(super().num_examples(dataloader))

    # Checkpoints

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        with open(os.path.join(output_dir, STATE_NAME), "w", encoding="utf-8") as file:
            json.dump(self.private.training_state(), file)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            with open(os.path.join(checkpoint, STATE_NAME), encoding="utf-8") as file:
                self.private.load_training_state(json.load(file))
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and self.private.guard.next_step != self.state.global_step:
            raise TrainingError(f"{checkpoint}: is of step {self.state.global_step}, its {STATE_NAME} of step {self.private.guard.next_step}: they belong to two checkpoints")

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The norm of the noisy mean, without the clipping to infinity by which Trainer finds it."""
        norms = [p.grad.norm().float() for p in model.parameters() if p.grad is not None]
        return torch.stack(norms).norm().item()

    # What would tell of examples

    def log(self, logs: dict[str, float], *more: Any, **named: Any) -> None:
        super().log({name: value for name, value in logs.items() if name not in ("loss", "train_loss", "total_flos")}, *more, **named)

    def floating_point_ops(self, inputs: Any) -> int:
        return 0  # of a batch they tell its size


def _model_loss(model: Any, **example: Any) -> Any:
    """The loss that the model gives of labels."""
    outputs = model(**example)
    loss = outputs.get("loss") if hasattr(outputs, "get") else outputs[0]
    if loss is None:
        raise ValueError("train_dataset: its examples have no labels, without which the model gives no loss: add a column labels, or give loss=")
    return loss


def _tensors(inputs: Any) -> dict[str, Any]:
    if not hasattr(inputs, "keys"):
        raise ValueError(f"data_collator: must give a dict of tensors, by the names of the model's arguments, and not {type(inputs).__name__}")
    return {name: inputs[name] for name in inputs.keys()}


_OPTIONS = {
    "compute_loss_func": "it divides by the items of a batch, and the loss of an example must not depend on others: give loss=, a function of the model and one example",
    "model_init": "a search over models trains several, and the noise of a run hides one: give model",
}


_METHODS = {
    "compute_loss": "would not be called with one example: give PrivateTrainer loss=, a function of the model and one example",
    "get_batch_samples": "would take batches together: a batch of the run is one step",
    "get_train_dataloader": "would form other batches: those of the run have the guarantee, and no others",
}


def _check_arguments(args: Any, run: Run) -> None:
    """Refuses arguments of Trainer that form other batches, change gradients or tell of examples."""
    if args.max_steps == 0 or args.max_steps > run.steps:
        raise ValueError(f"max_steps {args.max_steps}: must be 1 to {run.steps}, the steps of {run.path}, or left out: to train longer, make a run with more steps")
    rules = {
        "max_grad_norm": (0, "gradients are clipped by example, to the run's norm; to clip their noisy mean once more would undo the scale of the noise"),
        "gradient_accumulation_steps": (1, "a batch of the run is one step, made per_device_train_batch_size examples at a time"),
        "dataloader_drop_last": (False, "a batch that is left out changes what the noise hides"),
        "auto_find_batch_size": (False, "it trains again on a batch that failed: choose per_device_train_batch_size, which only says how many gradients are made at a time"),
        "label_smoothing_factor": (0, "Trainer's own loss is not called: give PrivateTrainer loss=, of one example, with cross_entropy(…, label_smoothing=…)"),
        "include_num_input_tokens_seen": ("no", "the number of tokens of a batch is secret"),
        "fp16": (False, "its scaling of losses changes gradients between noise and step: take bf16"),
        "torch_compile": (False, "gradients by example are made by torch.func, of the model itself"),
        "save_only_model": (False, "a checkpoint without the state of the guard cannot be resumed"),
    }
    for name, (value, why) in rules.items():
        given = getattr(args, name, value)
        if given != value:
            raise ValueError(f"{name} {given}: must be {value}: {why}")
    if getattr(args, "train_sampling_strategy", "random") != "random" or getattr(args, "group_by_length", False):
        raise ValueError("train_sampling_strategy: must be left out: the batches are those of the run, whose guarantee is for them and no others")
    if args.world_size > 1 or args.n_gpu > 1:
        raise ValueError(f"args: ask for {max(args.world_size, args.n_gpu)} devices, and PrivateTrainer trains on one: start one process, and show it one device, as CUDA_VISIBLE_DEVICES=0 does; minsep.torch.private trains on several processes")
    for name in "deepspeed", "fsdp":
        if getattr(args, name, None):
            raise ValueError(f"{name}: must be left out: PrivateTrainer trains on one device; minsep.torch.private trains on several processes, with fully_shard too")
    if (args.gradient_checkpointing or getattr(args, "activation_checkpointing", False)) and args.per_device_train_batch_size != 1:
        raise ValueError("gradient_checkpointing: needs per_device_train_batch_size=1, with which gradients are made one by one: torch.func.vmap does not know checkpoints")
    if str(getattr(args.optim, "value", args.optim)) in ("lomo", "adalomo"):
        raise ValueError("optim: LOMO steps within the backward pass, before there is noise: take another optimizer, such as adamw_torch")
