"""Language models by vmap, LoRA, and a Trainer that takes a run directory, with the real packages where they are installed."""

from __future__ import annotations

import io
import json
import os
import shutil
import unittest.mock

import numpy as np

import minsep
from minsep import _guard, _seeds

from . import frozen, runs
from .test_layers import Parts, gradients
from .test_private import Training

needs_models = runs.needs("torch", "torch.func", "transformers")
needs_lora = runs.needs("torch", "torch.func", "transformers", "peft")
needs_data_sets = runs.needs("torch", "torch.func", "transformers", "accelerate", "datasets")
needs_trainer = runs.needs("torch", "torch.func", "transformers", "accelerate")
WORDS, LENGTH = 17, 6


class Models(Training):
    def gpt2(self, dropout=0.0):
        import torch
        import transformers

        torch.manual_seed(5)
        return transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                n_layer=2, n_head=2, n_embd=8, vocab_size=WORDS, n_positions=LENGTH, attn_implementation="eager", loss_type="ForCausalLM", bos_token_id=0, eos_token_id=0,
                resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout))  # fmt: skip

    def llama(self):
        import torch
        import transformers

        torch.manual_seed(5)
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                num_hidden_layers=2, num_attention_heads=2, hidden_size=8, intermediate_size=12, vocab_size=WORDS, max_position_embeddings=LENGTH, attn_implementation="eager",
                loss_type="ForCausalLM", bos_token_id=0, eos_token_id=0))  # fmt: skip

    def lora(self, model):
        import peft
        import torch

        targets = ["c_attn"] if hasattr(model, "transformer") else ["q_proj", "v_proj"]
        with runs.warnings.catch_warnings():
            runs.warnings.simplefilter("ignore")  # fan_in_fan_out of GPT-2
            model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=targets))
        with torch.no_grad():
            for name, p in model.named_parameters():
                if "lora_B" in name:
                    p.normal_()  # zeros would have no gradient for the other half
        return model

    def texts(self):
        """Words, which are looked at, and what is to be said: all but padding."""
        import torch

        generator = torch.Generator().manual_seed(3)
        words = torch.randint(0, WORDS, (100, LENGTH), generator=generator)
        mask = (torch.arange(LENGTH) < torch.randint(2, LENGTH + 1, (100, 1), generator=generator)).long()
        return words, mask, torch.where(mask == 1, words, -100)

    @staticmethod
    def text_loss(model, words, mask, labels):
        return model(input_ids=words, attention_mask=mask, labels=labels).loss

    def coordinates(self, model):
        return sum(p.numel() for p in model.parameters() if p.requires_grad)

    def check_model(self, model, **options):
        run = minsep.Run(self.own_noisy(20, self.coordinates(model)))
        self.check_steps(run, self.begin(run, model, loss=self.text_loss, **options), self.text_loss, self.texts(), 5, options.get("microbatch") == 1)


def torch_gradients(value, parameters):
    import torch

    return torch.autograd.grad(value, parameters)


