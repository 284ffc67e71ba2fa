package main

import (
	"testing"

	"minsep/stages"
)

// TestEveryStageHasACommand names the stages without a command of their name.
func TestEveryStageHasACommand(t *testing.T) {
	for _, s := range stages.All {
		of := stageCommands[s.Name]
		if of == nil {
			t.Errorf("stage %s has no command: register one in a file of this package", s.Name)
		} else if name := of(new(app)).Name(); name != s.Name {
			t.Errorf("the command of stage %s is called %s", s.Name, name)
		}
	}
}
