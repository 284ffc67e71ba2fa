// Package adopt lets package pipelines use the transforms for a run directory that it has opened and
// locked itself. Users make trainings with transforms.NewTraining only.
package adopt

import (
	"minsep/internal/graphio"
	"minsep/internal/stream"
)

// Training returns a *transforms.Training of a run that exists. Package transforms sets it.
var Training func(dir, keyFile string, id stream.RunID) any

// Graph returns a transforms.Graph of files that are open. Package transforms sets it.
var Graph func(source *graphio.Source) any
