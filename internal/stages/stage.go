package stages

import (
	"context"
	"slices"

	"minsep/internal/manifest"
)

// Stage is a stage of a training run, as plans, run directories, inspections and reports know it. A
// file of this package declares it, with its parameters, its estimate, and the comparison of its
// result with a plan. Packages inspect and pipelines and the command each have a file for it too,
// which registers its part by the stage's name. A test of each package names a stage without one.
type Stage struct {
	Name  string // in run.json, and of its command
	Group string // of the plan's fields that it takes, by which its faults are told

	Results []string // names in a run directory, of which it leaves one: of folders with an index, or of files where Formats is nil
	Formats []string // that the index may have
	Work    string   // another folder that it writes in; "" for none
	From    []string // the stages with the results that it is made from, whose files run.json names too
	Input   string   // the input of the plan that it reads, by its name in run.json; "" for none

	Secret bool // only the user may read the result, and know how large it is
	OneRun bool // the result serves one run of a plan: the next run makes its own
	Drawn  bool // the result has random numbers of the root key, and serves one training
	Sized  bool // the estimate has the size of the result

	in       func(p Plan) bool  // whether a plan has the stage; nil: each has it
	faults   func(p Plan) error // of its parameters in a plan
	estimate func(p Plan) PlanEstimate
	expect   func(ctx context.Context, d *Directory) (expected, error) // the index that the plan calls for

	// Of a stage that can go on where it was stopped: see [Result.Unfinished].
	unfinished func(ctx context.Context, d *Directory) (there bool, differs []string, err error)

	// Of a result that is no folder with an index; nil for such a folder.

	compare func(ctx context.Context, d *Directory) (there bool, differs []string, err error) // in place of expect
	vouches func(d *Directory) string                                                         // the one of Results that is there, or that the plan leaves
	files   func(ctx context.Context, d *Directory) []string                                  // in the run directory, that vouch for the result besides
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

// vouch returns the file of a run directory that vouches for the result.
func (s *Stage) vouch(d *Directory) string {
	if s.vouches != nil {
		return s.vouches(d)
	}
	return s.ResultName() + "/" + manifest.IndexName
}

// has reports whether a plan has the stage.
func (s *Stage) has(p Plan) bool { return s.in == nil || s.in(p) }

// Faults returns the faults of the parameters that a plan gives the stage. The plan must have the
// stage.
func (s *Stage) Faults(p Plan) error { return s.faults(p) }
