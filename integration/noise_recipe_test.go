package integration

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // every runner

	"minsep/mechanism"
	"minsep/mechanism/noise"
	"minsep/pipelines/manifest"
	"minsep/sampling/stream"
	"minsep/transforms/noiseshards"
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
	out, err := exec.Command(python, "python/noise_recipe.py", "--vectors", "../mechanism/noise/testdata/vectors.json").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNoiseShardsInPython makes the shards of a pipeline from their recipe with NumPy; with another key it must fail.
func TestNoiseShardsInPython(t *testing.T) {
	python := pythonWith(t, "numpy, cryptography")
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "root.key")
	if err := stream.CreateKeyFile(key); err != nil {
		t.Fatal(err)
	}
	root, err := stream.ReadKeyFile(key)
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := noise.NewRecipe(noise.Config{
		Strategy:    &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 150, Toeplitz: []float64{1, .5, .375, .3125}, Normalized: true},
		Coordinates: 5001, NoiseMultiplier: 1.3, ClipNorm: .5,
	})
	if err != nil {
		t.Fatal(err)
	}
	recipe.Bind(root, stream.NewRunID(), key)
	file, err := noiseshards.WriteRecipe(dir, recipe)
	if err != nil {
		t.Fatal(err)
	}
	p, s := beam.NewPipelineWithRoot()
	if _, err := noiseshards.Write(s, noiseshards.Config{Dir: dir, RecipeSHA256: file.SHA256, KeyURI: key, Shards: 3, DType: manifest.DFloat32, StepsPerFile: 64}); err != nil {
		t.Fatal(err)
	}
	if _, err := beam.Run(context.Background(), "direct", p); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "python/noise_recipe.py", "--key", key, dir).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	other := filepath.Join(t.TempDir(), "other.key")
	if err := stream.CreateKeyFile(other); err != nil {
		t.Fatal(err)
	}
	if exec.Command(python, "python/noise_recipe.py", "--key", other, dir).Run() == nil {
		t.Error("another key is accepted")
	}
}
