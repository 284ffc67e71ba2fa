package attack

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/drawhere"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/noise"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// chain is the product's chain in process, as the stages run it: keys of a run, participations by
// the scheme's sampler, noise by the recipe's generator in two shards. A run has some canaries,
// each with a coordinate of its own in which its examples have the gradient 1 and nobody else has
// one; every second canary is left out.
type chain struct {
	spec     sampling.Spec
	strategy *mechanism.Strategy
	sigma    float64
	examples int // of a canary's owner
	canaries int // of a run; 1 with others
	// others is how many examples of others take part, each with the gradient neighbour in the
	// canary's coordinate. The adversary knows their coins, and subtracts what the batches of the
	// others alone would add.
	others    int
	neighbour float64
	faults
}

// faults are what may be wrong with a chain. The zero value is the product.
type faults struct {
	shifted   bool                // step t gets the noise of step t-1, and step 0 that of the last
	noiseOf   *mechanism.Strategy // the noise is of another strategy
	batchesOf *sampling.Spec      // the batches are of another sampler
	scale     float64             // of the noise, 0 for 1
	sameCoins bool                // the examples of an owner share their coins
	realised  bool                // sums are divided by the size of the batch, times the expected size
	cut       int                 // batches are cut to this size, which nothing accounts for; 0 for no cut
}

// Claim of all chains.
const epsilon, delta = 1, 1e-2

// mechanism is what the chain should be.
func (c chain) mechanism() Mechanism {
	return Mechanism{Run: c.run(), NoiseMultiplier: c.sigma, Epsilon: epsilon, Delta: delta}
}

func (c chain) run() accounting.Run {
	return accounting.Run{Sampler: c.spec, Strategy: c.strategy, MaxExamplesPerOwner: max(1, c.examples), Examples: c.population()}
}

// population is how many examples there are.
func (c chain) population() int64 { return int64(c.canaries*max(1, c.examples) + c.others) }

// seeded is a root key of the tests.
func seeded(seed string) stream.Root {
	b := sha256.Sum256([]byte(seed))
	root, err := stream.ParseRoot(b[:])
	if err != nil {
		panic(err)
	}
	return root
}

// trainer is what the trainings of a chain share. It serves one goroutine.
type trainer struct {
	chain
	t       testing.TB
	root    stream.Root
	params  manifest.Digest
	formed  sampling.Spec
	process sampling.Process
	recipe  noise.Recipe
	values  []float64   // noise, [steps, canaries]
	rows    [][]float64 // sums, [canaries, steps]
	sampled []int       // others that were sampled, by step, before batches are cut
}

func (c chain) trainer(t testing.TB, root stream.Root) *trainer {
	t.Helper()
	x := &trainer{chain: c, t: t, root: root, formed: c.spec}
	if c.batchesOf != nil {
		x.formed = *c.batchesOf
	}
	var err error
	if _, x.params, err = manifest.Params(manifest.BatchesParams{Scheme: x.formed}); err != nil {
		t.Fatal(err)
	}
	strategy, scale := c.strategy, 1.0
	if c.noiseOf != nil {
		strategy = c.noiseOf
	}
	if c.scale > 0 {
		scale = c.scale
	}
	recipe := must.Get(noise.NewRecipe(noise.Config{Strategy: strategy, Coordinates: int64(c.canaries), NoiseMultiplier: c.sigma * scale, ClipNorm: 1}))(t)
	n := c.strategy.Steps
	// The bytes of steps are the same in all trainings, so that only their run ids part them: random
	// bytes could hide a run id that two share, and a test would not repeat.
	for t := range n {
		recipe.StepBytes = append(recipe.StepBytes, noise.StepBytes{byte(t)})
	}
	x.recipe, x.process, x.values = *recipe, x.formed.Process(), make([]float64, n*c.canaries)
	x.sampled = make([]int, n)
	for range c.canaries {
		x.rows = append(x.rows, make([]float64, n))
	}
	return x
}

// train makes the training of a run id, and returns the sums of each canary's coordinate, which
// stay until the next. Left out are the gradients of the canaries that are not included.
func (x *trainer) train(run uint64, included func(canary int) bool) [][]float64 {
	var id stream.RunID
	binary.BigEndian.PutUint64(id[:], run+1)
	x.recipe.Bind(x.root, id, "key")
	n, k := x.strategy.Steps, max(1, x.examples)
	noisy(x.t, &x.recipe, x.recipe.Key(x.root, id), x.values, n)
	key := x.root.Key(id, x.params, "formation")
	purpose := "participations"
	if x.formed.Owners != nil {
		purpose = "participations of owners"
	}
	src := stream.NewSource(key.Sub(purpose))
	words := src.Stream(stream.Address{})
	batches := make([][]int64, n)
	var steps []int32
	clear(x.sampled)
	for row := range int64(x.population()) {
		from := row
		if x.sameCoins {
			from = row / int64(k)
		}
		words.Reset(src.IntAddress(from, 0))
		for _, step := range x.process.Draw(steps[:0], words, from) {
			batches[step] = append(batches[step], row)
			if int(row) >= x.canaries*k {
				x.sampled[step]++
			}
		}
	}
	truncation := x.formed.Truncation
	if x.cut > 0 {
		truncation = &sampling.Truncation{MaxBatchSize: x.cut}
	}
	most := math.MaxInt
	if truncation != nil {
		most = truncation.MaxBatchSize
		src := stream.NewSource(key.Sub("truncation"))
		for step, batch := range batches {
			batches[step] = sampling.Cut(*truncation, batch, func(row int64) sampling.Words {
				return src.Stream(src.IntAddress(row, uint32(step)))
			})
		}
	}
	for canary, row := range x.rows {
		for step := range row {
			at := step
			if x.shifted {
				at = (step + n - 1) % n
			}
			row[step] = x.values[at*x.canaries+canary]
		}
	}
	for step, batch := range batches {
		weight := 1.0
		if x.realised {
			weight = x.formed.ExpectedBatchSize(sampling.Population{Examples: x.population()}) / float64(len(batch))
		}
		if x.neighbour != 0 {
			x.rows[0][step] -= x.neighbour * float64(min(x.sampled[step], most))
		}
		for _, row := range batch {
			if canary := int(row) / k; canary >= x.canaries {
				x.rows[0][step] += x.neighbour
			} else if included(canary) {
				x.rows[canary][step] += weight * x.gradient(key, canary, step)
			}
		}
	}
	return x.rows
}