class Sums(Models, Parts):
    """Gradients are those of one backward pass for each example."""

    @needs_models
    def test_gpt2(self):
        model = self.gpt2()
        self.assertIs(model.lm_head.weight, model.transformer.wte.weight)
        self.check_model(model, microbatch=4)

    @needs_models
    def test_gpt2_one_by_one(self):
        self.check_model(self.gpt2(), microbatch=1)

    @needs_models
    def test_llama(self):
        self.check_model(self.llama())

    @needs_lora
    def test_gpt2_with_lora(self):
        model = self.lora(self.gpt2())
        before = {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}
        self.check_model(model)
        after = dict(model.named_parameters())
        self.assertTrue(before and all(bool((after[name] == p).all()) for name, p in before.items()))

    @needs_lora
    def test_llama_with_lora(self):
        self.check_model(self.lora(self.llama()), microbatch=2)

    @needs_lora
    def test_gradients_of_layers(self):
        """The head of GPT-2 is its embedding; LoRA is of linear layers."""
        for model in self.gpt2(), self.lora(self.gpt2()), self.llama():
            with self.subTest(type(model).__name__):
                trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
                words, mask, labels = self.texts()
                parts = self.parts(model, lambda model, w, m, y: self.text_loss(model, w, m, y), words[:4], mask[:4], labels[:4])
                for i in range(4):
                    value = self.text_loss(model, words[i : i + 1], mask[i : i + 1], labels[i : i + 1])
                    want = dict(zip(trained, torch_gradients(value, list(trained.values()))))
                    for name, g in gradients(parts, i).items():
                        np.testing.assert_allclose(g.astype(float), want[name].double().numpy(), atol=3e-6, err_msg=name)
                        self.assertEqual(g.shape, tuple(trained[name].shape))

    @needs_models
    def test_attention_that_vmap_cannot_run(self):
        """The message names the way out, and it is one."""
        model = self.llama()
        model.set_attn_implementation("sdpa")
        run = minsep.Run(self.own_noisy(20, self.coordinates(model)))
        examples = [x[run.batch(0)] for x in self.texts()]
        training = self.begin(run, model, loss=self.text_loss)
        with self.assertRaisesRegex(ValueError, 'Give microbatch=1, .* attn_implementation="eager"'):
            training.step(*examples)
        training.close()
        self.begin(run, model, loss=self.text_loss, microbatch=1).step(*examples)

    @needs_models
    def test_labels_that_say_nothing(self):
        """An example without a label has a loss of 0 / 0, and counts for nothing; so does one that is not finite."""
        words, mask, labels = self.texts()
        labels[:] = -100
        for microbatch in None, 1:
            model = self.gpt2()
            run = minsep.Run(runs.make_noisy(self.folder / f"own-{microbatch}", 20, self.coordinates(model)))
            training = self.begin(run, model, loss=self.text_loss, microbatch=microbatch)
            training.step(*(x[run.batch(0)] for x in (words, mask, labels)))
            noise = np.concatenate([p.grad.numpy().ravel() for _, p in sorted(model.named_parameters())])
            np.testing.assert_array_equal(noise, (np.array(run.noise(0), float) / run.expected_batch_size).astype(np.float32))

    @needs_models
    def test_bfloat16(self):
        """In autocast a model computes in bfloat16, and gradients are summed in float64; a model of bfloat16 trains too."""
        import torch

        for kind in "autocast", "model":
            model = self.llama()
            self.folder = self.folder / kind
            self.folder.mkdir()
            run = minsep.Run(self.own_noisy(20, self.coordinates(model)))
            if kind == "model":
                model.to(torch.bfloat16)
            training = self.begin(run, model, torch.optim.SGD(model.parameters(), lr=0.0), loss=self.text_loss, microbatch=1)
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
                want = self.by_hand(run, 0, model, self.text_loss, [x[run.batch(0)] for x in self.texts()])
                training.step(*(x[run.batch(0)] for x in self.texts()))
            for name, p in model.named_parameters():
                self.assertEqual(p.grad.dtype, p.dtype)
                self.assertTrue(torch.equal(p.grad, torch.tensor(want[name]).to(p.dtype)), name)


class Examples:
    """A data set as Trainer takes it: the texts, by position."""

    def __init__(self, columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, i):
        return dict(zip(("input_ids", "attention_mask", "labels"), (x[i] for x in self.columns)))


