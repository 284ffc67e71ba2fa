package pipelines

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
)

// Beam's job server gives up its own part of a job that is cancelled, and lets it run on at a
// cluster outside of it. So a job of Flink's is cancelled there, by the cluster's REST API.

// flinkStopTime is the time that tasks on Flink have to end: each ends after its bundle.
const flinkStopTime = time.Minute

// cancelAtFlink cancels a job of a job server at the cluster to which the server sends its jobs,
// and waits until no task of it runs there. It also waits for a job that has not arrived yet. It
// does nothing if Flink runs within the job server.
func cancelAtFlink(service jobpb.JobServiceClient, id string) error {
	ctx, stop := context.WithTimeout(context.Background(), flinkStopTime)
	defer stop()
	server, err := service.GetJobs(ctx, &jobpb.GetJobsRequest{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(server.GetJobInfo(), func(job *jobpb.JobInfo) bool { return job.GetJobId() == id })
	if i < 0 {
		return fmt.Errorf("the job server does not know job %s", id)
	}
	name := server.GetJobInfo()[i].GetJobName()
	master := flinkMaster(server.GetJobInfo()[i])
	if master == "" {
		return nil
	}
	asked := map[string]bool{}
	for tick := time.Tick(100 * time.Millisecond); ; {
		var all struct {
			Jobs []struct{ JID, Name, State string }
		}
		if err := askFlink(ctx, http.MethodGet, master+"/jobs/overview", &all); err != nil {
			return err
		}
		seen, left := false, false
		for _, job := range all.Jobs {
			if job.Name != name {
				continue
			}
			seen = true
			if job.State == "FINISHED" || job.State == "FAILED" || job.State == "CANCELED" {
				continue
			}
			left = true
			if asked[job.JID] {
				continue
			}
			if err := askFlink(ctx, http.MethodPatch, master+"/jobs/"+job.JID+"?mode=cancel", nil); err != nil {
				return err
			}
			asked[job.JID] = true
		}
		if seen && !left {
			return nil
		}
		if !seen {
			state, err := service.GetState(ctx, &jobpb.GetJobStateRequest{JobId: id})
			if err != nil || ended(state) {
				return err
			}
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("job %s may run on at Flink, %s: %w", name, master, ctx.Err())
		}
	}
}

// flinkMaster is the URL of the Flink that a job runs at; "" of one that ends with its job server.
func flinkMaster(job *jobpb.JobInfo) string {
	master := job.GetPipelineOptions().GetFields()["beam:option:flink_master:v1"].GetStringValue()
	if master == "" || strings.HasPrefix(master, "[") { // [local], [auto], [collection]
		return ""
	}
	if !strings.Contains(master, "://") {
		master = "http://" + master
	}
	return master
}

// ended reports whether a job server has nothing more to do for a job.
func ended(state *jobpb.JobStateEvent) bool {
	switch state.GetState() {
	case jobpb.JobState_CANCELLED, jobpb.JobState_DONE, jobpb.JobState_FAILED, jobpb.JobState_DRAINED:
		return true
	}
	return false
}

// askFlink sends a request without a body. It reads the answer into into, unless that is nil.
func askFlink(ctx context.Context, method, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
