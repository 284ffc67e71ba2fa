package planner

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/param"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/sampling"
)

// ParamError is a parameter with a value that breaks a rule.
type ParamError = param.Error

// Objectives of a ranking, all of the rows of A C⁻¹ Z and relative to the batch.
const (
	RMSE   = "rmse"   // the root mean square error over the steps
	MaxSE  = "maxse"  // the largest error of a step
	LastSE = "lastse" // the error after the last step; strategies are made for the mean over the steps
	LateSE = "latese" // the root mean square error over the second half of the steps; strategies likewise
)

// Population is the data that bounding leaves for one number of examples per owner.
type Population struct {
	MaxPerOwner int   `json:"max_per_owner"` // k_u, at least 1
	Examples    int64 `json:"examples"`      // that are kept, at least 1
	Given       int64 `json:"given"`         // before bounding, at least Examples

	// Owners is the number of owners with kept examples, if each kept example has one owner: only
	// then can owners be sampled. Otherwise it is 0.
	Owners int64 `json:"owners,omitempty"`

	// Protected is the number of owners with kept examples; 0 if it is not known.
	Protected int64 `json:"protected,omitempty"`

	// GivenOwners is the number of owners before bounding; 0 if it is not known.
	GivenOwners int64 `json:"given_owners,omitempty"`
}

// Kept is the part of the examples that bounding leaves.
func (p Population) Kept() float64 { return float64(p.Examples) / float64(p.Given) }

// Request holds the parameters that a plan is made for.
type Request struct {
	Populations []Population `json:"populations"`     // by rising MaxPerOwner, at least one
	Pools       *Pools       `json:"pools,omitempty"` // nil where no example has several owners
	Numbered    bool         `json:"numbered"`        // the examples are numbers, each its own owner: there is no graph

	Steps      int       `json:"steps" flag:"steps" help:"number of training steps"` // n, 1 to 131,072
	BatchSizes []float64 `json:"batch_sizes"`                                        // expected, in examples, above 0 and at most 1e15, rising; at least one

	Epsilon float64 `json:"epsilon" flag:"epsilon" help:"epsilon of the claim"` // above 0, at most 10,000
	Delta   float64 `json:"delta" flag:"delta" help:"delta of the claim"`       // at least 1e-300, below 1

	// Unit is the unit that the claim protects. With accounting.UnitExample, each example of a
	// population counts as the only example of an owner.
	Unit accounting.Unit `json:"unit"`

	// Sample is the unit that takes part: sampling.SampleExamples, or sampling.SampleOwners, which
	// needs the unit owner and examples of one owner each. If it is empty, examples are tried, and
	// owners too if they can be sampled.
	Sample string `json:"sample,omitempty" flag:"sample" help:"the unit that takes part in steps: examples, or owners, each with examples drawn each time (default: both are tried; of prepare: owners where each example has one)"`

	// Training of a strategy's parameters says how the model is trained; the other fields are not
	// looked at.
	Workload mechanism.Params `json:"workload"`
	rates    []float64        // of the file of its schedule
	Assumed  bool             `json:"assumed,omitempty"` // Workload: nobody said it, see AssumeTraining

	Objective string `json:"objective" flag:"objective" help:"error to rank by: rmse, over all steps; latese, over the second half of them; lastse, of the last step; or maxse, of the worst step (default: latese with a schedule, else rmse)"` // RMSE, MaxSE, LastSE or LateSE, see AssumeObjective

	// Limits of a trainer; 0 for no limit.

	MaxBands     int   `json:"max_bands,omitempty" flag:"max-bands" help:"most bands of a strategy, or of its inverse if the inverse is banded (default: no limit)"`                       // of C, and of C⁻¹ in inverse families
	Coordinates  int64 `json:"coordinates,omitempty" flag:"coordinates" help:"length of a gradient: the number of trained parameters of the model; needed where a plan is written or run"` // parameters of the model
	MaxBatchSize int   `json:"max_batch_size,omitempty" flag:"max-batch-size" help:"cut larger batches to a random subset of this size, at a cost in delta"`                               // larger batches are cut; at least the least batch size

	Law     *sampling.Table `json:"law,omitempty" flag:"law" help:"file of a law of a program of your own (docs/library.md), which is compared too, at its own batch size"` // of Steps steps; nil for none
	Schemes []string        `json:"schemes,omitempty" flag:"scheme" help:"try only this sampling scheme; may be repeated, or name several with commas"`                     // only these; nil for all
	Kinds   []string        `json:"kinds,omitempty" flag:"kind" help:"try only this kind of strategy; may be repeated, or name several with commas"`                        // of strategies, only these; nil for all

	Seed uint64 `json:"seed" flag:"seed" help:"seed of the estimates' samples: the same seed gives the same plan"` // of the samples

	// Watch, if not nil, is told of each candidate when it is begun, and when its noise multiplier
	// was found. It is called from several goroutines, one at a time.
	Watch func(Progress) `json:"-"`
}

