package pipelines

import (
	"testing"

	"minsep/internal/stages"
)

// TestEveryStageRunsInAPlan names the stages that no plan can run.
func TestEveryStageRunsInAPlan(t *testing.T) {
	for _, s := range stages.All {
		if inPlans[s.Name].Run == nil {
			t.Errorf("stage %s has nothing that runs it in a plan: register it in a file of this package", s.Name)
		}
	}
	for name := range inPlans {
		stages.Named(name) // which panics where there is none
	}
}
