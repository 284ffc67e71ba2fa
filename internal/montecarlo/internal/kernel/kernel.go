package kernel

import (
	"crypto/sha256"
	"fmt"
	"math"
	"sync"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/stream"
	"minsep/sampling"
)

// Hit is how often columns of C are added to the mean of a sample: Times·c_Step.
type Hit struct{ Step, Times int }

// Input is the input of a batch: sample l has the output y = Σ Times·c_Step + σz, z
// standard normal.
type Input struct {
	Hits *[Lanes][]Hit // sorted by step; nil: none

	// Projection, unless nil, is ⟨v, y⟩ of every sample for the kernel's Project, a unit vector. A
	// multiple of v is added to y to reach this value.
	Projection *Row

	Bulk   *stream.Bulk
	Number uint64 // of the batch: its z are words 0 … Lanes·Steps-1 of this number
}

// FirstFreeBlock is the first block of words of a number that normals never use.
const FirstFreeBlock = 1 << 40

// Output is the result of a batch.
type Output struct {
	LogRatio   []Row // of every recursion
	Projection Row   // ⟨v, y⟩, when the kernel has a Project
}

// Kernel computes batches. It is not safe for concurrent use; Fork it.
type Kernel struct {
	// Project, unless nil, is a vector v of Steps entries to take ⟨v, y⟩ with.
	Project []float64

	// Record, unless nil, has Steps rows, which a batch sets to t_i = log2(e)·⟨c_i, y⟩/σ².
	Record []Row

	columns    *likelihood.Columns
	sigma      float64
	correlator *correlator
	recursions []recursion
	carry      []Row     // rows of z that the next block overlaps
	words      []uint64  // of a few rows
	held       []Row     // t of all steps, until the projection of their noise is known
	along      []float64 // log2(e)·⟨c_i, v⟩/σ² for v = Project, where held is needed
	norms      []float64 // ‖c_i‖²/σ²
	reachNoise float64   // |t| that noise alone cannot exceed
	reachHit   float64   // |t| one hit cannot exceed
}

// recursion is one likelihood ratio of the eight samples: in linear scale if the range allows it, and
// in log domain.
type recursion struct {
	fast *points // nil for none
	slow [Lanes]likelihood.Ratio
}

const maxNormal = 8.5 // normals do not exceed it: see the package comment

// New returns a kernel for some likelihood ratios of one strategy and noise multiplier.
func New(c *likelihood.Columns, noiseMultiplier float64, ratios ...likelihood.Ratio) *Kernel {
	k := &Kernel{
		columns: c,
		sigma:   noiseMultiplier,
		norms:   c.SquaredNorms(1 / (noiseMultiplier * noiseMultiplier)),
	}
	k.correlator = newCorrelator(c, math.Log2E/noiseMultiplier)
	for _, l := range ratios {
		r := recursion{}
		if p, ok := l.(*likelihood.Points); ok {
			r.fast = newPoints(p)
		}
		for i := range r.slow {
			r.slow[i] = l.Fork()
		}
		k.recursions = append(k.recursions, r)
	}
	for i := range c.Steps {
		column, scale := c.Column(i)
		sum := 0.0
		for _, v := range column {
			sum += math.Abs(v)
		}
		k.reachNoise = max(k.reachNoise, maxNormal*math.Log2E*scale*sum/noiseMultiplier)
		k.reachHit = max(k.reachHit, math.Log2E*k.norms[i])
	}
	k.makeBuffers()
	return k
}

func (k *Kernel) makeBuffers() {
	k.carry = make([]Row, k.columns.Bands-1)
	k.words = make([]uint64, Lanes*min(256, k.columns.Steps))
	k.held = nil
}

// Fork returns an equal kernel with buffers of its own.
func (k *Kernel) Fork() *Kernel {
	fork := *k
	fork.makeBuffers()
	if k.Record != nil {
		fork.Record = make([]Row, len(k.Record))
	}
	correlator := *k.correlator
	correlator.work = make([]Row, len(k.correlator.work))
	if k.correlator.fft == nil {
		correlator.out = make([]Row, len(k.correlator.out))
	}
	fork.correlator = &correlator
	fork.recursions = make([]recursion, len(k.recursions))
	for i, r := range k.recursions {
		if r.fast != nil {
			fork.recursions[i].fast = r.fast.fork()
		}
		for l, slow := range r.slow {
			fork.recursions[i].slow[l] = slow.Fork()
		}
	}
	return &fork
}

