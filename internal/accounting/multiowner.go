package accounting

import (
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.MultiOwner) analysis { return multiOwner{r, s} })
}

// multiOwner is Algorithm 3 of arXiv 2602.09338. Its accounting (F4.1, F4.4) is computed for
// comparison, and is not proven.
type multiOwner struct {
	run    Run
	scheme sampling.MultiOwner
}

func (a multiOwner) method() (Method, error) {
	switch {
	case a.run.Sampler.Truncation != nil:
		return a.run.refuseBy(noTruncation)
	case a.run.Strategy.Bands() > a.scheme.MinSep:
		return a.run.refuseBands("", overlap)
	case !a.run.Strategy.NonNegative():
		return a.run.refuseBy(negativeEntry)
	}
	return Unproven, nil
}
