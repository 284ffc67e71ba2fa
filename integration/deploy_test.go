package integration

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"testing"

	"minsep/internal/must"
)

// deployed are the files of deploy, each with a test that uses it and the file of that test.
var deployed = map[string][2]string{
	"airflow/README.md":                   {"TestLinks", "links_test.go"},
	"airflow/minsep_run.py":               {"TestAirflow", "airflow_test.go"},
	"dataflow/README.md":                  {"TestLinks", "links_test.go"},
	"dataflow/launch.sh":                  {"TestDataflowLaunch", "dataflow_test.go"},
	"dataflow/plan.json":                  {"TestDataflowLaunch", "dataflow_test.go"},
	"flink-kubernetes/README.md":          {"TestLinks", "links_test.go"},
	"flink-kubernetes/cluster.yaml":       {"TestKubernetesFits", "flink/kubernetes_test.go"},
	"flink-kubernetes/jobserver.yaml":     {"TestKubernetesFits", "flink/kubernetes_test.go"},
	"flink-kubernetes/kustomization.yaml": {"TestKubernetesFits", "flink/kubernetes_test.go"},
	"flink-kubernetes/plan.json":          {"TestKubernetesRunsHere", "flink/kubernetes_test.go"},
	"flink-kubernetes/run.yaml":           {"TestKubernetesRunsHere", "flink/kubernetes_test.go"},
	"flink-kubernetes/storage.yaml":       {"TestKubernetesFits", "flink/kubernetes_test.go"},
}

// TestDeployedFilesAreUsed holds docs/deploy.md's promise that a test uses each file of deploy: a
// new file needs a test. A Python file is one of the folder that Airflow loads; every other test
// names its file.
func TestDeployedFilesAreUsed(t *testing.T) {
	var files []string
	err := fs.WalkDir(os.DirFS("../deploy"), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && path.Base(path.Dir(name)) != "__pycache__" {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if listed := slices.Sorted(maps.Keys(deployed)); !slices.Equal(files, listed) {
		t.Errorf("deploy has %q, and tests use %q", files, listed)
	}
	for name, test := range deployed {
		source := must.Get(os.ReadFile(test[1]))(t)
		says := path.Base(name)
		switch path.Ext(name) {
		case ".md":
			says = "../deploy/*/*.md"
		case ".py":
			says = "../deploy/" + path.Dir(name)
		}
		if !bytes.Contains(source, []byte("\nfunc "+test[0]+"(t *testing.T)")) || !bytes.Contains(source, []byte(says)) {
			t.Errorf("%s has no %s that uses %s", test[1], test[0], name)
		}
	}
}
