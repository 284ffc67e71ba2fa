package accounting

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// samplerCase is a scheme with its options, as batches are formed by it and as it is accounted for.
type samplerCase struct {
	name string
	run  Run
	rows []int64 // the examples of the owner, or of owners in turn; nil: 0, 1, … one a draw
	// twin is another run, whose distribution must be rejected.
	twin Run
}

const samplerSteps = 5

func samplerCases() []samplerCase {
	run := func(s sampling.Spec, k int) Run {
		return Run{Sampler: s, Strategy: mechanism.Identity(samplerSteps), MaxExamplesPerOwner: k}
	}
	bMinSep := func(p float64, b int, warm bool, k int) Run {
		return run(sampling.Spec{BMinSep: &sampling.BMinSep{Prob: p, Steps: samplerSteps, MinSep: b, WarmStart: warm}}, k)
	}
	poisson := func(p float64, k int) Run {
		return run(sampling.Spec{Poisson: &sampling.Poisson{Prob: p, Steps: samplerSteps}}, k)
	}
	bins := func(period int) Run {
		return run(sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: samplerSteps, Period: period}}, 1)
	}
	cyclic := func(p float64, b int, secret bool) Run {
		return run(sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: p, Steps: samplerSteps, MinSep: b, SecretPartition: secret}}, 1)
	}
	multi := func(p float64, b, k int) Run {
		return run(sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: p, Steps: samplerSteps, MinSep: b}}, k)
	}
	epoch := func(b, length int) Run {
		return run(sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: samplerSteps, MinSep: b, EpochSteps: length}}, 1)
	}
	rotation := func(period int) Run {
		return run(sampling.Spec{Rotation: &sampling.Rotation{Steps: samplerSteps, EpochSteps: period}}, 1)
	}
	owners := func(r Run, k int) Run { r.MaxExamplesPerOwner = k; return r }
	law := func(p float64) Run {
		table, err := twice(p).Tabulate(samplerSteps)
		if err != nil {
			panic(err)
		}
		return run(sampling.Spec{Law: table}, 1)
	}
	return []samplerCase{
		{"b-min-sep cold", bMinSep(0.3, 2, false, 1), nil, bMinSep(0.3, 2, true, 1)},
		{"a law", law(0.4), nil, law(0.5)},
		{"b-min-sep warm", bMinSep(0.3, 3, true, 1), nil, bMinSep(0.3, 3, false, 1)},
		{"b-min-sep, min-sep 1", bMinSep(0.3, 1, true, 1), nil, bMinSep(0.3, 2, true, 1)},
		{"b-min-sep, min-sep of all steps", bMinSep(0.3, samplerSteps, true, 1), nil, bMinSep(0.3, samplerSteps+1, true, 1)},
		{"b-min-sep, min-sep beyond the steps", bMinSep(0.6, 2*samplerSteps, true, 1), nil, bMinSep(0.9, 2*samplerSteps, true, 1)},
		{"b-min-sep, certain", bMinSep(1, 3, true, 1), nil, bMinSep(1, 3, false, 1)},
		{"b-min-sep cold, two examples", bMinSep(0.2, 2, false, 2), nil, bMinSep(0.2, 2, false, 1)},
		{"b-min-sep warm, three examples", bMinSep(0.2, 3, true, 3), nil, bMinSep(0.21, 3, true, 3)},
		{"poisson", poisson(0.3, 1), nil, poisson(0.31, 1)},
		{"poisson, three examples", poisson(0.1, 3), nil, poisson(0.1, 1)},
		{"balls-in-bins", bins(2), nil, bins(3)},
		{"balls-in-bins, period beyond the steps", bins(samplerSteps + 2), nil, bins(samplerSteps + 1)},
		{"epoch-min-sep", epoch(2, 3), nil, epoch(1, 3)},
		{"epoch-min-sep, two examples", owners(epoch(2, 3), 2), nil, epoch(2, 3)},
		{"epoch-min-sep, another epoch", epoch(2, 4), nil, epoch(2, 3)},
		{"epoch-min-sep, epochs of min-sep", epoch(3, 3), nil, bins(4)},
		{"epoch-min-sep against balls-in-bins", bins(3), nil, epoch(2, 3)},
		{"epoch-min-sep, longer than the run", epoch(2, samplerSteps+2), nil, epoch(2, samplerSteps+1)},
		{"cyclic, first part", cyclic(0.3, 2, false), []int64{0, 2, 4}, cyclic(0.3, 2, true)},
		{"cyclic, secret partition", cyclic(0.3, 2, true), nil, cyclic(0.3, 2, false)},
		{"cyclic, secret partition, one step or two a part", cyclic(0.7, 3, true), nil, cyclic(0.7, 2, true)},
		{"rotation", rotation(3), nil, rotation(4)},
		{"multi-owner, two examples of one owner", multi(0.2, 1, 2), nil, multi(0.2, 1, 1)}, // the published distribution begins cold
	}
}

