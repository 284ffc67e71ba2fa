package integration

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"minsep/internal/must"
)

// TestDataflowLaunch launches the plan of deploy/dataflow as its README does, against an emulator
// of Cloud Storage: the plan passes --dry-run, and with the script's own flags a stage is
// translated to a job.
func TestDataflowLaunch(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("sh is not here")
	}
	minsep, dir := buildCommand(t), t.TempDir()
	key := filepath.Join(dir, "key")
	if out, err := exec.Command(minsep, "keygen", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	root := must.Get(os.ReadFile(key))(t)
	fake := must.Get(fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true}))(t)
	defer fake.Stop()
	edges := "example_id,owner_id\n"
	for e := range 4000 {
		edges += fmt.Sprintf("%d,%d\n", e, e/2)
	}
	for _, o := range []struct{ bucket, name, text string }{{"bucket", "edges/1.csv", edges}, {"secrets", "key", string(root)}} {
		fake.CreateObject(fakestorage.Object{ObjectAttrs: fakestorage.ObjectAttrs{BucketName: o.bucket, Name: o.name}, Content: []byte(o.text)})
	}
	server := httptest.NewServer(fake.HTTPHandler())
	defer server.Close()

	said := filepath.Join(dir, "said")
	say := filepath.Join(dir, "say")
	must.Do(t, os.WriteFile(say, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" > "+said+"\n"), 0o700))
	environment := append(os.Environ(), "STORAGE_EMULATOR_HOST="+strings.TrimPrefix(server.URL, "http://"), "GOOGLE_APPLICATION_CREDENTIALS=/nowhere", "CLOUDSDK_CONFIG=/nowhere",
		"PROJECT=p", "REGION=europe-west4", "BUCKET=gs://bucket", "SERVICE_ACCOUNT=minsep@p.iam.gserviceaccount.com", "IMAGE=registry.example/minsep")
	run := func(code int, name string, arguments ...string) string {
		t.Helper()
		cmd := exec.Command(name, arguments...)
		cmd.Env, cmd.Dir = environment, "../deploy/dataflow"
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code {
			t.Fatalf("%s %q: %v\n%s", name, arguments, cmd.ProcessState, out)
		}
		return string(out)
	}
	environment = append(environment, "MINSEP="+minsep)
	out := run(0, "./launch.sh", "plan.json", "--dry-run")
	for _, stage := range []string{"bound", "strategy", "account", "form", "noise"} {
		if !regexp.MustCompile(`(?m)^` + stage + ` +to do`).MatchString(out) {
			t.Errorf("%s is not to do:\n%s", stage, out)
		}
	}

	environment = append(environment, "MINSEP="+say)
	run(0, "./launch.sh", "plan.json", "--max_num_workers", "50")
	text := must.Get(os.ReadFile(said))(t)
	flags := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(flags) < 10 || flags[0] != "run" || flags[1] != "plan.json" || flags[len(flags)-1] != "50" {
		t.Fatalf("the script calls minsep %q", flags)
	}
	bound := append([]string{"bound", "--graph", "gs://bucket/edges/*.csv", "--max-per-owner", "2", "--key", "gs://secrets/key", "--out", "gs://bucket/run"}, flags[2:]...)
	out = run(0, minsep, append(bound, "--dry_run", "--log-level", "info")...)
	for _, want := range []string{"translated, not run", "JOB_TYPE_BATCH", "minsep@p.iam.gserviceaccount.com", "registry.example/minsep", "n2-standard-4"} {
		if !strings.Contains(out, want) {
			t.Errorf("the job lacks %q:\n%.4000s", want, out)
		}
	}
	if out := run(2, minsep, append(bound, "--template_location", "gs://bucket/template")...); !strings.Contains(out, "deploy/dataflow") {
		t.Errorf("the way out is not named: %s", out)
	}
}
