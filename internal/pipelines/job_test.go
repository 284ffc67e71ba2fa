package pipelines_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"minsep/internal/must"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
	"minsep/internal/transforms/progress"
)

func TestMain(m *testing.M) { os.Exit(onDirect{m}.Run()) }

// onDirect runs tests on the direct runner.
type onDirect struct{ *testing.M }

func (m onDirect) Run() int { return ptest.MainRetWithDefault(m.M, "direct") }

// slowJob is a job on Prism that takes long.
type slowJob struct {
	form    pipelines.Form
	options pipelines.Options
	name    string // of the job, which no other job has
	service jobpb.JobServiceClient
}

func newSlowJob(t *testing.T) slowJob {
	t.Helper()
	dir := t.TempDir()
	o := pipelines.Options{Runner: "prism", Out: filepath.Join(dir, "run"), KeyFile: filepath.Join(dir, "key")}
	must.Do(t, stream.CreateKeyFile(o.KeyFile))
	f := pipelines.Form{Examples: 10_000_000, Shards: 64}
	f.Scheme, f.Steps, f.MinSep, f.BatchSize = "b-min-sep", 20000, 4, 3000
	if *jobopts.Endpoint == "" { // the first job starts Prism's job service
		p, s := beam.NewPipelineWithRoot()
		beam.Impulse(s)
		must.Get(beam.Run(t.Context(), "prism", p))(t)
	}
	conn := must.Get(grpc.NewClient(*jobopts.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	before := *jobopts.JobName
	t.Cleanup(func() { *jobopts.JobName = before })
	*jobopts.JobName = t.Name() + "-" + stream.NewRunID().String()
	return slowJob{f, o, *jobopts.JobName, jobpb.NewJobServiceClient(conn)}
}

// begin begins the job, and returns once it works: its id at the job service, and where its end is
// told.
func (j slowJob) begin(ctx context.Context, t *testing.T) (id string, ended chan error) {
	t.Helper()
	progress.Reset()
	ended = make(chan error, 1)
	go func() { _, err := j.form.Run(ctx, j.options); ended <- err }()
	for id == "" || len(progress.Counts()) == 0 { // Prism panics when its workers are gone before they are there
		select {
		case err := <-ended:
			t.Fatalf("the job ended: %v", err)
		case <-time.After(time.Millisecond):
		}
		// Logs do not tell: workers of earlier jobs take them.
		jobs := must.Get(j.service.GetJobs(t.Context(), &jobpb.GetJobsRequest{}))(t)
		for _, job := range jobs.GetJobInfo() {
			if job.GetJobName() == j.name && job.GetState() == jobpb.JobState_RUNNING {
				id = job.GetJobId()
			}
		}
	}
	return id, ended
}

// A job whose context ends is cancelled where it runs, and leaves nothing.
func TestJobIsCancelled(t *testing.T) {
	j := newSlowJob(t)
	ctx, cancel := context.WithCancel(t.Context())
	id, ended := j.begin(ctx, t)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	state := must.Get(j.service.GetState(t.Context(), &jobpb.GetJobStateRequest{JobId: id}))(t)
	if got := state.GetState(); got != jobpb.JobState_CANCELLED && got != jobpb.JobState_FAILED {
		t.Errorf("the job is %v", got)
	}
	if left, err := os.ReadDir(j.options.Out); err == nil {
		t.Errorf("left: %v", left)
	}
}

// A job that somebody else cancels is an error, even where the runner says that it has ended well,
// and leaves nothing.
func TestCancelledJobIsNoResult(t *testing.T) {
	j := newSlowJob(t)
	id, ended := j.begin(t.Context(), t)
	must.Get(j.service.Cancel(t.Context(), &jobpb.CancelJobRequest{JobId: id}))(t)
	err := <-ended
	if err == nil {
		t.Error("a job that was cancelled gave a result")
	}
	t.Logf("the error is: %v", err)
	if left, err := os.ReadDir(j.options.Out); err == nil {
		t.Errorf("left: %v", left)
	}
}
