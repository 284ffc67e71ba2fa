package pipelines_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"minsep/internal/teststate"
	"minsep/pipelines"
	"minsep/sampling/stream"
	"minsep/transforms/progress"
)

func TestMain(m *testing.M) { os.Exit(teststate.Main{Tests: onDirect{m}}.Run()) }

// onDirect runs tests on the direct runner.
type onDirect struct{ *testing.M }

func (m onDirect) Run() int { return ptest.MainRetWithDefault(m.M, "direct") }

// jobIDs catches from the logs under which names a runner holds jobs.
type jobIDs struct {
	slog.Handler
	found chan string
}

func (h jobIDs) Enabled(context.Context, slog.Level) bool { return true }

func (h jobIDs) Handle(_ context.Context, r slog.Record) error {
	if id, ok := strings.CutPrefix(r.Message, "Submitted job: "); ok {
		h.found <- id
	}
	return nil
}

// service is the job service of Prism in this process. There must have been a job.
func service(t *testing.T) jobpb.JobServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(*jobopts.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return jobpb.NewJobServiceClient(conn)
}

func slowForm(t *testing.T) (pipelines.Form, pipelines.Options, chan string) {
	t.Helper()
	dir, found := t.TempDir(), make(chan string, 1)
	o := pipelines.Options{Runner: "prism", Out: filepath.Join(dir, "run"), KeyFile: filepath.Join(dir, "key"), Log: slog.New(jobIDs{slog.DiscardHandler, found})}
	if err := stream.CreateKeyFile(o.KeyFile); err != nil {
		t.Fatal(err)
	}
	f := pipelines.Form{Examples: 10_000_000, Shards: 64}
	f.Scheme, f.Steps, f.MinSep, f.BatchSize = "b-min-sep", 20000, 4, 3000
	return f, o, found
}

// A job whose context ends is cancelled where it runs, and leaves nothing.
func TestJobIsCancelled(t *testing.T) {
	f, o, found := slowForm(t)
	ctx, cancel := context.WithCancel(t.Context())
	progress.Reset()
	ended := make(chan error, 1)
	go func() { _, err := f.Run(ctx, o); ended <- err }()
	id := <-found
	for len(progress.Counts()) == 0 { // a worker that begins late takes the logs of the next job with it
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	state, err := service(t).GetState(t.Context(), &jobpb.GetJobStateRequest{JobId: id})
	if err != nil {
		t.Fatal(err)
	}
	if got := state.GetState(); got != jobpb.JobState_CANCELLED && got != jobpb.JobState_FAILED {
		t.Errorf("the job is %v", got)
	}
	if left, err := os.ReadDir(o.Out); err == nil {
		t.Errorf("left: %v", left)
	}
}

// A job that somebody else cancels is an error, even where the runner says that it has ended well, and leaves nothing.
func TestCancelledJobIsNoResult(t *testing.T) {
	f, o, found := slowForm(t)
	progress.Reset()
	ended := make(chan error, 1)
	go func() { _, err := f.Run(t.Context(), o); ended <- err }()
	id := <-found
	for len(progress.Counts()) == 0 { // Prism panics when its workers are gone before they are there
		time.Sleep(time.Millisecond)
	}
	if _, err := service(t).Cancel(t.Context(), &jobpb.CancelJobRequest{JobId: id}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a job that was cancelled gave a result")
		}
		t.Logf("the error is: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("it did not end")
	}
	if left, err := os.ReadDir(o.Out); err == nil {
		t.Errorf("left: %v", left)
	}
}
