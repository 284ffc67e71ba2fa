package accounting

import "minsep/sampling"

func init() {
	register(func(r Run, s sampling.Rotation) analysis { return rotation{r, s} })
}

// rotation is participation of an owner once in each period, through any of its examples (F3.12).
type rotation struct {
	run    Run
	scheme sampling.Rotation
}

func (a rotation) method() (Method, error) {
	return a.run.refuse("its likelihoods are not in this version; epoch-min-sep with --max-per-owner is accounted for")
}