// draw returns how often the examples of owner number i take part at each step, drawn as form draws
// it: example row, copy c. Owners with several examples have a copy among them.
func (c samplerCase) draw(process sampling.Process, src *stream.Source, i int) (x [samplerSteps]int) {
	k := c.run.MaxExamplesPerOwner
	coins, owners := make([][]int32, k), make([][]int32, k)
	for e := range k {
		row, copies := int64(i*k+e), uint32(0)
		if c.rows != nil {
			row = c.rows[i%len(c.rows)] + int64(i/len(c.rows))*6 // 6 is a multiple of the parts
		}
		if e == k-1 && e > 0 {
			row, copies = row-1, 1 // the second copy of the example before
		}
		coins[e], owners[e] = process.Draw(nil, src.Stream(src.IntAddress(row, copies)), row), []int32{0}
	}
	if m := c.run.Sampler.MultiOwner; m != nil {
		coins = m.Exclude(coins, owners)
	}
	for _, steps := range coins {
		for _, t := range steps {
			x[t]++
		}
	}
	return x
}

// generating evaluates E Π e^{u_i x_i - x_i²/2σ²} of the run's distribution, P/Q at y = σ²u for C =
// I, with so large a σ that the squares hardly matter: by the recursions of the losses. Independent examples
// without a recursion of their own are then a power of one.
func generating(run Run, u []float64) (float64, error) {
	const sigma = 1000
	spec, times := run.stepLoss(sigma), 1
	if spec.Exactness() == montecarlo.Drawn {
		spec.MaxExamplesPerOwner, times = 0, spec.MaxExamplesPerOwner
	}
	logRatio, err := spec.LogRatio()
	if err != nil {
		return 0, err
	}
	y := make([]float64, len(u))
	for i, v := range u {
		y[i] = v * sigma * sigma
	}
	return math.Exp(float64(times) * logRatio(y)), nil
}

// compare holds draws against one distribution at points that determine the joint distribution: at
// every set of steps, that nothing is outside of it, with participations inside weighed by 1 and by
// e^{0.5}.
func compare(draws map[[samplerSteps]int]int, distribution func(u []float64) (float64, error)) error {
	for set := range 1 << samplerSteps {
		for _, inside := range []float64{0, 0.5} {
			u, twice := make([]float64, samplerSteps), make([]float64, samplerSteps)
			for i := range u {
				u[i], twice[i] = -400, -400
				if set>>i&1 == 1 {
					u[i], twice[i] = inside, 2*inside
				}
			}
			mean, err := distribution(u)
			if err != nil {
				return err
			}
			square, err := distribution(twice)
			if err != nil {
				return err
			}
			sum, most, n := 0.0, 0.0, 0.0
			for x, count := range draws {
				exponent := 0.0
				for i, v := range x {
					exponent += u[i] * float64(v)
				}
				sum += float64(count) * math.Exp(exponent)
				most = max(most, math.Exp(exponent))
				n += float64(count)
			}
			// The squares in the loss change a mean by 1e-5 of itself at most.
			slack := 2e-5 * mean * n
			got := min(max(sum, mean*n-slack), mean*n+slack)
			if math.Abs(sum-mean*n) > slack {
				got = sum + math.Copysign(slack, mean*n-sum)
			}
			if err := stattest.Sum(got, mean*n, max(0, square-mean*mean)*n+slack, max(most, math.Exp(inside*samplerSteps*3))); err != nil {
				return fmt.Errorf("steps %05b weighed by e^%g: %w", set, inside, err)
			}
		}
	}
	return nil
}