class Trainers(Models):
    """Trainings with bytes of steps that the test knows, so that two of them make the same weights."""

    def setUp(self):
        super().setUp()
        for of, name, known in (_guard.StepGuard, "_draw", frozen.draw), (_seeds, "fresh", lambda: frozen.SEED):
            patch = unittest.mock.patch.object(of, name, known)
            patch.start()
            self.addCleanup(patch.stop)

    def arguments(self, **options):
        import transformers

        return transformers.TrainingArguments(**{
            "output_dir": str(self.folder / "out"), "max_grad_norm": 0, "per_device_train_batch_size": 3, "use_cpu": True, "report_to": [], "disable_tqdm": True,
            "logging_steps": 1, "save_steps": 3, "learning_rate": 0.01, "seed": 4, **options})  # fmt: skip

    def trainer(self, path, model=None, options={}, **more):
        from minsep.hf import PrivateTrainer

        return self.opened(PrivateTrainer(model or self.gpt2(0.2), self.arguments(**options), **{"train_dataset": Examples(self.texts()), "run": minsep.Run(path), "key": runs.key(), **more}))

    def opened(self, trainer):
        self.addCleanup(lambda: trainer._private is not None and trainer._private.close())
        return trainer

    @needs_trainer
    def test_the_same_as_private(self):
        """Trainer takes the steps that minsep.torch.private takes: batches, gradients, noise once, optimizer and schedule."""
        import torch

        import minsep.torch as dp

        model = self.gpt2()
        path = self.own_noisy(20, self.coordinates(model))
        copy = shutil.copytree(path, self.folder / "copy")
        trainer = self.trainer(path, model, {"optim": "sgd", "lr_scheduler_type": "constant", "weight_decay": 0.0})
        trainer.train()
        self.assertEqual((trainer.private.guard.next_step, trainer.state.global_step), (20, 20))
        other = self.gpt2()
        training = self.begin(minsep.Run(copy), other, torch.optim.SGD(other.parameters(), lr=0.01), loss=self.text_loss, microbatch=3, key=runs.key())
        for batch in training.loader(torch.utils.data.TensorDataset(*self.texts())):
            training.step(*batch)
        for (name, p), q in zip(model.named_parameters(), other.parameters()):
            self.assertTrue(torch.equal(p, q), name)

    @needs_trainer
    def test_kill_and_resume(self):
        """A training that is killed, at a checkpoint or beyond it, ends with the same weights as one that is not, dropout and all; a start without the checkpoint is refused."""
        import torch
        import transformers

        class Killed(transformers.TrainerCallback):
            def __init__(self, step):
                self.step = step

            def on_step_end(self, args, state, control, **_):
                if state.global_step == self.step:
                    raise KeyboardInterrupt

        path, weights = self.own_noisy(20, self.coordinates(self.gpt2())), []
        with self.assertRaises(KeyboardInterrupt):
            killed = self.trainer(path, callbacks=[Killed(8)])
            killed.train()
        checkpoints = sorted(os.listdir(self.folder / "out"))
        self.assertEqual(checkpoints, ["checkpoint-0", "checkpoint-3", "checkpoint-6"])
        with self.assertRaisesRegex(minsep.TrainingError, "serves a training already"):
            self.trainer(path).train()
        for start in "checkpoint-6", "checkpoint-3", "checkpoint-0":
            trainer = self.trainer(path, options={"output_dir": str(self.folder / start)})
            trainer.train(resume_from_checkpoint=str(self.folder / "out" / start))
            self.assertEqual((trainer.private.guard.next_step, trainer.state.global_step), (20, 20))
            weights.append([p.detach().clone() for p in trainer.model.parameters()])
        for a, b, c in zip(*weights):
            self.assertTrue(torch.equal(a, b) and torch.equal(a, c))
        for name, change, words in (
            ("none", lambda d: os.remove(d / "minsep.json"), "belongs to another trainer, or was not finished before a kill: take minsep.hf.last_checkpoint"),
            ("cut", lambda d: (d / "trainer_state.json").write_text(""), "belongs to another trainer, or was not finished before a kill"),
            ("mixed", lambda d: shutil.copy(self.folder / "out" / "checkpoint-3" / "minsep.json", d / "minsep.json"), "is of step 6, its minsep.json of step 3"),
        ):
            broken = self.folder / name / "checkpoint-6"
            shutil.copytree(self.folder / "out" / "checkpoint-6", broken)
            change(broken)
            trainer = self.trainer(path)
            with self.assertRaisesRegex(minsep.TrainingError, words):
                trainer.train(resume_from_checkpoint=str(broken))
        from minsep.hf import last_checkpoint

        self.assertEqual((last_checkpoint(self.folder / "nowhere"), last_checkpoint(self.folder / "cut")), (None, None))
        shutil.copytree(self.folder / "cut" / "checkpoint-6", self.folder / "out" / "checkpoint-12")
        self.assertEqual(last_checkpoint(self.folder / "out"), str(self.folder / "out" / "checkpoint-6"))
        with self.assertRaisesRegex(minsep.TrainingError, "has no finished checkpoint of PrivateTrainer: to begin a training"):
            self.trainer(path, options={"output_dir": str(self.folder / "cut")}).train(resume_from_checkpoint=True)
        trainer = self.trainer(path)
        trainer.train(resume_from_checkpoint=True)
        self.assertTrue(all(torch.equal(p, q) for p, q in zip(weights[0], trainer.model.parameters())))

    @needs_lora
    @needs_trainer
    def test_lora(self):
        """Only adapters are trained and saved; a resume by Trainer's own means goes on."""
        import torch

        path = self.own_noisy(20, self.coordinates(self.lora(self.llama())))
        first = self.trainer(path, self.lora(self.llama()), {"max_steps": 6, "lr_scheduler_type": "constant"})
        frozen = [p.detach().clone() for p in first.model.parameters() if not p.requires_grad]
        first.train()
        self.assertTrue(all(torch.equal(p, q) for p, q in zip(frozen, (p for p in first.model.parameters() if not p.requires_grad))))
        self.assertTrue((self.folder / "out" / "checkpoint-6" / "adapter_model.safetensors").exists())
        trainer = self.trainer(path, self.lora(self.llama()), {"lr_scheduler_type": "constant"})
        trainer.train(resume_from_checkpoint=True)
        self.assertEqual(trainer.private.guard.next_step, 20)

    @needs_trainer
    def test_bfloat16(self):
        """With bf16 the model computes in bfloat16: other gradients, of parameters that stay float32."""
        import torch

        path, found = self.own_noisy(20, self.coordinates(self.llama())), []
        for bf16, run in (False, path), (True, shutil.copytree(path, self.folder / "copy")):
            trainer = self.trainer(run, self.llama(), {"bf16": bf16, "max_steps": 1, "output_dir": str(self.folder / str(bf16))})
            trainer.train()
            found.append([p.detach() for p in trainer.model.parameters()])
        self.assertEqual({p.dtype for ps in found for p in ps}, {torch.float32})
        self.assertFalse(all(torch.equal(p, q) for p, q in zip(*found)))

    @needs_trainer
    def test_evaluation_changes_nothing(self):
        """Between steps a model is evaluated, in eval mode, on other examples; the training is the same, and a trainer after it goes on."""
        import torch

        class Spends(torch.utils.data.Dataset):
            """Examples of which each takes a random number."""

            def __len__(self):
                return 5

            def __getitem__(me, i):
                torch.rand(3)
                return Examples(self.texts())[i]

        path, weights = self.own_noisy(20, self.coordinates(self.gpt2())), []
        self.trainer(path, options={"max_steps": 2, "lr_scheduler_type": "constant"}).train()
        for i, more in enumerate(({}, {"eval_dataset": Spends()})):
            strategy = {"eval_strategy": "steps", "eval_steps": 1} if more else {}
            trainer = self.trainer(path, options={"max_steps": 6, "lr_scheduler_type": "constant", "output_dir": str(self.folder / str(i)), **strategy}, **more)
            trainer.train(resume_from_checkpoint=str(self.folder / "out" / "checkpoint-2"))
            weights.append([p.detach().clone() for p in trainer.model.parameters()])
        self.assertTrue(all(torch.equal(p, q) for p, q in zip(*weights)))
        self.assertTrue(any("eval_loss" in entry for entry in trainer.state.log_history))
        with self.assertRaisesRegex(minsep.TrainingError, "one trainer trains once"):
            trainer.train()

    @needs_trainer
    def test_collators(self):
        """A collator that pads to the longest of a batch is refused, as an example would depend on others; one that pads to one length is not."""
        import torch

        generator = torch.Generator().manual_seed(6)
        lengths = torch.randint(2, LENGTH + 1, (100,), generator=generator).tolist()
        data = [{"input_ids": torch.randint(0, WORDS, (n,), generator=generator).tolist()} for n in lengths]

        def pad(examples, length=0):
            length = length or max(len(x["input_ids"]) for x in examples)
            words = torch.tensor([x["input_ids"] + [0] * (length - len(x["input_ids"])) for x in examples])
            shown = torch.tensor([[1] * len(x["input_ids"]) + [0] * (length - len(x["input_ids"])) for x in examples])
            shown[:, 1:] *= torch.rand(shown[:, 1:].shape) < 0.8  # augmentation
            return {"input_ids": words, "attention_mask": shown, "labels": torch.where(shown == 1, words, -100)}

        path = self.own_noisy(20, self.coordinates(self.gpt2()))
        with self.assertRaisesRegex(ValueError, "^collate_fn: gives examples of several shapes: it is called with one example at a time"):
            self.trainer(path, train_dataset=data, data_collator=pad).train()
        path, weights = runs.make_noisy(self.folder / "one", 20, self.coordinates(self.gpt2())), []
        for start in None, "checkpoint-0", "checkpoint-3":
            options = {"output_dir": str(self.folder / str(start)), "max_steps": 5, "dataloader_num_workers": 2 if start else 0, "seed": 4 if start else 5, "lr_scheduler_type": "constant"}
            trainer = self.trainer(path, options=options, train_dataset=data, data_collator=lambda examples: pad(examples, LENGTH))
            trainer.train(resume_from_checkpoint=start and str(self.folder / "None" / start))
            weights.append([p.detach().clone() for p in trainer.model.parameters()])
        self.assertTrue(all(torch.equal(p, q) and torch.equal(p, r) for p, q, r in zip(*weights)))

    @needs_data_sets
    def test_data_sets(self):
        """A data set of datasets, with a column that the model does not take."""
        import datasets
        import torch

        words, mask, labels = self.texts()
        data = datasets.Dataset.from_dict({"id": range(100), "input_ids": words.tolist(), "attention_mask": mask.tolist(), "labels": labels.tolist()})
        path, weights = self.own_noisy(20, self.coordinates(self.gpt2())), []
        for options in {"train_dataset": Examples(self.texts())}, {"train_dataset": data}:
            trainer = self.trainer(path, options={"max_steps": 4, "output_dir": str(self.folder / str(len(weights)))}, **options)
            trainer.train(resume_from_checkpoint=str(self.folder / "0" / "checkpoint-0") if weights else None)
            weights.append([p.detach().clone() for p in trainer.model.parameters()])
        self.assertTrue(all(torch.equal(p, q) for p, q in zip(*weights)))
        with self.assertRaisesRegex(ValueError, "^train_dataset: must be indexed by position"):
            self.trainer(path, train_dataset=data.to_iterable_dataset())

    @needs_trainer
    def test_nothing_of_the_examples_is_told(self):
        trainer = self.trainer(self.own_noisy(20, self.coordinates(self.gpt2())), options={"max_steps": 4, "save_steps": 4})
        done = trainer.train()
        state = json.loads((self.folder / "out" / "checkpoint-4" / "trainer_state.json").read_text())
        self.assertEqual(len(state["log_history"]), 4)
        said = {name for entry in [*state["log_history"], *trainer.state.log_history] for name in entry}
        self.assertEqual(said & {"loss", "train_loss", "total_flos", "num_input_tokens_seen"}, set())
        self.assertEqual((state["total_flos"], state["num_input_tokens_seen"], done.training_loss), (0, 0, 0.0))

    @needs_trainer
    def test_arguments(self):
        path = self.own_noisy(20, self.coordinates(self.gpt2()))
        with self.assertWarnsRegex(UserWarning, "^gradient_accumulation_steps 2: is not needed, and counts as 1"):
            self.assertEqual(self.trainer(path, options={"gradient_accumulation_steps": 2}).args.gradient_accumulation_steps, 1)
        for options, words in (
            ({"max_steps": 21}, "^max_steps 21: must be 1 to 20, the steps of"),
            ({"max_grad_norm": 1.0}, "^max_grad_norm 1.0: must be 0: gradients are clipped by example"),
            ({"dataloader_drop_last": True}, "^dataloader_drop_last True: must be False"),
            ({"auto_find_batch_size": True}, "^auto_find_batch_size True: must be False"),
            ({"label_smoothing_factor": 0.1}, "^label_smoothing_factor 0.1: must be 0: .* loss="),
            ({"include_num_input_tokens_seen": True}, "^include_num_input_tokens_seen .*: the number of tokens of a batch is secret"),
            ({"train_sampling_strategy": "group_by_length"}, "^train_sampling_strategy: must be left out"),
            ({"accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 2}}}, "^gradient_accumulation_steps 2: must be 1"),
            ({"gradient_checkpointing": True}, "^gradient_checkpointing: needs per_device_train_batch_size=1"),
            ({"save_only_model": True}, "^save_only_model True: must be False: a checkpoint without the state of the guard"),
            ({"optim": "lomo"}, "^optim: LOMO steps within the backward pass"),
        ):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                self.trainer(path, options=options)
        import torch

        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(())

        data = Examples(self.texts())
        for more, words in (
            ({"compute_loss_func": lambda *_, **__: 0}, "^compute_loss_func: must be left out: it divides by the items of a batch"),
            ({"eval_dataset": data, "train_dataset": data}, "^eval_dataset: is train_dataset"),
            ({"eval_dataset": {"seen": data}, "train_dataset": data}, "^eval_dataset: is train_dataset"),
            ({"train_dataset": Examples([x[:99] for x in self.texts()]), "run": minsep.Run(path).join(runs.ids_of("numbers", 100))}, "^train_dataset: has 99 examples, and the run the ids, or rows of owners, of 100"),
            ({"train_dataset": Stream()}, "^train_dataset: must be indexed"),
            ({"train_dataset": None}, "^train_dataset: must be indexed by position"),
        ):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                self.trainer(path, **more)
        with self.assertRaisesRegex(TypeError, r"run = minsep.Run\('run'\), then PrivateTrainer"):
            self.trainer(path, run="run")
        self.assertFalse((path / "training.json").exists())

    @needs_trainer
    def test_a_subclass_with_a_loss_of_its_own(self):
        from minsep.hf import PrivateTrainer

        class Mine(PrivateTrainer):
            def compute_loss(self, *_, **__):
                return 0

        class Other(PrivateTrainer):
            def get_train_dataloader(self):
                return []

        with self.assertRaisesRegex(ValueError, "^get_train_dataloader: of Other would form other batches"):
            Other(self.gpt2(), self.arguments(), train_dataset=Examples(self.texts()), run=minsep.Run(self.noisy()))
        with self.assertRaisesRegex(ValueError, "^compute_loss: of Mine would not be called with one example"):
            Mine(self.gpt2(), self.arguments(), train_dataset=Examples(self.texts()), run=minsep.Run(self.noisy()))

    @needs_trainer
    def test_steps_that_callbacks_spoil(self):
        """A callback that adds a backward pass, clips, or steps again is refused at the optimizer's step."""
        import torch
        import transformers

        path = self.own_noisy(20, self.coordinates(self.gpt2()))
        texts = self.texts()
        for i, (at, spoil, words) in enumerate((
            ("on_pre_optimizer_step", lambda model, optimizer: self.text_loss(model, *(x[:2] for x in texts)).backward(), "gradients were changed or put away since the noise"),
            ("on_pre_optimizer_step", lambda model, optimizer: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1), "gradients were changed or put away since the noise"),
            ("on_optimizer_step", lambda model, optimizer: optimizer.step(), "a second one in the same step"),
        )):  # fmt: skip
            spoiler = type("Spoiler", (transformers.TrainerCallback,), {at: lambda self, args, state, control, model, optimizer, **_: spoil(model, optimizer) and None})()
            if i:
                path = runs.make_noisy(self.folder / f"own-{i}", 20, self.coordinates(self.gpt2()))
            trainer = self.trainer(path, callbacks=[spoiler])
            with self.subTest(words), self.assertRaisesRegex(minsep.TrainingError, words):
                trainer.train()

    @needs_trainer
    def test_another_number_of_coordinates(self):
        trainer = self.trainer(self.own_noisy(20, 33))
        count = self.coordinates(trainer.model)
        with self.assertRaisesRegex(ValueError, f"model: has {count} trained coordinates, .* prepare or run it again at another path, with this model or `--coordinates {count}`"):
            trainer.train()
