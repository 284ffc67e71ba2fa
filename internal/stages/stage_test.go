package stages

import (
	"slices"
	"testing"
)

// TestStagesAreWhole: a stage has all that a plan and an inspection ask of it, and names of its
// own.
func TestStagesAreWhole(t *testing.T) {
	owned := map[string]string{}
	for i, s := range All {
		if s.faults == nil || s.estimate == nil || len(s.Results) == 0 || len(s.Reads) == 0 && !s.Secret {
			t.Errorf("stage %s lacks faults, an estimate, a result or what it reads", s.Name)
		}
		if file := s.Formats == nil; file != (s.differs != nil) || file != (s.files != nil) {
			t.Errorf("stage %s is half a folder with an index and half a file", s.Name)
		}
		if planFields[s.Group] == nil {
			t.Errorf("stage %s: a plan has no group %q", s.Name, s.Group)
		}
		for _, name := range slices.Concat(s.Results, s.Formats, []string{s.Folder()}) {
			if other := owned[name]; other != "" && other != s.Name {
				t.Errorf("%s is of the stages %s and %s", name, other, s.Name)
			}
			owned[name] = s.Name
		}
		if slices.IndexFunc(All, func(other *Stage) bool { return other.Name == s.Name }) != i {
			t.Errorf("there are two stages %s", s.Name)
		}
	}
}