// Progress is how far a plan is.
type Progress struct {
	Done int    // candidates that were looked at so far; their number depends on the results
	Text string // the candidate that is looked at or, where none is, the last one
}

// SetRates gives the learning rates that the file of the schedule holds.
func (r *Request) SetRates(rates []float64) { r.rates = rates }

// Validate reports every fault.
func (r Request) Validate() error {
	c := param.Checker{}
	c.Require(len(r.Populations) > 0, "examples", 0, "must be at least 1")
	for _, p := range r.Populations {
		c.AtLeast("max per owner", p.MaxPerOwner, 1)
		c.Require(p.Examples >= 1 && p.Given >= p.Examples, "examples", p.Examples, "must be at least 1")
		c.Require(
			!r.Numbered || p.MaxPerOwner == 1,
			"max per owner",
			p.MaxPerOwner,
			"must be left out for numbered examples, which have no owners: give --graph",
		)
	}
	c.Require(r.Steps >= 1 && r.Steps <= MaxSteps, "steps", r.Steps, fmt.Sprintf("must be 1 to %d", MaxSteps))
	c.Require(len(r.BatchSizes) > 0, "batch size", "(none)", "must be above 0")
	for _, b := range r.BatchSizes {
		c.Require(b > 0 && b <= 1e15, "batch size", b, "must be above 0 and at most 1e15")
	}
	c.Require(r.Epsilon > 0 && r.Epsilon <= calibration.MostEpsilon, "epsilon", r.Epsilon, "must be above 0 and at most 10,000")
	c.Require(r.Delta >= 1e-300 && r.Delta <= 0.99, "delta", r.Delta, "must be from 1e-300 to 0.99, and belongs well below one over the number of owners (docs/choosing.md)")
	c.Require(
		slices.Contains([]string{RMSE, MaxSE, LastSE, LateSE}, r.Objective),
		"objective",
		r.Objective,
		"must be rmse, maxse, lastse or latese",
	)
	_, err := accounting.ParseUnit(string(r.Unit))
	c.Add(err)
	c.Require(
		r.Sample == "" || r.Sample == sampling.SampleExamples || r.Sample == sampling.SampleOwners,
		"sample",
		r.Sample,
		"must be examples or owners; leave it out to try both",
	)
	if r.Sample == sampling.SampleOwners && len(r.Populations) > 0 {
		c.Require(r.Unit != accounting.UnitExample, "sample", r.Sample, "protects owners: leave out the unit")
		c.Require(!r.Numbered, "sample", r.Sample, "needs a graph: numbered examples are each their own owner")
		c.Require(
			r.Populations[len(r.Populations)-1].Owners > 0,
			"sample",
			r.Sample,
			"needs examples of one owner each: some that bounding keeps have several, so leave it out",
		)
	}
	c.AtLeast("max bands", r.MaxBands, 0)
	c.Require(r.Coordinates >= 0, "coordinates", r.Coordinates, "must be at least 1")
	c.AtLeast("max batch size", r.MaxBatchSize, 0)
	if len(r.BatchSizes) > 0 && r.MaxBatchSize > 0 {
		c.Require(
			float64(r.MaxBatchSize) >= r.BatchSizes[0],
			"max batch size",
			r.MaxBatchSize,
			fmt.Sprintf("must be at least the batch size, %g", r.BatchSizes[0]),
		)
	}
	if r.Steps >= 1 && r.Steps <= MaxSteps {
		workload := r.workload(mechanism.KindIdentity)
		c.Add(workload.Validate())
		if workload.ScheduleFile() != "" {
			c.Require(r.rates != nil, "schedule", r.Workload.Schedule, "must have a name or be a file")
		}
	}
	if r.Law != nil {
		c.Add(sampling.Params{Scheme: sampling.LawScheme, Steps: r.Steps, Law: r.Law}.Validate())
	}
	for _, kind := range r.Kinds {
		c.Require(slices.Contains(plannedKinds, kind), "kind", kind, "must be one of "+words.List(plannedKinds))
	}
	for _, scheme := range r.Schemes {
		c.Require(
			slices.Contains(plannedSchemes, scheme),
			"scheme",
			scheme,
			"must be one of "+words.List(plannedSchemes),
		)
	}
	return c.Err()
}

