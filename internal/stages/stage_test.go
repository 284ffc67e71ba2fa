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
		if s.faults == nil || s.estimate == nil || (s.expect == nil) == (s.compare == nil) || len(s.Results) == 0 {
			t.Errorf("stage %s lacks faults, an estimate, a comparison or a result", s.Name)
		}
		if file := s.Formats == nil; file != (s.compare != nil) || file != (s.vouches != nil) || file != (s.files != nil) {
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
		for _, from := range s.From {
			if at := slices.Index(Names(), from); at < 0 || at >= slices.Index(Names(), s.Name) {
				t.Errorf("stage %s is made from %s, which does not run before it", s.Name, from)
			}
		}
		if s.Drawn && !s.OneRun {
			t.Errorf("stage %s has random numbers, and would serve several runs", s.Name)
		}
		if slices.IndexFunc(All, func(other *Stage) bool { return other.Name == s.Name }) != i {
			t.Errorf("there are two stages %s", s.Name)
		}
	}
}
