"""Directories that were damaged, mixed or made to mislead: each is refused in words, none is read."""

from __future__ import annotations

import io
import json
import os
import shutil

import numpy as np

import minsep

from . import runs


def npy(array, **arguments) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), version=(1, 0), **arguments)
    return out.getvalue()


def read_all(path) -> None:
    run = minsep.Run(path)
    for t in range(run.steps):
        run.batch(t)
        if (path / "noise").exists():
            run.noise(t)


class Hostile(runs.Case):
    def refused(self, path, words: str) -> None:
        with self.assertRaisesRegex(minsep.RunDirectoryError, words) as caught:
            read_all(path)
        self.assertIn(str(path), str(caught.exception))

    def each(self, make, cases) -> None:
        for name, (words, spoil) in cases.items():
            with self.subTest(name):
                path = make()
                spoil(path)
                self.refused(path, words)
                shutil.rmtree(path)

    def test_batches(self):
        def edit(change):
            return lambda p: runs.edit_index(p / "batches", change)

        def rows(content):
            return lambda p: runs.replace(p / "batches", "rows-00001-of-00003.npy", content)

        def indptr(content):
            return lambda p: runs.replace(p / "batches", "indptr-00001-of-00003.npy", content)

        def text(old, new):
            def spoil(p):
                file = p / "batches" / "index.json"
                before = file.read_text()
                assert old in before
                file.write_text(before.replace(old, new, 1))

            return spoil

        def flip(p):
            file = p / "batches" / "rows-00001-of-00003.npy"
            b = bytearray(file.read_bytes())
            b[-1] ^= 1
            file.write_bytes(b)

        def put(name, place):
            def spoil(p):
                file = p / "batches" / name
                file.unlink()
                place(file)

            return spoil

        def cut(p):
            file = p / "batches" / "rows-00001-of-00003.npy"
            os.truncate(file, file.stat().st_size - 4)

        shard = "rows-00001-of-00003.npy"
        good = np.load(runs._formed("numbers", 20, 3, ()) / "batches" / "indptr-00001-of-00003.npy")
        fewer = good.copy()
        fewer[-1] -= 1
        falls = good.copy()
        falls[2] = falls[1] - 1
        self.each(self.formed, {
            "a flipped bit": ("SHA-256 differs from the SHA-256 in the index", flip),
            "truncated": ("size differs from the size in the index", cut),
            "missing": ("is missing", lambda p: (p / "batches" / shard).unlink()),
            "a pipe": ("not a regular file", put(shard, os.mkfifo)),
            "a link to a pipe": ("not a regular file", put(shard, lambda f: (os.mkfifo(self.folder / "pipe"), f.symlink_to(self.folder / "pipe")))),
            "a link to itself": ("cannot be read", put(shard, lambda f: f.symlink_to(f))),
            "a folder": ("not a regular file|cannot be read", put(shard, os.mkdir)),
            "a device": ("not a regular file", put(shard, lambda f: f.symlink_to("/dev/zero"))),
            "an index that is a pipe": ("not a regular file", put("index.json", os.mkfifo)),
            "an index that is a device": ("not a regular file", put("index.json", lambda f: f.symlink_to("/dev/zero"))),
            "stopped": ("the stage that writes this folder was stopped", lambda p: (p / "batches" / "incomplete.json").write_text("{}")),
            "not JSON": ("not JSON", lambda p: (p / "batches" / "index.json").write_text("{")),
            "not UTF-8": ("not UTF-8", lambda p: (p / "batches" / "index.json").write_bytes(b"\xff\xfe{}")),
            "deep": ("not JSON", lambda p: (p / "batches" / "index.json").write_text("[" * 100000)),
            "a list": ("format None", lambda p: (p / "batches" / "index.json").write_text("[]")),
            "a name twice": ("a name twice", text('"format"', '"format": "minsep-batches/1", "format"')),
            "NaN": ("not a number", text('"steps": 20', '"steps": NaN')),
            "other params": ("do not match its params_sha256", text('"min_sep": 3', '"min_sep": 4')),
            "a newer format": ("this version reads", text("minsep-batches/1", "minsep-batches/2")),
            "leads out": ("leads out of the folder", edit(lambda ix: ix["files"].append(dict(ix["files"][0], name="../run.json")))),
            "absolute": ("leads out of the folder", edit(lambda ix: ix["files"].append(dict(ix["files"][0], name="/etc/passwd")))),
            "listed twice": ("listed twice", edit(lambda ix: ix["files"].append(ix["files"][0]))),
            "not listed": ("not in the index", edit(lambda ix: ix["files"].__setitem__(0, dict(ix["files"][0], name="other")))),
            "steps true": ("cannot read", edit(lambda ix: ix["facts"].__setitem__("steps", True))),
            "more shards than steps": ("cannot read", edit(lambda ix: ix["facts"].__setitem__("shards", 21))),
            "a billion shards": ("cannot read", edit(lambda ix: ix["facts"].update(shards=10**9, steps=10**9))),
            "an unknown table": ("cannot read", edit(lambda ix: ix["facts"].__setitem__("rows_of", "owners"))),
            "another run id": ("belongs to run 0{32}", edit(lambda ix: ix.__setitem__("run_id", "0" * 32))),
            "other examples": ("other examples than run.json", edit(lambda ix: ix["inputs"].__setitem__("bounded", "0" * 64))),
            "rows beyond the table": ("rows outside the table", rows(npy(np.full(int(good[-1]), 10**6, np.int32)))),
            "rows below padding": ("rows outside the table", rows(npy(np.full(int(good[-1]), -2, np.int32)))),
            "too few rows": ("does not rise", rows(npy(np.zeros(3, np.int32)))),
            "rows of float": ("must hold <i4", rows(npy(np.zeros(int(good[-1]), np.float32)))),
            "pickled objects": ("must hold <i4", rows(npy(np.array([{}] * int(good[-1])), allow_pickle=True))),
            "not an array": ("not an .npy file", rows(b"\x93NUMPY\x01\x00\x10\x00__import__('os')")),
            "a header that lies": ("does not fit its header", rows(npy(np.zeros(4, np.int32)).replace(b"(4,)", b"(9,)"))),
            "indptr of other steps": ("does not have its shard's steps", indptr(npy(good[:-1]))),
            "indptr that ends early": ("does not rise", indptr(npy(fewer))),
            "indptr that falls": ("does not rise", indptr(npy(falls))),
        })

    def test_run_record(self):
        def text(old, new):
            return lambda p: (p / "run.json").write_text((p / "run.json").read_text().replace(old, new))

        self.each(self.formed, {
            "changed": ("has been changed", text("bounded ", "bounded  ")),
            "spaces": ("has been changed", text("\n}", "\n} ")),
            "no run id": ("no run id", text('"run_id"', '"runid"')),
            "another format": ("not a record", text("minsep-run/2", "minsep-run/1")),
            "not JSON": ("not JSON", lambda p: (p / "run.json").write_text("")),
        })
        path = self.formed()
        (path / "run.json").unlink()
        for nothing in path, self.folder / "nix", self.folder:
            with self.assertRaisesRegex(minsep.RunDirectoryError, f"^{nothing}/run.json: is missing, and every run directory has it"):
                minsep.Run(nothing)
        path = self.copied(self.noisy())
        (path / "bounded" / "index.json").unlink()
        with self.assertRaisesRegex(minsep.RunDirectoryError, "bounded/index.json: is missing: the folder was removed"):
            minsep.Run(path).example_ids([0])

    def test_noise(self):
        source = self.noisy(20, 33, "--shards", "2", "--steps-per-file", "8")
        first = "shard-00001-of-00002/steps-000008-000015.npy"

        def edit(change):
            return lambda p: runs.edit_index(p / "noise", change)

        def flip(p):
            b = bytearray((p / "noise" / first).read_bytes())
            b[-1] ^= 1
            (p / "noise" / first).write_bytes(b)

        def recipe(change):
            def spoil(p):
                r = json.loads((p / "noise" / "recipe.json").read_text())
                change(r)
                runs.replace(p / "noise", "recipe.json", json.dumps(r).encode())

            return spoil

        def another(p):  # noise of another run, whole
            shutil.rmtree(p / "noise")
            shutil.copytree(self.noisy(20, 34) / "noise", p / "noise")

        def swapped(p):
            shutil.rmtree(p / "batches")
            shutil.copytree(runs._formed("numbers", 20, 3, ()) / "batches", p / "batches")

        self.each(lambda: self.copied(source), {
            "a flipped bit": ("SHA-256 differs from the SHA-256 in the index", flip),
            "missing": ("is missing", lambda p: (p / "noise" / first).unlink()),
            "another shape": ("its shape does not fit", lambda p: runs.replace(p / "noise", first, npy(np.zeros((16, 8), np.float32)))),
            "another type": ("must hold <f4", lambda p: runs.replace(p / "noise", first, npy(np.zeros((8, 16), np.float64)))),
            "noise of another run": ("and run.json to run", another),
            "batches of another run": ("and run.json to run", swapped),
            "another sigma in the index": ("differ from the index", edit(lambda ix: ix["params"].__setitem__("noise_multiplier", "0x1p-9"))),
            "another sigma in the recipe": ("differ from the index", recipe(lambda r: r["params"].__setitem__("noise_multiplier", "0x1p-9"))),
            "another run id in the recipe": ("differ from the index", recipe(lambda r: r.__setitem__("run_id", "0" * 32))),
            "a recipe of another format": ("not a recipe", recipe(lambda r: r.__setitem__("format", "minsep-noise-recipe/1"))),
            "facts of other steps": ("cannot read", edit(lambda ix: ix["facts"].__setitem__("steps", 19))),
            "a shard that is not there": ("not in the index", edit(lambda ix: ix["facts"].__setitem__("shards", 3))),
            "no type": ("cannot read", edit(lambda ix: ix["facts"].__setitem__("dtype", "<i4"))),
        })

    def test_training_that_does_not_match(self):
        """An index and a recipe that agree with each other, and not with the batches."""
        source = self.noisy(20, 33)

        def training(**change):
            def spoil(p):
                file = p / "noise" / "recipe.json"
                r = json.loads(file.read_text())
                r["params"]["training"].update(change)
                import hashlib

                r["params_sha256"] = hashlib.sha256(json.dumps(r["params"], separators=(",", ":")).encode()).hexdigest()
                runs.replace(p / "noise", "recipe.json", json.dumps(r).encode())
                runs.edit_index(p / "noise", lambda ix: ix.__setitem__("params", r["params"]))

            return spoil

        self.each(lambda: self.copied(source), {
            "examples": ("for other examples", training(examples="numbered 3")),
            "sampler": ("for another sampler", training(sampler='{"poisson":{"prob":0.5,"steps":20}}')),
            "a sampler that is no JSON": ("not JSON", training(sampler="{")),
        })

    def test_table(self):
        if not runs.has("pyarrow"):
            self.skipTest("pyarrow not installed")
        for words, spoil in [
            ("SHA-256 differs from the SHA-256 in the index", lambda p: (p / "part-00000.parquet").write_bytes(b"\0" * (p / "part-00000.parquet").stat().st_size)),
            ("can be read", lambda p: runs.replace(p, "part-00000.parquet", b"PAR1 not Parquet PAR1")),
            ("is not the table from which the batches were formed", lambda p: runs.edit_index(p, lambda ix: None)),
            ("is missing", lambda p: (p / "part-00000.parquet").unlink()),
        ]:
            path = self.formed()
            spoil(path / "bounded")
            if words == "can be read":  # whoever writes the table's index writes the batches' too
                import hashlib

                digest = hashlib.sha256((path / "bounded" / "index.json").read_bytes()).hexdigest()
                runs.edit_index(path / "batches", lambda ix: ix["inputs"].__setitem__("bounded", digest))
                record = json.loads((path / "run.json").read_text())
                record["examples"], record["sha256"] = f"bounded {digest}", "0" * 64
                zeros = json.dumps(record, indent=2) + "\n"
                (path / "run.json").write_text(zeros.replace("0" * 64, hashlib.sha256(zeros.encode()).hexdigest()))
            with self.subTest(words), self.assertRaisesRegex(minsep.RunDirectoryError, words):
                minsep.Run(path).join(runs.ids_of("numbers", 100))
            shutil.rmtree(path)

    def test_messages_tell_no_sizes(self):
        path = self.formed()
        file = path / "batches" / "rows-00000-of-00003.npy"
        size = file.stat().st_size
        os.truncate(file, size + 1)
        with self.assertRaises(minsep.RunDirectoryError) as caught:
            minsep.Run(path).batch(0)
        self.assertNotRegex(str(caught.exception), rf"\b({size}|{size + 1})\b")
