package minseptest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	//lint:ignore SA1019 it is the default runner
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"

	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/minseptest"
	"minsep/sampling"
	"minsep/transforms"
)

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

// batches leaves batches of a small graph in a folder, and returns the run directory.
func batches(folder string, shards int, size float64) (string, error) {
	training, err := minseptest.Training(folder)
	if err != nil {
		return "", err
	}
	p, s := beam.NewPipelineWithRoot()
	examples, err := transforms.BoundContributions(s, training, transforms.Limits{MaxExamplesPerOwner: 2}, minseptest.Graph(s, 100, 3))
	if err != nil {
		return "", err
	}
	if err := examples.Write(context.Background(), s); err != nil {
		return "", err
	}
	scheme := sampling.Params{Scheme: "b-min-sep", Steps: 20, MinSep: 4, BatchSize: size}
	b, err := transforms.SampleBatches(s, transforms.Sampling{Params: scheme, Shards: shards}, examples)
	if err != nil {
		return "", err
	}
	if _, err := b.Write(context.Background(), s); err != nil {
		return "", err
	}
	_, err = direct.Execute(context.Background(), p)
	return filepath.Join(folder, minseptest.RunFolder), transforms.Fault(err)
}

// TestTraining: two trainings have the same batches, other parameters are seen, a folder has one
// training, and an inspection says that it is for a test.
func TestTraining(t *testing.T) {
	var runs []string
	for _, c := range []struct {
		shards int
		size   float64
	}{{1, 20}, {5, 20}, {1, 21}} {
		run := must.Get(batches(t.TempDir(), c.shards, c.size))(t)
		runs = append(runs, run)
	}
	if err := minseptest.SameBatches(t.Context(), runs[0], runs[1]); err != nil {
		t.Error(err)
	}
	if err := minseptest.SameBatches(t.Context(), runs[0], runs[2]); err == nil {
		t.Error("another batch size has the same batches")
	}
	if _, err := minseptest.Training(filepath.Dir(runs[0])); err == nil {
		t.Error("a second training in a folder")
	}
	found := must.Get(inspect.Directory(t.Context(), runs[0], inspect.Options{}))(t)
	if text := fmt.Sprintf("%+v", found); !strings.Contains(text, "may serve no training") {
		t.Errorf("the inspection does not say that it is for a test: %s", text)
	}
	record, err := manifest.ReadRun(t.Context(), runs[0])
	if err != nil || !record.Test {
		t.Errorf("%+v, %v", record, err)
	}
}

func Example() {
	folder, err := os.MkdirTemp("", "test")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	training, err := minseptest.Training(folder) // in a test: t.TempDir()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(training.RunID(), "serves tests only")
	// Output:
	// 2511d8448aa1c48ff0a97df180bdd1f3 serves tests only
}
