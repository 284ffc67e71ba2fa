package stages

import (
	"fmt"

	"minsep/internal/ownergraph"
	"minsep/internal/words"
)

// fewKept is the share of the examples below which KeptText says how to keep more.
const fewKept = 0.5

// KeptText says in a sentence how much of the data a bounded table keeps and, if that is less than
// half, how to keep more. It returns "" if the table keeps all.
func KeptText(s ownergraph.Summary, of ownergraph.Bound) string {
	if s.Kept >= s.Examples {
		return ""
	}
	share := float64(s.Kept) / float64(s.Examples)
	text := fmt.Sprintf(
		"kept %s of %s examples (%s)",
		words.Grouped(s.Kept),
		words.Grouped(s.Examples),
		percent(share),
	)
	switch {
	case share >= fewKept:
		return text
	case of.Pools > 0:
		return text + ": more pools keep more, if the training has a period for each (--pools; in a plan: bound.pools)"
	case s.Edges == s.Examples:
		return text + ": a larger --max-per-owner keeps more, with --sample owners at no more noise"
	case of.Order == ownergraph.Random:
		return text + ": --order fewest-owners keeps more; so does a larger --max-per-owner, or the scheme rotation (bound --pools)"
	}
	return text + ": a larger --max-per-owner keeps more, or the scheme rotation (bound --pools), by which other examples take part in each period"
}

// percent writes a share below 1 in percent with three digits, as minsep plan does.
func percent(share float64) string { return fmt.Sprintf("%.3g %%", min(100*share, 99.9)) }