// Batch computes eight samples.
func (k *Kernel) Batch(in *Input, out *Output) {
	reach := k.reach(in)
	var fast, slow []int
	var check bool
	for i, r := range k.recursions {
		if r.fast == nil {
			slow = append(slow, i)
			continue
		}
		fast = append(fast, i)
		check = check || reach > r.fast.limit
	}
	out.LogRatio = append(out.LogRatio[:0], make([]Row, len(k.recursions))...)
	out.Projection = Row{}
	if fast != nil {
		slow = append(slow, k.walkFast(in, out, fast, check)...)
	}
	if slow != nil {
		k.walkSlow(in, out, slow)
	}
}

// walkFast runs recursions in linear scale and returns those that refused.
func (k *Kernel) walkFast(in *Input, out *Output, fast []int, check bool) (refused []int) {
	ok := make([]bool, len(k.recursions))
	for _, i := range fast {
		k.recursions[i].fast.reset()
		ok[i] = true
	}
	k.walk(in, out, func(first int, t []Row) {
		for _, i := range fast {
			ok[i] = ok[i] && k.recursions[i].fast.rows(first, t, check)
		}
	})
	for _, i := range fast {
		if !ok[i] {
			refused = append(refused, i)
			continue
		}
		k.recursions[i].fast.logRatio(&out.LogRatio[i])
	}
	return refused
}

// walkSlow runs recursions in log domain.
func (k *Kernel) walkSlow(in *Input, out *Output, slow []int) {
	for _, i := range slow {
		for _, l := range k.recursions[i].slow {
			l.Reset()
		}
	}
	k.walk(in, out, func(first int, t []Row) {
		for _, r := range slow {
			for l, ratio := range k.recursions[r].slow {
				for i := len(t) - 1; i >= 0; i-- {
					ratio.Step(first+i, t[i][l]*math.Ln2)
				}
			}
		}
	})
	for _, i := range slow {
		for l, ratio := range k.recursions[i].slow {
			out.LogRatio[i][l] = ratio.LogRatio()
		}
	}
}

// reach returns a bound on |t| of the batch.
func (k *Kernel) reach(in *Input) float64 {
	if in.Projection != nil {
		return math.Inf(1) // not known before the noise is
	}
	reach := k.reachNoise
	if in.Hits == nil {
		return reach
	}
	overlap := 0 // hits that one column meets, at most
	for _, hits := range in.Hits {
		total, last := 0, 0
		for i, hit := range hits {
			total += abs(hit.Times)
			for ; last < i && hits[last].Step < hit.Step-2*(k.columns.Bands-1); last++ {
				total -= abs(hits[last].Times)
			}
			if i > 0 && hit.Step < hits[i-1].Step {
				panic("kernel: hits are not sorted by step")
			}
			overlap = max(overlap, total)
		}
	}
	return reach + float64(overlap)*k.reachHit
}

func abs(x int) int { return max(x, -x) }

// walk makes the outputs of a batch and calls visit with blocks of t, the last steps first.
func (k *Kernel) walk(in *Input, out *Output, visit func(first int, t []Row)) {
	n, c := k.columns.Steps, k.correlator
	out.Projection = Row{}
	overlap := len(k.carry)
	clear(k.carry)
	for first := (n - 1) / c.block * c.block; first >= 0; first -= c.block {
		count := min(c.block, n-first)
		z := c.work[:count]
		k.fill(z, in, first)
		copy(c.work[count:], k.carry)
		k.addHits(z, in.Hits, first)
		k.project(z, first, &out.Projection)
		copy(k.carry, c.work[:overlap])
		t := c.correlate(first, count)
		if in.Projection != nil {
			copy(k.hold()[first:], t)
			continue
		}
		if k.Record != nil {
			copy(k.Record[first:], t)
		}
		visit(first, t)
	}
	if in.Projection != nil {
		k.visitHeld(in.Projection, out, visit)
	}
}

// hold returns room for t of all steps.
func (k *Kernel) hold() []Row {
	if k.held != nil {
		return k.held
	}
	k.held, k.along = make([]Row, k.columns.Steps), make([]float64, k.columns.Steps)
	for i := range k.along {
		k.along[i] = math.Log2E / (k.sigma * k.sigma) * k.columns.Dot(i, k.Project)
	}
	return k.held
}

// visitHeld moves the held rows along Project, so that each sample gets its given projection. Then
// it calls visit with the rows in blocks, the last steps first.
func (k *Kernel) visitHeld(projection *Row, out *Output, visit func(first int, t []Row)) {
	var missing Row
	for l, p := range projection {
		missing[l] = p - out.Projection[l]
	}
	for i, v := range k.along {
		for l := range k.held[i] {
			k.held[i][l] += float64(v * missing[l])
		}
	}
	out.Projection = *projection
	if k.Record != nil {
		copy(k.Record, k.held)
	}
	block := k.correlator.block
	for first := (len(k.held) - 1) / block * block; first >= 0; first -= block {
		visit(first, k.held[first:min(first+block, len(k.held))])
	}
}

