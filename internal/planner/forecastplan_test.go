package planner

import (
	"testing"

	"minsep/internal/stages"
)

// TestForecastPlan: the forecast of a plan is found where a search from its column norms finds
// nothing, and says nothing of large graphs.
func TestForecastPlan(t *testing.T) {
	text := `{"examples": 50000, "scheme": {"scheme": "epoch-min-sep", "steps": 1000, "min_sep": 32, "epoch_steps": 195},
		"strategy": {"kind": "bsr", "bands": 32, "workload": "training"}, "privacy": {"epsilon": 4, "delta": 1e-5},
		"noise": {"coordinates": 1000}, "key": "key", "out": "run"}`
	plan, err := stages.ParsePlan("plan.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := plan.QuickStrategy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if seconds, err := ForecastPlan(t.Context(), plan, strategy, 0); err != nil || !(seconds > 1 && seconds < 100) {
		t.Errorf("%g s, %v", seconds, err)
	}
	if _, err := ForecastPlan(t.Context(), plan, strategy, mostForecastEdges+1); err != ErrNoForecast {
		t.Errorf("of a large graph: %v", err)
	}
}
