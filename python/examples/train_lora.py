"""Hugging Face's Trainer, with LoRA by PEFT. Started again after a kill, it goes on. docs/python.md makes its run directory."""

import peft, torch, transformers
import minsep
from minsep.hf import PrivateTrainer, last_checkpoint

transformers.set_seed(0)  # for the base's weights, which are in no checkpoint of adapters
ids, words = range(30000), torch.randint(0, 100, (30000, 16))  # your texts as tokens, in the order of ids
config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=16, attn_implementation="eager")
model = peft.get_peft_model(transformers.GPT2LMHeadModel(config), peft.LoraConfig(r=2, target_modules=["c_attn"]))
args = transformers.TrainingArguments("out/lora", max_grad_norm=0, per_device_train_batch_size=32, save_steps=25)
trainer = PrivateTrainer(model, args, train_dataset=[{"input_ids": w, "labels": w} for w in words],
                         run=minsep.Run("run-lora").join(ids), key="key")
trainer.train(resume_from_checkpoint=last_checkpoint("out/lora"))  # goes on after a kill
