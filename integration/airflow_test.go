package integration

import (
	"encoding/json"
	"fmt"
	"maps"
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
	key := filepath.Join(dir, "key")
	if out, err := exec.Command(minsep, "keygen", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cases := []struct {
		name, privacy string
		state         string // of the run
		states        map[string]string
	}{
		{"certified", `{"epsilon": 2, "delta": 1e-3}`, "success", map[string]string{"check": "success", "run": "success", "inspect": "success", "report": "success"}},
		{"false", `{"epsilon": 2, "delta": 1e-3, "noise_multiplier": 0.1}`, "failed", map[string]string{"check": "success", "run": "failed", "inspect": "upstream_failed", "report": "upstream_failed"}},
	}
	arguments := []string{program, folder, minsep}
	for _, c := range cases {
		plan := filepath.Join(dir, c.name+".json")
		text := fmt.Sprintf(`{"examples": 1000, "scheme": {"scheme": "poisson", "steps": 10, "prob": 0.02}, "strategy": {"kind": "identity"},
			"privacy": %s, "noise": {"coordinates": 10, "files": true}, "key": %q, "out": "elsewhere"}`, c.privacy, key)
		must.Do(t, os.WriteFile(plan, []byte(text), 0o600))
		arguments = append(arguments, plan, filepath.Join(dir, c.name))
	}
	cmd := exec.Command(python, arguments...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "AIRFLOW_HOME="+dir, "AIRFLOW__CORE__LOAD_EXAMPLES=False", "AIRFLOW__CORE__DAGS_FOLDER="+folder,
		"PYTHONDONTWRITEBYTECODE=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, &stderr)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var said struct {
		Errors map[string]string
		Tasks  []string
		Runs   []struct {
			State  string
			States map[string]string
		}
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &said); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(said.Errors) > 0 || !slices.Equal(said.Tasks, []string{"check", "run", "inspect", "report"}) || len(said.Runs) != len(cases) {
		t.Fatalf("%+v\n%s", said, out)
	}
	for i, c := range cases {
		if run := said.Runs[i]; run.State != c.state || !maps.Equal(run.States, c.states) {
			t.Errorf("%s: %+v\n%s", c.name, run, out)
		}
		if _, err := os.Stat(filepath.Join(dir, c.name, "report.html")); (err == nil) != (c.state == "success") {
			t.Errorf("%s: a page: %v", c.name, err)
		}
	}
	if root, err := os.ReadFile(key); err != nil || strings.Contains(string(out), fmt.Sprintf("%x", root)) || strings.Contains(string(out), string(root)) {
		t.Errorf("the key is in the logs (%v)", err)
	}
}
