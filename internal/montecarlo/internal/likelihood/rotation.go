package likelihood

import "math"

// Periods is the participation process of rotation (F3.12): once in each period, at a uniform
// place, independently of the other periods. A place at or beyond Steps is no participation.
type Periods struct{ Steps, Period int }

// Count is how many periods begin.
func (p Periods) Count() int { return (p.Steps + p.Period - 1) / p.Period }

// Places is how many places of a period are before the run's end.
func (p Periods) Places(period int) int { return min(p.Period, p.Steps-period*p.Period) }

// LogAbsent is the log probability of a place beyond the run's end.
func (p Periods) LogAbsent(period int) float64 {
	return math.Log(float64(p.Period-p.Places(period)) / float64(p.Period))
}

// Crossing holds the inner products of the columns of one period with the columns of the next,
// over σ².
type Crossing struct {
	// Rows[k-1], for each k ≥ 1 below the number of bands, is the row of the column k steps before
	// the next period: its entry v is the product with the column at place v of that period. Columns
	// that do not overlap have no entry.
	Rows [][]float64

	// Lags, unless nil, are the inner products by the distance of two steps: entry v of the row of
	// k is Lags[k+v].
	Lags []float64
}

// Crossings returns the crossing after each period except the last, for at most Period bands;
// factor is 1/σ².
func (p Periods) Crossings(c *Columns, factor float64) []Crossing {
	all := make([]Crossing, max(0, p.Count()-1))
	for e := range all {
		first := (e + 1) * p.Period
		switch {
		case c.First() == nil || first+2*c.Bands > c.Steps: // not of whole columns of one shape
			all[e].Rows = crossingRows(c, first, p.Places(e+1), factor)
		case e > 0:
			all[e] = all[0]
		default:
			lags := make([]float64, c.Bands)
			for d := range lags {
				lags[d] = factor * c.Inner(first, first+d)
			}
			all[e].Lags = lags
			for k := 1; k < c.Bands; k++ {
				all[e].Rows = append(all[e].Rows, lags[k:])
			}
		}
	}
	return all
}

func crossingRows(c *Columns, first, places int, factor float64) (rows [][]float64) {
	for k := 1; k < c.Bands; k++ {
		row := make([]float64, min(c.Bands-k, places))
		for v := range row {
			row[v] = factor * c.Inner(first-k, first+v)
		}
		rows = append(rows, row)
	}
	return rows
}

// Rotation is the likelihood ratio of rotation (F3.12) for Bands of at most a period, exact. With
// Λ_i = L_i/T and g(i,t) = e^-⟨c_i,c_t⟩/σ²,
//
//	U_i = Σ Λ_t R_t over t ≥ i in the period of i, and the share of its places beyond the run,
//	R_i = U at i+w, or at the next period's first step, + Σ Λ_t g(i,t) R_t over t < i+w in the next period,
//
// R = 1 in the last one, and P/Q = U_0. All terms are positive.
type Rotation struct {
	Periods
	Bands     int
	Join      []float64  // ln Λ without u: -ln T - ‖c_i‖²/2σ²
	Crossings []Crossing // after each period but the last

	sum, ahead  float64   // ln U and ln R of the step that was last
	next, joins []float64 // ln U and ln ΛR at the first places of the next period
	here, took  []float64 // and of the present one
}

// NewRotation takes 1/σ².
func NewRotation(p Periods, c *Columns, factor float64) *Rotation {
	r := &Rotation{Periods: p, Bands: c.Bands, Join: c.SquaredNorms(factor), Crossings: p.Crossings(c, factor)}
	for i, norm := range r.Join {
		r.Join[i] = -math.Log(float64(p.Period)) - norm/2
	}
	return r
}

// Fork shares the tables.
func (r *Rotation) Fork() Ratio {
	fork := *r
	fork.next = nil
	return &fork
}

func (r *Rotation) Reset() {
	if r.next == nil {
		buffer := make([]float64, 4*r.Bands)
		r.next, r.joins = buffer[:r.Bands], buffer[r.Bands:2*r.Bands]
		r.here, r.took = buffer[2*r.Bands:3*r.Bands], buffer[3*r.Bands:]
	}
}

