package contribution

import "minsep/internal/transforms/progress"

// The amounts that the stage moved, for readers who plan larger ones: bytes given to each
// shuffle.
var (
	edgesPacked       = packedBytes("edges")
	membershipsPacked = packedBytes("memberships")
	examplesPacked    = packedBytes("examples")
	ownershipsPacked  = packedBytes("ownerships")
	decisionsPacked   = packedBytes("decisions")
	rowsPacked        = packedBytes("rows")
)

var (
	edgesRead       = progress.New("edges sorted")
	examplesDecided = progress.New("examples decided")
)

func packedBytes(of string) *progress.Counter { return progress.NewDetail("bytes shuffled: " + of) }
