package integration

import (
	"os/exec"
	"testing"
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