// fill sets rows to standard normals.
func (k *Kernel) fill(z []Row, in *Input, first int) {
	for len(z) > 0 {
		rows := min(len(z), len(k.words)/Lanes)
		words := k.words[:Lanes*rows]
		in.Bulk.Words(words, in.Number, uint64(first)*(Lanes/2))
		normalRows(z[:rows], words)
		z, first = z[rows:], first+rows
	}
}

// addHits adds Times·c_Step/σ to the rows first … first+len(z)-1.
func (k *Kernel) addHits(z []Row, hits *[Lanes][]Hit, first int) {
	if hits == nil {
		return
	}
	for l := range hits {
		for _, hit := range hits[l] {
			from, end := max(hit.Step, first), min(hit.Step+k.columns.Bands, first+len(z))
			if from >= end {
				continue
			}
			column, scale := k.columns.Column(hit.Step)
			factor := float64(hit.Times) * scale / k.sigma
			rows := z[from-first:]
			for j, v := range column[min(len(column), from-hit.Step):min(len(column), end-hit.Step)] {
				rows[j][l] += float64(factor * v)
			}
		}
	}
}

func (k *Kernel) project(z []Row, first int, sum *Row) {
	if k.Project == nil {
		return
	}
	for i, v := range k.Project[first : first+len(z)] {
		v *= k.sigma
		for l := range sum {
			sum[l] += float64(v * z[i][l])
		}
	}
}

// Outputs returns y of one lane of a batch, computed apart from the walk: for tests and for other
// evaluators.
func (k *Kernel) Outputs(in *Input, lane int) []float64 {
	n := k.columns.Steps
	z := make([]Row, n)
	k.fill(z, in, 0)
	y := make([]float64, n)
	for i := range y {
		y[i] = k.sigma * z[i][lane]
	}
	if in.Hits != nil {
		for _, hit := range in.Hits[lane] {
			column, scale := k.columns.Column(hit.Step)
			for j, v := range column {
				y[hit.Step+j] += float64(hit.Times) * scale * v
			}
		}
	}
	if in.Projection != nil {
		missing := in.Projection[lane]
		for i, v := range k.Project {
			missing -= v * y[i]
		}
		for i, v := range k.Project {
			y[i] += missing * v
		}
	}
	return y
}

// ID names the arithmetic of this build on this processor: results of one ID are equal bit for bit.
// It is the name of the arithmetic and a hash of results of fixed problems and of the mathematical
// functions in use, which differ in the last bit between processors and compilers.
var ID = sync.OnceValue(newID)

func newID() string {
	hash := sha256.New()
	for i := 1; i < 4000; i++ {
		x := float64(i) / 131
		for _, v := range []float64{math.Log(x), math.Exp(-x), math.Log1p(x / 31), math.Expm1(-x), exp2(-x)} {
			fmt.Fprintf(hash, "%x ", math.Float64bits(v))
		}
	}
	bulk := stream.NewBulk(stream.PublicKey("kernel id", nil))
	for _, bands := range []int{5, directBands + 8} {
		column := make([]float64, bands)
		for j := range column {
			column[j] = 1 / float64(j+1)
		}
		c := likelihood.Toeplitz(300, column)
		var ratios []likelihood.Ratio
		steady := sampling.BMinSep{Prob: 0.01, Steps: 300, MinSep: bands, WarmStart: true}.Law()
		for _, of := range []struct {
			law      sampling.Law
			examples int
		}{
			{steady, 1}, {steady, min(2, 1+directBands/bands)}, // pairs of many bands take long
			{sampling.EpochMinSep{Steps: 300, MinSep: bands, EpochSteps: 100}.Law(), 1},
			{sampling.Rotation{Steps: 300, EpochSteps: 100}.Law(), 1},
		} {
			table, err := of.law.Tabulate(300)
			if err != nil {
				panic(err)
			}
			points, err := likelihood.NewExamples(table, c, 1/2.25, of.examples)
			if err != nil {
				panic(err)
			}
			ratios = append(ratios, points)
		}
		var out Output
		New(c, 1.5, ratios...).Batch(&Input{Bulk: bulk}, &out)
		for _, row := range out.LogRatio {
			for _, v := range row {
				fmt.Fprintf(hash, "%x ", math.Float64bits(v))
			}
		}
	}
	return fmt.Sprintf("fma/2-%x", hash.Sum(nil)[:4])
}
