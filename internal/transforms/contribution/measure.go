package contribution

import (
	"fmt"

	"minsep/internal/transforms/progress"
)

// The amounts that the stage moved, for readers who plan larger ones: bytes given to each
// shuffle.
var (
	edgesPacked       = packedBytes("edges")
	membershipsPacked = packedBytes("memberships")
	examplesPacked    = packedBytes("examples")
	reportsPacked     = packedBytes("reports")
	decisionsPacked   = packedBytes("decisions")
	keptPacked        = packedBytes("kept examples")
	sharesPacked      = packedBytes("shares")
	listsPacked       = packedBytes("lists")
	rowsPacked        = packedBytes("rows")

	// In each round there are as many verdicts as undecided edges.
	verdictsPacked = func() (c [maxRounds + 1]*progress.Counter) {
		for round := range c {
			c[round] = packedBytes(fmt.Sprintf("verdicts after round %d", round))
		}
		return c
	}()
)

func packedBytes(of string) *progress.Counter { return progress.NewDetail("bytes shuffled: " + of) }