// TestSamplersFollowTheirAccounting holds the participations that batches are formed of against the
// distribution whose losses are drawn. The distribution of another run is rejected.
func TestSamplersFollowTheirAccounting(t *testing.T) {
	const owners = 60000
	for _, c := range samplerCases() {
		src := stream.NewSource(stream.PublicKey("samplers", []byte(c.name)))
		process := c.run.Sampler.Process()
		draws := map[[samplerSteps]int]int{}
		for i := range owners {
			draws[c.draw(process, src, i)]++
		}
		loss := func(r Run) func(u []float64) (float64, error) {
			return func(u []float64) (float64, error) { return generating(r, u) }
		}
		if err := compare(draws, loss(c.run)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if compare(draws, loss(c.twin)) == nil {
			t.Errorf("%s: the distribution of %+v is accepted", c.name, c.twin.Sampler.Scheme())
		}
	}
}

// irrelevant are the fields of samplers that change no privacy loss, with the reason.
var irrelevant = map[string]string{
	"Fixed.BatchSize": "no amplification: the schema of participations alone counts",
	"Truncation.Pad":  "padding has zero gradients, and sizes are secret",
}

// TestEveryFieldCounts changes each field of a run, by reflection so that a new one is not
// forgotten, and sees δ at one σ change.
func TestEveryFieldCounts(t *testing.T) {
	strategy := banded(samplerSteps, 2)
	base := map[string]Run{
		"BMinSep":       {Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.3, Steps: samplerSteps, MinSep: 2}}, Strategy: strategy},
		"Poisson":       {Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.3, Steps: samplerSteps}}, Strategy: mechanism.Identity(samplerSteps)},
		"BallsInBins":   {Sampler: sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: samplerSteps, Period: 2}}, Strategy: strategy},
		"EpochMinSep":   {Sampler: sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: samplerSteps, MinSep: 2, EpochSteps: 3}}, Strategy: strategy},
		"CyclicPoisson": {Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.3, Steps: samplerSteps, MinSep: 2}}, Strategy: strategy},
		"MultiOwner":    {Sampler: sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.3, Steps: samplerSteps, MinSep: 2}}, Strategy: strategy},
		"Rotation":      {Sampler: sampling.Spec{Rotation: &sampling.Rotation{Steps: samplerSteps, EpochSteps: 3}}, Strategy: mechanism.Identity(samplerSteps)},
		"Fixed":         {Sampler: sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 2, Steps: samplerSteps, MinSep: 1}}, Strategy: strategy},
	}
	spec := reflect.TypeFor[sampling.Spec]()
	for i := range spec.NumField() {
		name := spec.Field(i).Name
		r, ok := base[name]
		if !ok {
			if name != "Truncation" && name != "Owners" && name != "Law" { // owners change nothing: TestOwnersAreAccountedForAsOneExample; a law is held as a whole by TestSamplers
				t.Errorf("sampling.Spec.%s: no case", name)
			}
			continue
		}
		r.MaxExamplesPerOwner = 1
		before := sampledDelta(t, name, r)
		for field := range reflect.TypeOf(r.Sampler.Scheme()).NumField() {
			mutateField(t, r, before, name, field)
		}
		mutated(t, name+", the strategy", r, before, func(r *Run) { r.Strategy = banded(samplerSteps, 1); r.Strategy.Toeplitz[0] = 1.5 })
		switch name {
		case "BMinSep", "Poisson", "MultiOwner": // others: refused, drawn, or not told apart
			mutated(t, name+", examples per owner", r, before, func(r *Run) { r.MaxExamplesPerOwner = 2 })
		}
		if name == "Poisson" || name == "CyclicPoisson" { // others: by a cost in δ
			cut := r
			cut.Examples = 20
			cut.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 3}
			if cut.Sampler.Poisson != nil {
				if others := cut.events(1)[0][0].Event.(pld.Release).Truncation.Others; others != 19 {
					t.Errorf("%s: %d others of 20 examples", name, others)
				}
			}
			before := sampledDelta(t, name, cut)
			mutated(t, name+", truncation", cut, before, func(r *Run) { r.Sampler.Truncation = nil })
			mutated(t, name+", examples", cut, before, func(r *Run) { r.Examples = 40 })
			for field := range reflect.TypeFor[sampling.Truncation]().NumField() {
				mutateField(t, cut, before, "Truncation", field)
			}
		}
	}
	if fields := reflect.TypeFor[Run]().NumField(); fields != 4 {
		t.Errorf("Run has %d fields: this test knows Sampler, Strategy, MaxExamplesPerOwner and Examples", fields)
	}
}

// mutateField changes a number or a switch of one part of the sampler.
func mutateField(t *testing.T, r Run, before float64, part string, field int) {
	t.Helper()
	name := part + "." + reflect.ValueOf(r.Sampler).FieldByName(part).Type().Elem().Field(field).Name
	if _, ok := irrelevant[name]; ok {
		return
	}
	mutated(t, name, r, before, func(r *Run) {
		holder := reflect.ValueOf(&r.Sampler).Elem().FieldByName(part)
		changed := reflect.New(holder.Type().Elem())
		changed.Elem().Set(holder.Elem())
		switch v := changed.Elem().Field(field); v.Kind() {
		case reflect.Float64:
			v.SetFloat(v.Float() * 1.2)
		case reflect.Int:
			v.SetInt(v.Int() + 1)
		case reflect.Bool:
			v.SetBool(!v.Bool())
		default:
			t.Fatalf("%s: a field of kind %s: teach this test to change it", name, v.Kind())
		}
		holder.Set(changed)
		if n := r.steps(); n != r.Strategy.Steps {
			s := *r.Strategy
			s.Steps = n
			r.Strategy = &s
		}
	})
}

func mutated(t *testing.T, name string, r Run, before float64, change func(r *Run)) {
	t.Helper()
	change(&r)
	if after := sampledDelta(t, name, r); after == before || before == 0 {
		t.Errorf("%s does not count: δ = %g before it is changed, %g after", name, before, after)
	}
}

// sampledDelta is δ of H(P,Q) at one σ and ε: proven, or the mean of plain samples, which are the same
// ones unless the law, the strategy or the examples of an owner are others.
func sampledDelta(t *testing.T, name string, r Run) float64 {
	t.Helper()
	const sigma, epsilon, samples = 0.9, 0.2, 1 << 10
	method, err := r.Method()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if method == PLD || method == ClosedForm {
		pq, _, err := r.Prove(sigma, epsilon)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return pq
	}
	s, err := montecarlo.NewSampler(r.Loss(sigma), montecarlo.P, stream.PublicKey("fields", nil))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	losses := make([]float64, samples)
	s.Losses(losses, 0)
	sum := 0.0
	for _, l := range losses {
		sum += max(0, -math.Expm1(epsilon-l))
	}
	return sum / samples
}
