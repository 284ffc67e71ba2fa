package sampling

import "fmt"

// epochCount counts how often the copies of each example take part in an epoch, or in a period.
type epochCount struct {
	steps  int           // of an epoch
	copies int64         // of all examples
	cut    bool          // batches are truncated, so that participations may be missing
	full   int           // number of full epochs in the training
	seen   paged[uint32] // by row: participations in this epoch
	inside int64         // participations in this epoch, at most one for each copy
	// broken counts participations that are too many or missing.
	broken int64
}

func newEpochCount(steps, epoch int, copies int64, cut bool) *epochCount {
	return &epochCount{
		steps:  epoch,
		copies: copies,
		cut:    cut,
		full:   steps / epoch,
		seen:   newPaged[uint32](),
	}
}

// visit records a participation of one of the copies of an example.
func (e *epochCount) visit(row int64, copies uint32) {
	if count := e.seen.at(row); *count < copies {
		*count++
		e.inside++
	} else {
		e.broken++
	}
}

// passed is called after each step, with the number of steps so far. It checks and resets the
// counts at the end of an epoch.
func (e *epochCount) passed(steps int) {
	if steps%e.steps != 0 {
		return
	}
	if !e.cut {
		e.broken += max(0, e.copies-e.inside)
	}
	e.inside = 0
	for _, page := range e.seen.pages {
		clear(page[:])
	}
}

// rule is the rule that is checked, with the names of a participant and of an epoch.
func (e *epochCount) rule(one, epoch string) string {
	if e.cut {
		return fmt.Sprintf("every %s takes part at most once in each %s of %d steps", one, epoch, e.steps)
	}
	return fmt.Sprintf(
		"every %s takes part exactly once in each of %d full %ss of %d steps, and at most once in one that is cut",
		one,
		e.full,
		epoch,
		e.steps,
	)
}
