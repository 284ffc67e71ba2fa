package inspect

import (
	"testing"

	"minsep/internal/stages"
)

// TestEveryStageIsInspected names the stages without a function here.
func TestEveryStageIsInspected(t *testing.T) {
	for _, s := range stages.All {
		if inspectors[s.Name] == nil {
			t.Errorf("stage %s has no function that inspects its result: register one in a file of this package", s.Name)
		}
	}
	for name := range inspectors {
		stages.Named(name) // which panics where there is none
	}
}
