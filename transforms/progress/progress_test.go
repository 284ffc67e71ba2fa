package progress

import (
	"context"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/google/go-cmp/cmp"
)

var testCounter = New("things tested")

func TestCounterIsSeenByBothReaders(t *testing.T) {
	Reset()
	ctx := metrics.SetBundleID(context.Background(), "bundle")
	testCounter.Add(ctx, 2)
	testCounter.Add(ctx, 3)
	if got := Counts(); !cmp.Equal(got, []Count{{"things tested", 5}}) {
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
