package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrainings runs the tests of integration/trainer with each framework that is here: trainings
// on real data that are compared, killed and resumed, and on several hosts, which are namespaces of
// Linux.
func TestTrainings(t *testing.T) {
	if testing.Short() {
		t.Skip("trains models: not with -short")
	}
	source, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string][]string{
		"jax":   {"test_trainings.Children", "test_trainings.Jax", "test_trainings.Owners", "test_trainings.Texts", "test_trainings.Genes", "test_trainings.Tables"},
		"torch": {"test_trainings.Torch"},
		"hf":    {"test_trainings.HuggingFace"},
	}
	data := map[string]string{"jax": "sklearn", "torch": "sklearn", "hf": "awscli"}
	bin := buildCommand(t)
	for framework := range programs {
		t.Run(framework, func(t *testing.T) {
			python := needTrainer(t, framework)
			if exec.Command(python, "-c", "import "+data[framework]).Run() != nil {
				t.Skipf("%s: not here: make trainers and make hf fetch it", data[framework])
			}
			cmd := exec.Command(python, append([]string{"-m", "unittest", "-v"}, programs[framework]...)...)
			cmd.Dir = "trainer"
			cmd.Env = append(os.Environ(), "PYTHONPATH="+source, "MINSEP_COMMAND="+bin, "TMPDIR="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "skipped '") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}
