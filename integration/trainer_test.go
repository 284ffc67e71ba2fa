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
	programs := map[string][]string{"jax": {"test_trainings.Children", "test_trainings.Jax", "test_trainings.Owners", "test_trainings.Texts", "test_trainings.Genes", "test_trainings.Tables", "test_hosts.Jax"}, "torch": {"test_trainings.Torch", "test_hosts.Torch"}}
	pythons := map[string]string{}
	for framework := range programs {
		python := trainer(t, framework)
		if python == "" || exec.Command(python, "-c", "import sklearn").Run() != nil {
			t.Logf("%s with scikit-learn is not here (make trainers fetches it): its trainings are skipped", framework)
			continue
		}
		pythons[framework] = python
	}
	if len(pythons) == 0 {
		t.Skip("no framework is here: make trainers fetches them")
	}
	bin := buildCommand(t)
	for framework, python := range pythons {
		t.Run(framework, func(t *testing.T) {
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
