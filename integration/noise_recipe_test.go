package integration

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // every runner

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/noise"
	"minsep/internal/stream"
	"minsep/internal/transforms/noiseshards"
	"minsep/mechanism"
)

// pythonWith returns the Python that has the packages, or skips the test.
func pythonWith(t *testing.T, packages string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here")
	}
	if err := exec.Command(python, "-c", "import "+packages).Run(); err != nil {
		t.Skipf("python3 with %s is not here", packages)
	}
	return python
}

// TestNoiseRecipeVectorsInPython makes the frozen vectors of noise from their recipes with NumPy.
func TestNoiseRecipeVectorsInPython(t *testing.T) {
	python := pythonWith(t, "numpy, cryptography")
	out, err := exec.Command(python, "python/noise_recipe.py", "--vectors", "../internal/noise/testdata/vectors.json").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestContributionInPython: what the reference trainer adds for one example are multiples of the
// grid of norm at most the clip norm, in integers.
func TestContributionInPython(t *testing.T) {
	python := pythonWith(t, "numpy, cryptography")
	cmd := exec.Command(python, "-c", contributionCheck)
	cmd.Dir = "python"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

const contributionCheck = `
import math
from fractions import Fraction
import numpy as np
from noise_recipe import contribution

rng = np.random.default_rng(1)
clipped = 0
for trial in range(400):
    clip = float(rng.choice([1.0, 0.3, 1e-3, 7e4]))
    grid = 2.0 ** int(np.floor(np.log2(clip)) - rng.integers(3, 45))
    x = rng.standard_normal(int(rng.integers(1, 300))) * np.exp(rng.normal(0, 3)) * clip
    if trial % 3 == 0:
        x = np.sign(x) * clip
    x = x.astype([np.float64, np.float32, np.float16][trial % 3 if clip < 1e4 else 0])
    y = contribution(x, clip, grid)
    steps = [int(v / grid) for v in y]
    assert all(Fraction(v) == k * Fraction(grid) for v, k in zip(y.tolist(), steps)), "off the grid"
    norm2 = sum(k * k for k in steps) * Fraction(grid) ** 2
    assert norm2 <= Fraction(clip) ** 2, (float(norm2), clip)
    exact = sum(Fraction(v) ** 2 for v in contribution(x, clip, 0).tolist())
    assert exact <= Fraction(clip) ** 2, "not clipped before rounding to the grid"
    assert np.all(np.abs(y) <= np.abs(x.astype(np.float64))), "a coordinate has grown"
    if np.linalg.norm(x.astype(np.float64)) > 1.1 * clip:
        clipped += 1
        assert math.sqrt(norm2) > clip * (1 - 2.0**-19) - grid * math.sqrt(len(y)), "clipped too much"
assert clipped > 100
for bad in (np.nan, np.inf, 1e200):
    assert not contribution(np.array([1.0, bad]), 1, 2.0**-20).any()
assert not contribution(np.zeros(3), 1, 2.0**-20).any()
`

// TestNoiseShardsInPython makes the shards of a pipeline from their recipe with NumPy, of both
// types, with a grid and without; with another key it must fail.
func TestNoiseShardsInPython(t *testing.T) {
	python := pythonWith(t, "numpy, cryptography")
	for _, c := range []struct {
		words noise.Words
		dtype manifest.DType
		grid  noise.Grid
	}{{noise.AES128, manifest.DFloat32, 0}, {noise.AES128, manifest.DFloat64, noise.NoGrid}, {noise.ChaCha12, manifest.DFloat32, noise.NoGrid}, {noise.ChaCha12, manifest.DFloat64, 0}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) { shardsInPython(t, python, c.words, c.dtype, c.grid) })
	}
}

func shardsInPython(t *testing.T, python string, words noise.Words, dtype manifest.DType, grid noise.Grid) {
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "root.key")
	must.Do(t, stream.CreateKeyFile(key))
	root := must.Get(stream.ReadKeyFile(key))(t)
	recipe := must.Get(noise.NewRecipe(noise.Config{
		Strategy:    &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 150, Toeplitz: []float64{1, .5, .375, .3125}, Normalized: true},
		Coordinates: 1501, NoiseMultiplier: 1.3, ClipNorm: .5, Grid: grid, Float64: dtype == manifest.DFloat64, Words: words,
	}))(t)
	recipe.Bind(root, stream.NewRunID(), key)
	recipe.Draw()
	file := must.Get(noiseshards.WriteRecipe(dir, recipe))(t)
	out, err := exec.Command(python, "python/noise_recipe.py", "--key", key, dir).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 3 || !strings.Contains(string(out), "there are no files of noise to compare") {
		t.Errorf("a recipe alone: %v\n%s", err, out)
	}
	p, s := beam.NewPipelineWithRoot()
	must.Get(noiseshards.Write(s, noiseshards.Config{Dir: dir, RecipeSHA256: file.SHA256, KeyURI: key, Shards: 3, DType: dtype, StepsPerFile: 64}))(t)
	must.Get(beam.Run(context.Background(), "direct", p))(t)
	if out, err := exec.Command(python, "python/noise_recipe.py", "--key", key, dir).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	other := filepath.Join(t.TempDir(), "other.key")
	must.Do(t, stream.CreateKeyFile(other))
	if exec.Command(python, "python/noise_recipe.py", "--key", other, dir).Run() == nil {
		t.Error("another key is accepted")
	}
}
