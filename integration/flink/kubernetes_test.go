package flink_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"minsep/integration/flink"
	"minsep/internal/must"
)

// kubernetes is the folder of the manifests.
const kubernetes = "../../deploy/flink-kubernetes"

// manifests are those of the folder, as kustomization.yaml lists them.
type manifests struct {
	storage core.PersistentVolumeClaim
	cluster struct {
		Spec struct {
			FlinkConfiguration map[string]string
			TaskManager        struct {
				Replicas    int
				PodTemplate core.PodTemplateSpec
			}
		}
	}
	jobServer apps.Deployment
	service   core.Service
	run       batch.Job
}

// documents reads a file of YAML.
func documents(t *testing.T, name string) [][]byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(kubernetes, name)))(t)
	return bytes.Split(b, []byte("\n---\n"))
}

// readManifests reads the manifests. A field that Kubernetes does not know is an error.
func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	var list struct {
		Resources          []string
		ConfigMapGenerator []struct {
			Name  string
			Files []string
		}
	}
	strict := func(b []byte, into any) {
		t.Helper()
		must.Do(t, yaml.UnmarshalStrict(b, into))
	}
	strict(documents(t, "kustomization.yaml")[0], &list)
	if want := []string{"storage.yaml", "cluster.yaml", "jobserver.yaml", "run.yaml"}; !slices.Equal(list.Resources, want) || len(list.ConfigMapGenerator) != 1 || list.ConfigMapGenerator[0].Files[0] != "plan.json" {
		t.Fatalf("kustomization.yaml lists %+v, this test reads %q", list, want)
	}
	strict(documents(t, "storage.yaml")[0], &m.storage)
	strict(documents(t, "jobserver.yaml")[0], &m.jobServer)
	strict(documents(t, "jobserver.yaml")[1], &m.service)
	strict(documents(t, "run.yaml")[0], &m.run)
	must.Do(t, yaml.Unmarshal(documents(t, "cluster.yaml")[0], &m.cluster))
	return m
}

// closed makes the schema of a resource refuse fields that it does not name, as kubectl does.
func closed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, of := range v {
			v[name] = closed(of)
		}
		_, fields := v["properties"].(map[string]any)
		_, more := v["additionalProperties"]
		if preserve, _ := v["x-kubernetes-preserve-unknown-fields"].(bool); fields && !more && !preserve {
			v["additionalProperties"] = false
		}
	case []any:
		for i := range v {
			v[i] = closed(v[i])
		}
	}
	return v
}

// flinkSchema is the schema of FlinkDeployment, of the operator's custom resource definition.
func flinkSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	f := must.Get(os.Open("../testdata/flinkdeployments-1.15.0.yml.gz"))(t)
	defer f.Close()
	z := must.Get(gzip.NewReader(f))(t)
	b := must.Get(io.ReadAll(z))(t)
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	must.Do(t, yaml.Unmarshal(b, &definition))
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range []string{"apiVersion", "kind", "metadata"} { // which every resource has
		schema["properties"].(map[string]any)[name] = map[string]any{}
	}
	c := jsonschema.NewCompiler()
	must.Do(t, c.AddResource("flinkdeployment.json", closed(schema)))
	compiled := must.Get(c.Compile("flinkdeployment.json"))(t)
	return compiled
}

func value(t *testing.T, text []byte) any {
	t.Helper()
	b := must.Get(yaml.YAMLToJSON(text))(t)
	v := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(b)))(t)
	return v
}

// TestKubernetesSchema holds the cluster against the operator's schema, which refuses what is
// wrong.
func TestKubernetesSchema(t *testing.T) {
	schema, text := flinkSchema(t), documents(t, "cluster.yaml")[0]
	if err := schema.Validate(value(t, text)); err != nil {
		t.Error(err)
	}
	for good, bad := range map[string]string{
		"flinkVersion: v1_19": "flinkVersion: v1_9", "replicas: 2": "replicas: two", "podTemplate:": "podTemplates:",
		"initContainers:": "initContainer:", "mountPath: /work": "mountpath: /work", "claimName: minsep": "claim: minsep",
	} {
		wrong := bytes.Replace(text, []byte(good), []byte(bad), 1)
		if bytes.Equal(wrong, text) || schema.Validate(value(t, wrong)) == nil {
			t.Errorf("%s in place of %s passes", bad, good)
		}
	}
}

// arg returns the value of a flag of a container.
func arg(t *testing.T, args []string, flag string) string {
	t.Helper()
	for i, a := range args {
		if v, found := strings.CutPrefix(a, flag+"="); found {
			return v
		}
		if a == flag && i+1 < len(args) {
			return args[i+1]
		}
	}
	t.Fatalf("%q have no %s", args, flag)
	return ""
}

