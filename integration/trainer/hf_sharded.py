"""Memory of each process that trains GPT-2, whole or divided by fully_shard: the table of docs/background/noise.md.

    hf_sharded.py bin/minsep PROCESSES whole|divided

What is counted is the most in the last of three steps, beyond that of the program before there is a model, and what is left between steps.
"""

from __future__ import annotations

import argparse
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
from typing import Any

import torch
import transformers

import minsep
import minsep.torch as dp

PLACES, WORDS, STEPS = 64, 8192, 3


def memory(name: str) -> float:
    """In MiB: VmRSS, that of now, or VmHWM, the most since /proc/self/clear_refs."""
    status = pathlib.Path("/proc/self/status").read_text()
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith(name))) / 1024


def train(folder: pathlib.Path, rank: int, count: int, divided: bool) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=count)
    before = memory("VmRSS")
    torch.manual_seed(0)
    model = gpt2()
    if divided:
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
    training = dp.private(model, torch.optim.Adam(model.parameters()), minsep.Run(folder / "run"), loss=lambda model, x: model(input_ids=x, labels=x).loss,
        microbatch=4, key=folder / "key")  # fmt: skip
    data = torch.utils.data.TensorDataset(torch.randint(0, WORDS, (100, PLACES)))
    for step, batch in enumerate(training.loader(data)):
        if step == STEPS - 1:
            gc.collect()
            between = memory("VmRSS") - before
            pathlib.Path("/proc/self/clear_refs").write_text("5")
        training.step(*batch)
    print(f"{count} processes{', divided' if divided else ''}, {training.run.coordinates} coordinates, process {rank}: {memory('VmHWM') - before:.0f} MiB, {between:.0f} between steps", flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4, n_embd=384, n_head=6, vocab_size=WORDS, n_positions=PLACES, bos_token_id=None, eos_token_id=None,
        attn_implementation="eager", resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", help="of minsep")
    parser.add_argument("count", type=int, help="processes")
    parser.add_argument("how", choices=["whole", "divided"])
    options = parser.parse_args()
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:  # so that what is freed is given back, and not counted
        os.environ.update(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="65536")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ.update(MINSEP_COMMAND=os.path.abspath(options.command), XDG_STATE_HOME=name, GLOO_SOCKET_IFNAME="lo")

        def minsep_(*arguments: object) -> None:
            subprocess.run([options.command, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

        key = "--key", folder / "key", "--out", folder / "run"
        coordinates = sum(p.numel() for p in gpt2().parameters())
        minsep_("keygen", folder / "key")
        minsep_("strategy", "--kind", "identity", "--steps", STEPS, "--out", folder / "identity.json")
        minsep_("form", "--examples", 100, "--scheme", "poisson", "--steps", STEPS, "--batch-size", 8, *key)
        minsep_("noise", "--strategy", folder / "identity.json", "--noise-multiplier", 1, "--steps", STEPS, "--coordinates", coordinates, "--dtype", "float64", "--recipe-only", *key)
        processes = []
        for rank in range(options.count):
            processes.append(os.fork())
            if processes[-1] == 0:
                train(folder, rank, options.count, options.how == "divided")
                os._exit(0)
        if any([os.waitpid(process, 0)[1] for process in processes]):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
