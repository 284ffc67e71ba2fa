package progress

import (
	"context"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/google/go-cmp/cmp"
)

var testCounter = New("things tested")

func TestCounterIsSeenByBothReaders(t *testing.T) {
	Reset()
	ctx := metrics.SetBundleID(context.Background(), "bundle")
	testCounter.Add(ctx, 2)
	testCounter.Add(ctx, 3)
	if got := Counts(); !cmp.Equal(got, []Count{{"things tested", 5, 0, 0}}) {
		t.Errorf("process counts: %v", got)
	}
	var beamTotal int64
	for _, c := range metrics.ResultsExtractor(ctx).AllMetrics().Counters() {
		if c.Key.Name == "things tested" {
			beamTotal += c.Result()
		}
	}
	if beamTotal != 5 {
		t.Errorf("Beam counted %d, want 5", beamTotal)
	}
	Reset()
	if got := Counts(); len(got) != 0 {
		t.Errorf("after Reset: %v", got)
	}
}

func TestTimeLeft(t *testing.T) {
	Reset()
	Expect("things tested", 20)
	Expect("nothing of this name", 3)
	testCounter.Add(context.Background(), 5)
	got := Counts()
	if !cmp.Equal(got, []Count{{"things tested", 5, 20, 0}}) {
		t.Fatalf("counts: %v", got)
	}
	if left, ok := got[0].Left(2 * time.Second); !ok || left != 6*time.Second {
		t.Errorf("5 of 20 in 2 s: %v left, %v", left, ok)
	}
	for _, c := range []Count{{"done", 20, 20, 0}, {"more than expected", 21, 20, 0}, {"of unknown end", 5, 0, 0}, {"not begun", 0, 20, 0}} {
		if left, ok := c.Left(time.Second); ok {
			t.Errorf("%v: %v left", c, left)
		}
	}
	Reset()
	testCounter.Add(context.Background(), 1)
	if got := Counts(); got[0].Expected != 0 {
		t.Errorf("after Reset: %v", got)
	}
}