// owned is how many examples each owner has, where owners are sampled.
const owned = 5

// gradient is what an entry of a batch adds: 1 for an example; for an owner the mean over the
// examples that it brings, each of gradient 1.
func (x *trainer) gradient(key stream.Key, canary, step int) float64 {
	if x.formed.Owners == nil {
		return 1
	}
	src := stream.NewSource(key.Sub("examples of owners"))
	words := src.Stream(src.IntAddress(int64(canary)*owned, uint32(step)))
	brought := x.formed.Owners.Draw(nil, words, owned)
	sum := 0.0
	for range brought {
		sum++
	}
	return sum / float64(len(brought))
}

// noisy fills values, [steps, coordinates], from two shards.
func noisy(t testing.TB, recipe *noise.Recipe, key stream.Key, values []float64, steps int) {
	d := recipe.Params.Coordinates
	var row []float64
	for _, shard := range [][2]int64{{0, d / 2}, {d / 2, d}} {
		width := int(shard[1] - shard[0])
		if width == 0 {
			continue
		}
		g, err := recipe.Generator(key, shard[0], shard[1])
		if err != nil {
			t.Error(err)
			return
		}
		g.Add(recipe.StepBytes...)
		g.Workers = 1
		row = append(row[:0], make([]float64, width*steps)...)
		if err := g.Fill64(row); err != nil {
			t.Error(err)
			return
		}
		for step := range steps {
			copy(values[int64(step)*d+shard[0]:], row[step*width:(step+1)*width])
		}
	}
}

// includedIn says which canaries a run includes: every second one.
func includedIn(run int) func(canary int) bool {
	return func(canary int) bool { return (canary+run)%2 == 0 }
}

// rowsOf makes the observations of a run, one a canary.
type rowsOf func(run int) [][]float64

// rows returns a maker of the chain's observations, each run with its own run id, for one
// goroutine. Where there are others a run is two trainings, of one canary each: the observations
// of canaries that share their batches' sizes would not be independent.
func (c chain) rows(t testing.TB, root stream.Root) rowsOf {
	x := c.trainer(t, root)
	if c.others > 0 {
		pair := make([][]float64, 2)
		return func(run int) [][]float64 {
			for i := range pair {
				pair[i] = append(pair[i][:0], x.train(uint64(2*run+i), func(int) bool { return includedIn(run)(i) })[0]...)
			}
			return pair
		}
	}
	return func(run int) [][]float64 { return x.train(uint64(run), includedIn(run)) }
}

// audit judges observations as those of a mechanism. The attack adapts to the first tenth of the
// runs.
func (m Mechanism) audit(t testing.TB, runs int, rows func() rowsOf) Judgement {
	t.Helper()
	attack, with, without := m.observe(t, runs, rows)
	return attack.Judge(with, without, rand.New(rand.NewPCG(1, 2)))
}

// observe attacks observations, those of the first tenth of the runs apart, to which the attack
// adapts.
func (m Mechanism) observe(t testing.TB, runs int, rows func() rowsOf) (attack *Attack, with, without *Sample) {
	t.Helper()
	var seen [2][][]float64
	first, pilot := rows(), runs/10
	for run := range pilot {
		for canary, row := range first(run) {
			seen[(canary+run)%2] = append(seen[(canary+run)%2], slices.Clone(row))
		}
	}
	attacks := make([]*Attack, runtime.GOMAXPROCS(0))
	samples := make([][2]Sample, len(attacks))
	var group sync.WaitGroup
	for w := range attacks {
		var err error
		if attacks[w], err = NewAttack(m); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			attacks[w].Adapt(seen[0], seen[1])
			each := rows()
			for run := pilot + w; run < runs; run += len(attacks) {
				for canary, row := range each(run) {
					attacks[w].Add(&samples[w][(canary+run)%2], row)
				}
			}
		})
	}
	group.Wait()
	with, without = new(Sample), new(Sample)
	for i := range samples {
		with.Merge(&samples[i][0])
		without.Merge(&samples[i][1])
	}
	return attacks[0], with, without
}

// certified returns the smallest noise multiplier that is certified for the chain.
func (c chain) certified(t testing.TB, samples uint64) float64 {
	t.Helper()
	p := calibration.Problem{Run: c.run(), Epsilon: epsilon, Delta: delta, Samples: samples, CodeVersion: "audit"}
	plan := must.Get(p.Plan(context.Background()))(t)
	l := must.Get(ledger.Create(t.TempDir(), plan.Protocol))(t)
	must.Do(t, calibration.Release(context.Background(), l, 100_000, drawhere.By(calibration.NewWorker, 0)))
	certificate := must.Get(l.Certificate())(t)
	return certificate.NoiseMultiplier
}
