package stages

import (
	"context"
	"slices"
)

// Stage is a stage of a training run, as plans, run directories, inspections and reports know it. A
// file of this package declares it, with its parameters and its estimate. Packages inspect and pipelines and the command each have a file for it too,
// which registers its part by the stage's name. A test of each package names a stage without one.
type Stage struct {
	Name  string // in run.json, and of its command
	Group string // of the plan's fields that it takes, by which its faults are told

	Results []string // names in a run directory, of which it leaves one: of folders with an index, or of files where Formats is nil
	Formats []string // that the index may have
	Work    string   // another folder that it writes in; "" for none

	// Reads are the fields of a plan's record, by how their names begin, that decide the result, which a run of
	// another plan with the same ones takes over. A secret result is never taken over.
	Reads []string

	Secret bool // only the user may read the result, and know how large it is: it is drawn with the root key, and serves one training

	in       func(p Plan) bool  // whether a plan has the stage; nil: each has it
	faults   func(p Plan) error // of its parameters in a plan
	estimate func(p Plan) PlanEstimate

	// Of a result that is no folder with an index; nil for such a folder.

	differs func(ctx context.Context, d *Directory) ([]string, error) // how a result that run.json does not name differs from the plan's
	files   func(ctx context.Context, d *Directory) []string          // in the run directory, that vouch for the result: the result itself, then others
}

// Names returns the names of all stages in the order in which they run.
func Names() (names []string) {
	for _, s := range All {
		names = append(names, s.Name)
	}
	return names
}

// Named returns the stage of a name. It panics if there is none.
func Named(name string) *Stage {
	i := slices.IndexFunc(All, func(s *Stage) bool { return s.Name == name })
	if i < 0 {
		panic("stages: no stage " + name)
	}
	return All[i]
}

// ResultName returns the name by which options know the result, whichever of Results it is.
func (s *Stage) ResultName() string { return s.Results[0] }

// Folder returns the folder of a run directory in which the stage writes.
func (s *Stage) Folder() string {
	if s.Formats == nil {
		return s.Work
	}
	return s.ResultName()
}

// has reports whether a plan has the stage.
func (s *Stage) has(p Plan) bool { return s.in == nil || s.in(p) }
