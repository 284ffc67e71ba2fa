package sampling

import (
	"fmt"
	"math"
	"minsep/internal/words"
)

// timesBroken counts the examples of balanced-min-sep that took part more or less often than their
// copies should, once all batches were seen. Truncated batches may lack participations, so with
// them only examples that took part too often count.
func (a *Audit) timesBroken() (broken int64) {
	least, most := a.times()
	seen := int64(0)
	for number, page := range a.examples.count.pages {
		for i, count := range page {
			if count == 0 {
				continue
			}
			seen++
			copies := int64(a.of.copies(number*pageSize + int64(i)))
			if int64(count) > most*copies || int64(count) < least*copies {
				broken++
			}
		}
	}
	if least > 0 {
		broken += a.of.withCopies() - seen
	}
	return broken
}

// times returns the least and the largest number of participations of a copy.
func (a *Audit) times() (least, most int64) {
	k := a.spec.BalancedMinSep.Participations
	if a.spec.Truncation == nil {
		least = int64(math.Floor(k))
	}
	return least, int64(math.Ceil(k))
}

// withCopies returns the number of examples that have a copy.
func (x *Audited) withCopies() (n int64) {
	if x.Copies == nil {
		return x.Examples
	}
	for _, c := range x.Copies {
		if c > 0 {
			n++
		}
	}
	return n
}

func (a *Audit) timesRule() string {
	switch least, most := a.times(); {
	case a.spec.Truncation != nil:
		return fmt.Sprintf("no %s takes part more than %s", a.participant(), words.Count(most, "time"))
	case least == most:
		return fmt.Sprintf("every %s takes part exactly %s", a.participant(), words.Count(most, "time"))
	default:
		return fmt.Sprintf("every %s takes part %d or %d times", a.participant(), least, most)
	}
}
