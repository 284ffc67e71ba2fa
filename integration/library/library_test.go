package main

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	//lint:ignore SA1019 it is the default runner
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"minsep/integration/objectstores"
	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/minseptest"
	"minsep/privacy"
	"minsep/sampling"
	_ "minsep/store/gs"
	_ "minsep/store/s3"
	"minsep/transforms"
)

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

func TestGoogleCloudStorage(t *testing.T) {
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true})
	if err != nil {
		t.Fatal(err)
	}
	fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "bucket"})
	server := httptest.NewServer(fake.HTTPHandler())
	defer server.Close()
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(server.URL, "http://"))
	testProgram(t, "gs://bucket")
}

func TestS3(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(objectstores.Checksums{Service: gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()})
	defer server.Close()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_REGION": "us-east-1",
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	testProgram(t, "s3://bucket")
}

// testProgram bounds pairs, samples batches and makes noise of a training whose key and run directory
// are in a store.
func testProgram(t *testing.T, root string) {
	training := newTraining(t, root)
	p, s := beam.NewPipelineWithRoot()
	scheme := sampling.Params{Scheme: "b-min-sep", Steps: 60, MinSep: 6, BatchSize: 100}
	pairs := minseptest.Graph(s, 2000, 5)
	examples, err := transforms.BoundContributions(s, training, transforms.Limits{MaxExamplesPerOwner: 2}, pairs)
	if err != nil {
		t.Fatal(err)
	}
	if err := examples.Write(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	batches, err := transforms.SampleBatches(s, transforms.Sampling{Params: scheme}, examples)
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := mechanism.BSR(scheme.Steps, 4)
	if err != nil {
		t.Fatal(err)
	}
	params := transforms.NoiseParams{Strategy: strategy, Coordinates: 10, NoiseMultiplier: 1, ClipNorm: 1}
	if _, err := transforms.Noise(t.Context(), s, batches, params, transforms.NoiseLayout{}); err != nil {
		t.Fatal(err)
	}
	if _, err := batches.Write(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Execute(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	table, err := manifest.OpenBounded(t.Context(), root+"/run/bounded")
	if err != nil || table.Summary.Kept == 0 {
		t.Fatalf("%+v, %v", table, err)
	}
	written, err := manifest.OpenBatches(t.Context(), root+"/run/batches")
	if err != nil {
		t.Fatal(err)
	}
	if err := written.Index.Verify(t.Context(), written.Dir); err != nil {
		t.Error(err)
	}
	if _, err := transforms.NewTraining(t.Context(), root+"/run", root+"/key"); err == nil {
		t.Error("a second training in the directory")
	}
}

// TestOwnStrategy certifies a strategy of a program's own, writes the certificate into a run
// directory, and inspects it there as every binary does.
func TestOwnStrategy(t *testing.T) {
	const steps = 12
	strategy, err := mechanism.FromRows(steps, func(i int) []float64 { return []float64{-0.4, 1}[max(0, 1-i):] })
	if err != nil {
		t.Fatal(err)
	}
	claim := privacy.Claim{
		Sampler:  sampling.Spec{Fixed: &sampling.Fixed{Steps: steps, MinSep: 4, BatchSize: 5}},
		Strategy: strategy,
		Epsilon:  2,
		Delta:    1e-3,
	}
	certificate, err := privacy.Certify(t.Context(), claim, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	if err := certificate.Write(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	r, err := inspect.Directory(t.Context(), run, inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.State != inspect.StateCertified {
		t.Errorf("%s: %s", r.State, r.Verdict)
	}
	if err := certificate.Write(t.Context(), run); err == nil {
		t.Error("a second certificate in the directory")
	}
}

// newTraining makes a key and a training in a folder.
func newTraining(t *testing.T, root string) *transforms.Training {
	t.Helper()
	if err := stream.CreateKeyFile(root + "/key"); err != nil {
		t.Fatal(err)
	}
	training, err := transforms.NewTraining(t.Context(), root+"/run", root+"/key")
	if err != nil {
		t.Fatal(err)
	}
	return training
}

// TestOwnLaw certifies a law of a program's own, writes the certificate and the batches of the law into
// a run directory, and inspects them there as every binary does.
func TestOwnLaw(t *testing.T) {
	const steps = 30
	table, err := sampling.Law{
		Start: []sampling.Start{{Point: sampling.Point{Step: 1}, Prob: 1}},
		Next: func(at sampling.Point) (p float64, in, out sampling.Point) { // at most twice, a week apart
			in = sampling.Point{Step: at.Step + 7, State: at.State + 1}
			if at.State == 1 {
				in.Step = sampling.Never
			}
			return 0.05, in, sampling.Point{Step: at.Step + 1, State: at.State}
		},
	}.Tabulate(steps)
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := mechanism.BSR(steps, 4)
	if err != nil {
		t.Fatal(err)
	}
	claim := privacy.Claim{Sampler: sampling.Spec{Law: table}, Strategy: strategy, Epsilon: 2, Delta: 1e-2, Samples: 50_000}
	certificate, err := privacy.Certify(t.Context(), claim, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	training := newTraining(t, root)
	if err := certificate.Write(t.Context(), root+"/run"); err != nil {
		t.Fatal(err)
	}
	p, s := beam.NewPipelineWithRoot()
	batches, err := transforms.SampleBatches(s, transforms.Sampling{Params: sampling.Params{Scheme: sampling.LawScheme, Steps: table.Steps, Law: table}}, transforms.NumberedExamples(training, 20_000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := batches.Write(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Execute(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r, err := inspect.Directory(t.Context(), root+"/run", inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.State != inspect.StateCertified || !strings.Contains(r.Verdict, "batches match") {
		t.Errorf("%s: %s", r.State, r.Verdict)
	}
}
