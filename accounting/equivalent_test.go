package accounting

import (
	"testing"

	"minsep/mechanism"
	"minsep/sampling"
)

func TestEquivalent(t *testing.T) {
	bMinSep := func(p float64, steps, minSep int, warm bool) sampling.Spec {
		return sampling.Spec{BMinSep: &sampling.BMinSep{Prob: p, Steps: steps, MinSep: minSep, WarmStart: warm}}
	}
	run := func(s sampling.Spec) Run { return Run{Sampler: s, Strategy: banded(8, 2), MaxExamplesPerOwner: 1} }
	cut := func(r Run, most int, examples int64) Run {
		r.Sampler.Truncation, r.Examples = &sampling.Truncation{MaxBatchSize: most}, examples
		return r
	}
	with := func(r Run, s *mechanism.Strategy) Run { r.Strategy = s; return r }
	owners := func(r Run, k int, examples int64) Run { r.MaxExamplesPerOwner, r.Examples = k, examples; return r }
	base := run(bMinSep(0.1, 8, 2, false))
	var byColumns [][]float64
	for i := range 8 {
		byColumns = append(byColumns, base.Strategy.Column(nil, i))
	}
	poisson := sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 8}}
	cyclic := func(minSep int, secret bool) sampling.Spec {
		return sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 8, MinSep: minSep, SecretPartition: secret}}
	}
	secret := func(minSep int, p float64) sampling.Spec {
		return sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: p, Steps: 8, MinSep: minSep, SecretPartition: true}}
	}
	epoch := func(minSep, length int) sampling.Spec {
		return sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 8, MinSep: minSep, EpochSteps: length}}
	}
	balanced := func(minSep int, k float64) sampling.Spec {
		s, err := sampling.NewBalancedMinSep(8, minSep, k)
		if err != nil {
			t.Fatal(err)
		}
		return sampling.Spec{BalancedMinSep: &s}
	}
	toeplitz := func(c ...float64) *mechanism.Strategy {
		return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: c}
	}
	for name, c := range map[string]struct {
		a, b Run
		want bool
	}{
		"itself":                         {base, base, true},
		"irrelevant examples":            {base, owners(base, 1, 1000), true},
		"examples of an owner":           {base, owners(base, 3, 0), true},
		"a limit that cuts nothing":      {base, cut(base, 50, 50), true},
		"another limit":                  {cut(base, 20, 50), cut(base, 21, 50), false},
		"examples beside a limit":        {cut(base, 20, 50), cut(base, 20, 51), false},
		"truncation":                     {base, cut(base, 20, 50), false},
		"another kind":                   {base, with(base, &mechanism.Strategy{Kind: mechanism.KindBSR, Steps: 8, Toeplitz: base.Strategy.Toeplitz}), true},
		"by columns":                     {base, with(base, &mechanism.Strategy{Kind: mechanism.KindDense, Steps: 8, Columns: byColumns}), true},
		"a multiple":                     {base, with(base, toeplitz(2, 1)), true},
		"zeros beyond the bands":         {base, with(base, toeplitz(1, 0.5, 0)), true},
		"an inverse":                     {with(base, toeplitz(1, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125)), with(base, &mechanism.Strategy{Kind: mechanism.KindBISR, Steps: 8, InverseToeplitz: []float64{1, -0.5}}), true},
		"another entry":                  {base, with(base, toeplitz(1, 0.5001)), false},
		"normalised columns":             {base, with(base, &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, 0.5}, Normalized: true}), false},
		"a normalised identity":          {with(base, mechanism.Identity(8)), with(base, &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{3}, Normalized: true}), true},
		"another p":                      {base, run(bMinSep(0.1001, 8, 2, false)), false},
		"another min-sep":                {base, run(bMinSep(0.1, 8, 3, false)), false},
		"a warm start":                   {base, run(bMinSep(0.1, 8, 2, true)), false},
		"min-sep beyond the steps":       {run(bMinSep(0.1, 8, 9, false)), run(bMinSep(0.1, 8, 12, false)), true},
		"min-sep beyond the steps, warm": {run(bMinSep(0.1, 8, 9, true)), run(bMinSep(0.1, 8, 12, true)), false},
		"poisson":                        {run(poisson), run(bMinSep(0.1, 8, 1, true)), true},
		"cyclic with one part":           {run(poisson), run(cyclic(1, true)), true},
		"cyclic":                         {run(poisson), run(cyclic(2, false)), false},
		"secret parts, certain":          {run(secret(4, 1)), run(bMinSep(1, 8, 4, true)), true},
		"public parts, certain":          {run(sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 1, Steps: 8, MinSep: 4}}), run(bMinSep(1, 8, 4, true)), false},
		"secret parts of one step":       {run(secret(8, 0.8)), run(secret(10, 1)), true},
		"secret parts, at most once":     {run(secret(9, 0.9)), run(epoch(2, 10)), true},
		"secret parts, at another rate":  {run(secret(8, 0.8)), run(epoch(2, 11)), false},
		"p up to rounding":               {run(bMinSep(0.3, 8, 2, true)), run(bMinSep(0.30000000000000004, 8, 2, true)), true},
		"a secret partition":             {run(cyclic(2, true)), run(cyclic(2, false)), false},
		"balls-in-bins":                  {run(sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 8, Period: 3}}), run(bMinSep(1, 8, 3, true)), true},
		"epochs of min-sep":              {run(epoch(3, 3)), run(sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 8, Period: 3}}), true},
		"epochs":                         {run(epoch(2, 3)), run(epoch(2, 4)), false},
		"epochs of another min-sep":      {run(epoch(2, 4)), run(epoch(3, 4)), false},
		"epochs beyond the steps":        {run(epoch(2, 10)), run(epoch(7, 10)), true},
		"an epoch of all steps":          {run(epoch(2, 8)), run(sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 8, Period: 8}}), true},
		"at most once":                   {run(epoch(2, 10)), run(bMinSep(1.0/3, 8, 8, true)), true}, // p/(1+7p) = 1/10
		"at most once, another rate":     {run(epoch(2, 11)), run(bMinSep(1.0/3, 8, 8, true)), false},
		"balanced":                       {run(balanced(2, 2)), run(balanced(2, 2)), true},
		"balanced, another min-sep":      {run(balanced(2, 2)), run(balanced(3, 2)), false},
		"balanced, another number":       {run(balanced(2, 2)), run(balanced(2, 2.5)), false},
		"balanced, once":                 {run(balanced(2, 1)), run(epoch(3, 8)), true},
		"balanced, at most once":         {run(balanced(2, 0.8)), run(epoch(3, 10)), true},
		"balanced, twice, and epochs":    {run(balanced(2, 2)), run(epoch(2, 4)), false},
		"multi-owner":                    {run(sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.1, Steps: 8, MinSep: 2}}), base, false},
	} {
		if a, b := c.a.Equivalent(c.b), c.b.Equivalent(c.a); a != c.want || b != c.want {
			t.Errorf("%s: %v and %v, want %v", name, a, b, c.want)
		}
	}
}
