package pipelines

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
)

// jobServer knows one job, which it sends to a cluster.
type jobServer struct {
	jobpb.JobServiceClient
	master string
	state  jobpb.JobState_Enum
}

func (s jobServer) GetJobs(context.Context, *jobpb.GetJobsRequest, ...grpc.CallOption) (*jobpb.GetJobsResponse, error) {
	options, err := structpb.NewStruct(map[string]any{"beam:option:flink_master:v1": s.master})
	return &jobpb.GetJobsResponse{JobInfo: []*jobpb.JobInfo{{JobId: "other_1", JobName: "other"}, {JobId: "mine_1", JobName: "mine", PipelineOptions: options}}}, err
}

func (s jobServer) GetState(context.Context, *jobpb.GetJobStateRequest, ...grpc.CallOption) (*jobpb.JobStateEvent, error) {
	return &jobpb.JobStateEvent{State: s.state}, nil
}

// A job is cancelled at the cluster where it runs, also one that comes there late, and no other job
// is; the end of its tasks is waited for.
func TestCancelAtFlink(t *testing.T) {
	type job struct {
		JID   string `json:"jid"`
		Name  string `json:"name"`
		State string `json:"state"`
	}
	looks, cancelled := 0, ""
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			cancelled += r.URL.String()
			w.WriteHeader(http.StatusAccepted)
			return
		}
		looks++
		jobs := []job{{"a", "other", "RUNNING"}, {"b", "mine", "FAILED"}}
		switch {
		case looks < 3: // the job is on its way
			jobs = jobs[:1]
		case cancelled == "":
			jobs = append(jobs, job{"c", "mine", "RUNNING"})
		case looks < 6:
			jobs = append(jobs, job{"c", "mine", "CANCELLING"})
		default:
			jobs = append(jobs, job{"c", "mine", "CANCELED"})
		}
		json.NewEncoder(w).Encode(map[string][]job{"jobs": jobs})
	}))
	defer cluster.Close()
	address := strings.TrimPrefix(cluster.URL, "http://")
	if err := cancelAtFlink(jobServer{master: address, state: jobpb.JobState_RUNNING}, "mine_1"); err != nil || cancelled != "/jobs/c?mode=cancel" || looks < 6 {
		t.Errorf("%v: cancelled %q, after %d looks", err, cancelled, looks)
	}
	looks = 0
	if err := cancelAtFlink(jobServer{master: address, state: jobpb.JobState_FAILED}, "mine_1"); err != nil || looks != 1 {
		t.Errorf("a job that failed before it came to Flink: %v, after %d looks", err, looks)
	}
	if err := cancelAtFlink(jobServer{master: "[local]"}, "mine_1"); err != nil {
		t.Errorf("Flink in the job server: %v", err)
	}
	if err := cancelAtFlink(jobServer{master: address}, "unknown_1"); err == nil {
		t.Error("a job that the job server does not know was cancelled")
	}
	cluster.Close()
	if err := cancelAtFlink(jobServer{master: address}, "mine_1"); err == nil {
		t.Error("a cluster that is not there has cancelled a job")
	}
}