// MaxSteps bounds the steps of a plan: tables beyond take too long for dozens of candidates.
const MaxSteps = 1 << 17

// toeplitzKinds are made for Toeplitz workloads only, banded-toeplitz for others by the mean error.
var toeplitzKinds = []string{mechanism.KindBandedToeplitz, mechanism.KindBandInv, mechanism.KindBLT}

// workload are the parameters of a strategy of a kind for the request's workload, or for the
// next to it that the kind can be made for: without a schedule of learning rates. The strategy is measured on the request's own
// ([Request.measured]).
func (r Request) workload(kind string) mechanism.Params {
	p := r.measured(kind)
	if r.adapts(kind) {
		p = p.ForToeplitz()
	}
	if kind == mechanism.KindDense || kind == mechanism.KindBanded {
		p.Objective = "" // they have no other
	}
	return p
}

// measured are parameters with the request's workload and objective.
func (r Request) measured(kind string) mechanism.Params {
	p := mechanism.Params{Kind: kind, Steps: r.Steps, Training: r.Workload.Training}
	if r.Objective == MaxSE {
		p.Objective = mechanism.MaxError
	}
	return p
}

// adapts says whether strategies of a kind are made for another workload than the request's.
func (r Request) adapts(kind string) bool {
	if !slices.Contains(toeplitzKinds, kind) || kind == mechanism.KindBandedToeplitz && r.Objective != MaxSE {
		return false
	}
	problem, err := r.measured(kind).Problem(r.rates)
	return err != nil || !problem.Workload.IsToeplitz()
}

// adapted are the kinds that are made for another workload than the request's.
func (r Request) adapted() (kinds []string) {
	for _, kind := range toeplitzKinds {
		if r.adapts(kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// error returns the error by which the request ranks.
func (r Request) error(e mechanism.Error) float64 {
	return errorBy(e, r.Objective)
}

// errorBy is an error by an objective.
func errorBy(e mechanism.Error, objective string) float64 {
	switch objective {
	case MaxSE:
		return e.MaxSE
	case LastSE:
		return math.Sqrt(e.Variance[len(e.Variance)-1])
	case LateSE:
		late := e.Variance[len(e.Variance)/2:]
		return math.Sqrt(floats.Sum(late) / float64(len(late)))
	}
	return e.RMSE
}

// perOwner is the number of examples that the accounting counts for an owner.
func (r Request) perOwner(p Population) int {
	if r.Unit == accounting.UnitExample {
		return 1
	}
	return p.MaxPerOwner
}

// mostBands is the largest number of bands that the request allows, at most n: of C, and of C⁻¹ in
// inverse families.
func (r Request) mostBands() int {
	if r.MaxBands > 0 {
		return min(r.Steps, r.MaxBands)
	}
	return r.Steps
}

// BatchSizes returns batch sizes from low to high, both included, rounded to whole numbers. Two
// neighbours are at most a factor of √2 apart.
func BatchSizes(low, high float64) []float64 {
	parts := max(1, int(math.Ceil(2*math.Log2(high/low)-1e-9)))
	list := []float64{low}
	for i := 1; i < parts; i++ {
		if b := math.Round(low * math.Pow(high/low, float64(i)/float64(parts))); b > list[len(list)-1] && b < high {
			list = append(list, b)
		}
	}
	if high > low {
		list = append(list, high)
	}
	return list
}

// Rotates says whether a request may take pools: it must be of examples, and protect owners.
func (r Request) Rotates() bool {
	asked := r.Schemes == nil || slices.Contains(r.Schemes, "rotation")
	return asked && r.Sample != sampling.SampleOwners && r.Unit != accounting.UnitExample
}

// rotates returns the share of pools of a setting with a batch size.
func (r *Request) rotates(batch float64) *rotation {
	// In a period each example of the pool takes part once, so its steps are the pool over the batch.
	period := int(min(max(1, math.Round(float64(r.Pools.Size)/batch)), sampling.MaxSteps))
	return &rotation{r.Pools, period, (r.Steps + period - 1) / period}
}

// figures fills in the figures that follow from the noise multiplier.
func (r *Request) figures(row *Row, f mechanism.Figures) {
	row.Relative = row.Noise.Multiplier * row.unit / row.BatchSize
	row.StdErr = row.Noise.StdErr * row.unit / row.BatchSize
	row.step = row.Noise.Multiplier * f.StepNoise / row.BatchSize
	row.State = f.State
	if row.proven {
		row.CPU = calibration.ProvenSeconds
	}
}