// container returns a container of a pod by its name.
func container(t *testing.T, pod core.PodSpec, name string) core.Container {
	t.Helper()
	for _, c := range pod.Containers {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no container %s", name)
	return core.Container{}
}

// TestKubernetesFits holds that the manifests name each other's addresses, paths and volumes.
func TestKubernetesFits(t *testing.T) {
	m := readManifests(t)
	taskManager, job, server := m.cluster.Spec.TaskManager.PodTemplate.Spec, m.run.Spec.Template.Spec, m.jobServer.Spec.Template.Spec
	pool, run, jobServer := container(t, taskManager, "workers"), container(t, job, "minsep"), container(t, server, "jobserver")
	for what, pair := range map[string][2]string{
		"the pool's address": {arg(t, pool.Args, "--listen"), arg(t, run.Args, "--environment_config")},
		"the image":          {pool.Image, run.Image},
		"the job server":     {m.service.Name + ":" + arg(t, jobServer.Args, "--job-port"), arg(t, run.Args, "--endpoint")},
		"the plan":           {run.Args[1], "/plan/plan.json"},
		"the volume":         {m.storage.Name, taskManager.Volumes[0].PersistentVolumeClaim.ClaimName},
		"temporary files":    {pool.Env[0].Value, "/work"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s and %s", what, pair[0], pair[1])
		}
	}
	if slots := m.cluster.Spec.TaskManager.Replicas; arg(t, run.Args, "--parallelism") != string(rune('0'+slots)) {
		t.Errorf("parallelism %s on %d TaskManagers of one slot", arg(t, run.Args, "--parallelism"), slots)
	}
	for _, pod := range []core.PodSpec{taskManager, job, server} {
		var volumes []string
		for _, v := range pod.Volumes {
			volumes = append(volumes, v.Name)
		}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			for _, mount := range c.VolumeMounts {
				if !slices.Contains(volumes, mount.Name) {
					t.Errorf("container %s mounts %s, of the volumes %q", c.Name, mount.Name, volumes)
				}
			}
		}
	}
	for _, port := range m.service.Spec.Ports {
		if !slices.ContainsFunc(jobServer.Ports, func(p core.ContainerPort) bool { return p.ContainerPort == port.Port }) {
			t.Errorf("the service has port %d, the job server has not", port.Port)
		}
	}
}

// runsHere runs the Job of the manifests here: its arguments and its plan, with other addresses and
// paths, on workers of the pool that the TaskManagers' pods have, and compares with the direct
// runner.
func runsHere(t *testing.T, k *flink.Cluster) {
	m := readManifests(t)
	b := newBench(t)
	pool := container(t, m.cluster.Spec.TaskManager.PodTemplate.Spec, "workers")
	if pool.Args[0] != "worker-pool" {
		t.Fatalf("the pool is %q", pool.Args)
	}
	flags := poolOf(t, k, b.bin)
	text := must.Get(os.ReadFile(filepath.Join(kubernetes, "plan.json")))(t)
	b.writeGraph("edges.parquet", 40_000, 80_000)
	text = bytes.ReplaceAll(text, []byte("/minsep/edges.parquet"), []byte("edges.parquet"))
	text = bytes.ReplaceAll(text, []byte("/minsep/run"), []byte("run"))
	text = bytes.ReplaceAll(text, []byte("/key/key"), []byte("key"))
	var plan map[string]any
	must.Do(t, json.Unmarshal(text, &plan))
	plan["privacy"].(map[string]any)["samples"] = 5000
	plan["noise"].(map[string]any)["coordinates"] = 1000
	text = must.Get(json.Marshal(plan))(t)
	must.Do(t, os.WriteFile(filepath.Join(b.dir, "plan.json"), text, 0o600))
	b.twice = true
	var job []string // those flags of the Job that say where it runs
	for _, a := range container(t, m.run.Spec.Template.Spec, "minsep").Args[2:] {
		name, _, _ := strings.Cut(a, "=")
		switch here := slices.IndexFunc(flags, func(f string) bool { return strings.HasPrefix(f, name+"=") }); {
		case here < 0:
			t.Errorf("the Job has %s, which is not run here", a)
		case name == "--endpoint", name == "--environment_config": // other addresses
			job = append(job, flags[here])
		default:
			job = append(job, a)
		}
	}
	b.both(k, append(job, "--worker_binary="+b.bin), "run", "run", "plan.json")
	if started(t, k) < 2 {
		t.Error("the pool has started no workers")
	}
	if err := k.NoWorkers(2 * time.Minute); err != nil {
		t.Error(err)
	}
}

// TestKubernetesRunsHere is the Job on Flink in one process.
func TestKubernetesRunsHere(t *testing.T) { runsHere(t, loopback(t)) }

// TestClusterKubernetes is the Job on two TaskManagers that have the settings of the manifest.
func TestClusterKubernetes(t *testing.T) {
	dir := home(t)
	onlyWithCluster(t)
	m := readManifests(t)
	k := must.Get(flink.Start(t.Context(), flink.Config{Home: dir, TaskManagers: m.cluster.Spec.TaskManager.Replicas, Settings: m.cluster.Spec.FlinkConfiguration}))(t)
	t.Cleanup(func() {
		if err := k.Stop(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	runsHere(t, k)
	if n := restarts(t, k); n != 0 {
		t.Errorf("%d jobs began again without a fault: look at %s", n, k.Logs())
	}
}
