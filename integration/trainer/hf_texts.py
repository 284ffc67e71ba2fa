"""The training on texts in Hugging Face's Trainer: GPT-2 of a small configuration, whole or with LoRA, with sampled owners.

With --lora, the model is first trained without privacy on a public text, Python's manual, and the adapters on the private texts.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import pydoc_data.topics
import warnings
from typing import Any

import training  # first: it sets the number of threads
import peft
import texts
import torch
import trainings
import transformers

import minsep
import minsep.torch as dp
from minsep.hf import PrivateTrainer, last_checkpoint

LENGTH = texts.CONTEXT + texts.WINDOW
LEARNING_RATES = {"whole": 2e-3, "lora": 5e-3}  # of Adam, with the noise of DP-SGD
PUBLIC_STEPS = 400


def model() -> Any:
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_layer=2, n_head=4, n_embd=64, vocab_size=texts.SYMBOLS, n_positions=LENGTH, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None,
            attn_implementation="eager", loss_type="ForCausalLM"))  # fmt: skip


class Windows(torch.utils.data.Dataset):  # type: ignore[misc, unused-ignore]
    """Windows of bytes, of which the last ones are to be predicted."""

    def __init__(self, windows: Any) -> None:
        self.windows = torch.tensor(windows, dtype=torch.long)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, i: Any) -> dict[str, Any]:
        labels = self.windows[i].clone()
        labels[..., : texts.CONTEXT] = -100
        return {"input_ids": self.windows[i], "labels": labels}


def test_loss(of: Any) -> float:
    """The mean loss of a byte of the windows for tests, in nats."""
    of.eval()
    with torch.no_grad():
        return float(of(**Windows(texts.load().test_windows)[:]).loss)


def train_in_public(of: Any) -> None:
    """Trains a model on Python's manual, without privacy."""
    data = Windows(texts.windows_of("\n".join(pydoc_data.topics.topics.values()).encode()))
    generator, adam = torch.Generator().manual_seed(0), torch.optim.Adam(of.parameters(), lr=3e-3)
    of.train()
    for _ in range(PUBLIC_STEPS):
        adam.zero_grad()
        of(**data[torch.randint(len(data), (64,), generator=generator)]).loss.backward()
        adam.step()


def train(out: pathlib.Path, lora: bool, mechanism: str, steps: int, samples: int) -> dict[str, Any]:
    """One training in a folder, which goes on from its checkpoint if there is one."""
    kind, of = "lora" if lora else "whole", model()
    found: dict[str, Any] = {"model": kind, "mechanism": mechanism}
    if lora:
        train_in_public(of)
        of = peft.get_peft_model(of, peft.LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True))
    found["coordinates"] = sum(p.numel() for p in of.parameters() if p.requires_grad)
    found["loss before"] = test_loss(of)
    trainings.PROGRAMS["hf"] = program(found["coordinates"], mechanism)
    runs, path = trainings.Runs(out, samples), out / f"run-{kind}"
    if not path.exists():
        runs.make("hf", mechanism, 8, kind, steps).rename(path)
    run = minsep.Run(path)
    if not run.inspect().certified:
        raise RuntimeError(f"{path}: {run.inspect().text}")
    data = Windows(texts.load().windows)
    adam = dp.scale_by_step_noise(torch.optim.Adam([p for p in of.parameters() if p.requires_grad], lr=LEARNING_RATES[kind]), run)
    args = transformers.TrainingArguments(
        str(out / f"trainer-{kind}"), max_grad_norm=0, per_device_train_batch_size=64, save_steps=20, save_total_limit=1, use_cpu=True, report_to=[], disable_tqdm=True,
        logging_steps=20, warmup_steps=10)  # fmt: skip
    trainer = PrivateTrainer(of, args, train_dataset=data, run=run.join(range(len(data))), optimizers=(adam, None))
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))
    return found | {
        "steps": run.steps, "epsilon": run.epsilon, "delta": run.delta, "noise_multiplier": run.noise_multiplier, "loss": test_loss(of),
    }  # fmt: skip


def program(coordinates: int, mechanism: str) -> trainings.Program:
    """The training on texts with another number of coordinates."""
    plans = {epsilon: plan | {"noise": {"coordinates": coordinates}} for epsilon, plan in trainings.PROGRAMS["texts"].mechanisms[mechanism].items()}
    return trainings.PROGRAMS["texts"]._replace(module="hf_texts", mechanisms={mechanism: plans})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for run directories, certificates and checkpoints")
    parser.add_argument("--lora", action="store_true", help="train adapters of a model that was trained on public text")
    parser.add_argument("--mechanism", default="b-min-sep 8", choices=trainings.OF_TEXTS)
    parser.add_argument("--steps", type=int, default=trainings.STEPS)
    parser.add_argument("--samples", type=int, default=100_000, help="budget of the certificate")
    flags = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        print(json.dumps(train(flags.out, flags.lora, flags.mechanism, flags.steps, flags.samples)))


if __name__ == "__main__":
    main()
