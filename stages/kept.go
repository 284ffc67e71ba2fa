package stages

import (
	"fmt"

	"minsep/internal/words"
	"minsep/sampling/ownergraph"
)

// fewKept is the part of the examples below which it is said how more of them would be kept.
const fewKept = 0.5

// KeptText says in a sentence how much of the data a bounded table keeps and, where that is
// less than half, how to keep more; "" where it keeps all.
func KeptText(s ownergraph.Summary, of ownergraph.Bound) string {
	if s.Kept >= s.Examples {
		return ""
	}
	share := float64(s.Kept) / float64(s.Examples)
	text := fmt.Sprintf("kept %s of %s examples (%s)", words.Grouped(s.Kept), words.Grouped(s.Examples), percent(share))
	switch {
	case share >= fewKept:
		return text
	case of.Pools > 0:
		return text + ": more pools (--pools), up to one for each period, keep more"
	case s.Edges == s.Examples:
		return text + ": a larger --max-per-owner keeps more, with --sample owners at no more noise"
	case of.Order == ownergraph.Random:
		return text + ": --order fewest-owners keeps more; so does a larger --max-per-owner, or the scheme rotation (bound --pools)"
	}
	return text + ": a larger --max-per-owner keeps more, or the scheme rotation (bound --pools), by which other examples take part in each period"
}

// percent is a part that is not the whole, in percent to three digits, as plan has it.
func percent(share float64) string { return fmt.Sprintf("%.3g %%", min(100*share, 99.9)) }
