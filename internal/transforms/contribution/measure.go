package contribution

import "minsep/internal/transforms/progress"

var (
	edgesRead       = progress.New("edges sorted")
	examplesDecided = progress.New("examples decided")
)
