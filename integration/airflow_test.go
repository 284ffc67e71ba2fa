package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
)

// TestAirflow imports the DAG of deploy/airflow with Airflow, and runs it: to a certificate, and to
// a claim that is false, where the task fails at once although it has retries, and no later task
// runs.
func TestAirflow(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Airflow: not with -short")
	}
	t.Parallel()
	python := trainer(t, "airflow")
	if python == "" {
		t.Skip("Airflow is not here: make airflow fetches it")
	}
	minsep, dir := buildCommand(t), t.TempDir()
	folder := must.Get(filepath.Abs("../deploy/airflow"))(t)
	program := must.Get(filepath.Abs("python/airflow_dag.py"))(t)
	call := func(name string, arguments ...string) []byte {
		t.Helper()
		cmd := exec.Command(name, arguments...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "AIRFLOW_HOME="+dir, "AIRFLOW__CORE__LOAD_EXAMPLES=False", "AIRFLOW__CORE__DAGS_FOLDER="+folder,
			"PYTHONDONTWRITEBYTECODE=1")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s%s", name, arguments, err, out, &stderr)
		}
		return out
	}
	key := filepath.Join(dir, "key")
	call(minsep, "keygen", key)
	call(python, "-m", "airflow", "db", "migrate")
	call(python, "-m", "airflow", "dags", "reserialize")
	for _, c := range []struct {
		name, privacy string
		state         string // of the run
		states        map[string]string
	}{
		{"certified", `{"epsilon": 2, "delta": 1e-3}`, "success", map[string]string{"check": "success", "run": "success", "inspect": "success", "report": "success"}},
		{"false", `{"epsilon": 2, "delta": 1e-3, "noise_multiplier": 0.1}`, "failed", map[string]string{"check": "success", "run": "failed", "inspect": "upstream_failed", "report": "upstream_failed"}},
	} {
		plan, run := filepath.Join(dir, c.name+".json"), filepath.Join(dir, c.name)
		text := fmt.Sprintf(`{"examples": 1000, "scheme": {"scheme": "poisson", "steps": 10, "prob": 0.02}, "strategy": {"kind": "identity"},
			"privacy": %s, "noise": {"coordinates": 10, "files": true}, "key": %q, "out": "elsewhere"}`, c.privacy, key)
		must.Do(t, os.WriteFile(plan, []byte(text), 0o600))
		out := call(python, program, folder, minsep, plan, run)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		var said struct {
			Errors map[string]string
			Tasks  []string
			State  string
			States map[string]string
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &said); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if len(said.Errors) > 0 || !slices.Equal(said.Tasks, []string{"check", "run", "inspect", "report"}) || said.State != c.state || fmt.Sprint(said.States) != fmt.Sprint(c.states) {
			t.Errorf("%s: %+v\n%s", c.name, said, out)
		}
		if _, err := os.Stat(filepath.Join(run, "report.html")); (err == nil) != (c.state == "success") {
			t.Errorf("%s: a page: %v", c.name, err)
		}
		if root, err := os.ReadFile(key); err != nil || strings.Contains(string(out), fmt.Sprintf("%x", root)) || strings.Contains(string(out), string(root)) {
			t.Errorf("%s: the key is in the logs (%v)", c.name, err)
		}
	}
}
