"""Memory and processor time of a microbatch's clipped sum for GPT-2: the table of docs/background/noise.md."""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import torch
import transformers

import minsep.torch as pieces
from minsep import ClipNorm, _ghost, _private

PLACES, WORDS = 128, 8192


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["backward", "ghost", "examples"])
    parser.add_argument("count", type=int, help="texts")
    parser.add_argument("--lora", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model: Any = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=6, n_embd=512, n_head=8, vocab_size=WORDS, n_positions=PLACES,
        attn_implementation="eager", resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))  # fmt: skip
    if options.lora:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True))
    words = torch.randint(0, WORDS, (options.count, PLACES))
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    module = _private._Loss(model, lambda model, x: model(input_ids=x, labels=x).loss)

    def loss(params: Any, *one: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(module, {f"model.{name}": p for name, p in params.items()}, tuple(x[None] for x in one))

    params = {name: p.detach() for name, p in trained.items()}
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    if options.how == "backward":
        module(words).backward()
    elif options.how == "ghost":
        _ghost.clip_and_sum(_ghost.Ghost(model).books(loss, _private._mapped, trained)(params, words), ClipNorm(1), 2.0**-40)
    else:
        pieces.clip_and_sum(_private._together(loss)(params, words), ClipNorm(1), 2.0**-40)
    seconds, more = time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{options.how}, {options.count} texts, {sum(p.numel() for p in params.values())} coordinates: {seconds:.1f} s, {more / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