func (r *Rotation) Step(i int, u float64) {
	place, period := i%r.Period, i/r.Period
	if place == r.Places(period)-1 {
		r.next, r.here, r.joins, r.took = r.here, r.next, r.took, r.joins
		r.sum = r.LogAbsent(period)
		for v := place + 1; v < r.Bands; v++ {
			r.here[v] = r.sum
		}
	}
	r.ahead = r.after(i)
	join := r.Join[i] + u + r.ahead
	r.sum = LogSum(r.sum, join)
	if place < r.Bands {
		r.here[place], r.took[place] = r.sum, join
	}
}

// after is ln R_i.
func (r *Rotation) after(i int) float64 {
	period := i / r.Period
	if period == len(r.Crossings) {
		return 0
	}
	k := (period+1)*r.Period - i
	if k >= r.Bands {
		return r.next[0]
	}
	return LogSum(r.next[r.Bands-k], logSumLess(r.joins, r.Crossings[period].Rows[k-1]))
}

func (r *Rotation) LogRatio() float64 { return r.sum }

// logSumLess is ln Σ e^{a-b}, over the entries of b.
func logSumLess(a, b []float64) float64 {
	top := math.Inf(-1)
	for v, x := range b {
		top = max(top, a[v]-x)
	}
	if math.IsInf(top, -1) {
		return top
	}
	sum := 0.0
	for v, x := range b {
		if d := a[v] - x - top; d > -60 { // fewer than 2^22 others together are below 1e-19 of the sum
			sum += math.Exp(d)
		}
	}
	return top + math.Log(sum)
}

// RotationPosterior is the posterior of rotation (F5.8).
type RotationPosterior struct {
	ratio *Rotation
	after []float64 // ln R_i
	reach []float64 // ln of the weight of all paths that end in a participation at a step, without the weight of later ones
	until []float64 // ln Σ of reach from its period's first step to a step
	near  []float64
}

// NewRotationPosterior takes 1/σ².
func NewRotationPosterior(p Periods, c *Columns, factor float64) *RotationPosterior {
	return (&RotationPosterior{ratio: NewRotation(p, c, factor)}).Fork().(*RotationPosterior)
}

// Fork has buffers of its own.
func (p *RotationPosterior) Fork() Posterior {
	n := p.ratio.Steps
	return &RotationPosterior{p.ratio.Fork().(*Rotation), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, p.ratio.Bands)}
}

// Never is the logarithm of the probability that an owner takes part at no step, rounded downward:
// only a run that is shorter than a period may leave one out.
func (p *RotationPosterior) Never() float64 {
	if p.ratio.Period <= p.ratio.Steps {
		return math.Inf(-1)
	}
	return p.ratio.LogAbsent(0) - 1e-12
}

func (p *RotationPosterior) Given(u, participates []float64) float64 {
	r := p.ratio
	r.Reset()
	for i := r.Steps - 1; i >= 0; i-- {
		r.Step(i, u[i])
		p.after[i] = r.ahead
	}
	for i := range p.reach {
		p.reach[i] = p.before(i) + r.Join[i] + u[i]
		p.until[i] = p.reach[i]
		if i%r.Period > 0 {
			p.until[i] = LogSum(p.until[i-1], p.reach[i])
		}
		participates[i] = math.Exp(p.reach[i] + p.after[i] - r.sum)
	}
	return r.sum
}

// before is ln of the weight of all paths that can come before a participation at a step.
// Participations of the period before with columns that overlap its own have less weight.
func (p *RotationPosterior) before(i int) float64 {
	r := p.ratio
	place, period := i%r.Period, i/r.Period
	if period == 0 {
		return 0
	}
	far := min(i-place-1, i-r.Bands)
	near := p.near[:0]
	for k := 1; k < r.Bands-place; k++ {
		near = append(near, p.reach[i-place-k]-r.Crossings[period-1].Rows[k-1][place])
	}
	return LogSum(p.until[far], logSum(near))
}
