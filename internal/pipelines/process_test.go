package pipelines

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	beamlog "github.com/apache/beam/sdks/v2/go/pkg/beam/log"
)

// TestJobsLogApart has two jobs at once: each gets the records of its context and its id, the later
// one those that tell no job, and after its end the other.
func TestJobsLogApart(t *testing.T) {
	var texts [2]bytes.Buffer
	var jobs [2]*jobLog
	var contexts [2]context.Context
	var ends [2]func()
	for i := range jobs {
		jobs[i] = &jobLog{log: slog.New(slog.NewTextHandler(&texts[i], nil))}
		contexts[i], ends[i] = beamLog.begin(t.Context(), jobs[i])
	}
	for i, id := range []string{"first", "second"} {
		beamlog.Infof(contexts[i], "Submitted job: %s", id)
	}
	beamlog.Warn(t.Context(), "of a worker")
	beamlog.Debug(contexts[0], "data")
	ends[1]()
	beamlog.Warn(t.Context(), "later")
	ends[0]()
	beamlog.Warn(t.Context(), "of no job")
	for i, want := range [][]string{{"first", "later"}, {"second", "of a worker"}} {
		if lines := strings.Count(texts[i].String(), "\n"); lines != len(want) {
			t.Errorf("job %d has %d records, want %d:\n%s", i, lines, len(want), &texts[i])
		}
		for _, text := range want {
			if !strings.Contains(texts[i].String(), text) {
				t.Errorf("job %d lacks %q:\n%s", i, text, &texts[i])
			}
		}
		if got := jobs[i].id(); got != want[0] {
			t.Errorf("job %d has the id %q", i, got)
		}
	}
}
