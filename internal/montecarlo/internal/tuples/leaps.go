package tuples

// leap is how one copy passes some steps without taking part: from label y with probability
// quiet[y], to label out[y].
type leap struct {
	quiet []float64
	out   []int32
}

// leaps has leaps over 1, 2, 4, … steps: of[l][k] is over the steps from k·2^l on. Equal ones are
// one.
type leaps struct {
	of [][]*leap
}

func newLeaps(u *unrolled) *leaps {
	type single struct {
		x *pattern
		p *float64
	}
	known := map[single]*leap{}
	var last []*leap
	for i, x := range u.steps {
		key := single{x: x.pattern}
		if len(u.prob[i]) > 0 {
			key.p = &u.prob[i][0]
		}
		if known[key] == nil {
			one := &leap{make([]float64, len(x.out)), x.out}
			for y := range one.quiet {
				one.quiet[y] = 1
				if y < x.free {
					one.quiet[y] -= u.prob[i][y]
				}
			}
			known[key] = one
		}
		last = append(last, known[key])
	}
	all := &leaps{of: [][]*leap{last}}
	for len(last) >= 2 {
		joined := map[[2]*leap]*leap{}
		var next []*leap
		for k := 0; k+1 < len(last); k += 2 {
			key := [2]*leap{last[k], last[k+1]}
			if joined[key] == nil {
				joined[key] = last[k].then(last[k+1])
			}
			next = append(next, joined[key])
		}
		last = next
		all.of = append(all.of, last)
	}
	return all
}

func (a *leap) then(b *leap) *leap {
	c := &leap{make([]float64, len(a.out)), make([]int32, len(a.out))}
	for y, z := range a.out {
		c.quiet[y], c.out[y] = a.quiet[y]*b.quiet[z], b.out[z]
	}
	return c
}

// level is the largest l ≤ most of a leap from step i to at most step end.
func (a *leaps) level(i, end, most int) int {
	l := 0
	for l < most && i>>l&1 == 0 && i+2<<l <= end {
		l++
	}
	return l
}

// pass is where a label leads from a step to a later one, if the copy takes part at none between.
func (a *leaps) pass(label int32, i, end int) int32 {
	for i < end {
		l := a.level(i, end, len(a.of)-1)
		label = a.of[l][i>>l].out[label]
		i += 1 << l
	}
	return label
}
