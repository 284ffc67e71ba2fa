package planner

import (
	"math"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/mechanism"
	"minsep/sampling"
)

// Row is a candidate and its figures.
type Row struct {
	Plan        string           `json:"plan,omitempty"` // the file that the candidate is from, if it is from one
	Scheme      sampling.Params  `json:"scheme"`         // as a plan for minsep run has it
	Strategy    mechanism.Params `json:"strategy"`       // likewise
	MaxPerOwner int              `json:"max_per_owner"`  // k_u, at least 1

	Refused string `json:"refused,omitempty"` // why there is nothing below: it cannot be used, or, with NotEstimated before it, was left out; "" if there is

	Bands int               `json:"bands"` // of C, 1 to n
	Noise calibration.Noise `json:"noise"`

	RMSE  float64 `json:"rmse"`   // of the noise in the request's sums of gradients, by default the models of the training, over the steps, above 0, at the noise multiplier, in units of the clip norm
	MaxSE float64 `json:"max_se"` // of the step with the largest, likewise

	BatchSize  float64 `json:"batch_size"`              // expected, in examples, or in owners where they are sampled, above 0
	Relative   float64 `json:"relative"`                // the objective's error over BatchSize, above 0: the noise relative to the batch
	StdErr     float64 `json:"std_err"`                 // of Relative, at least 0; 0 if the noise multiplier is proven
	Forgetful  float64 `json:"relative_forgetful"`      // as Relative, for a model that forgets sooner: Result.ShorterMemory; 0 where the workload is a file
	StepNoise  float64 `json:"step_noise"`              // of one step over DP-SGD's with the same batch size, above 0 (F1.2)
	MayBeWorse bool    `json:"may_be_worse"`            // than DP-SGD: by Relative or by Forgetful it has more noise
	SameAs     float64 `json:"same_as"`                 // the batch size at which independent noise with Poisson sampling has the same Relative; in owners, sampled likewise, where the row samples them; 0 if none up to half of the examples, or owners, has
	Examples   int64   `json:"examples"`                // kept, at least 1; those in any pool
	Pools      int     `json:"pools,omitempty"`         // that rotation takes in turn, at least 1; 0 for other schemes
	Kept       float64 `json:"kept"`                    // part of those given, above 0 and at most 1
	TimesEach  float64 `json:"times_each"`              // expected participations of an example, or of an owner that is sampled, in the run, at least 0
	Coverage   float64 `json:"coverage"`                // probability that it takes part at all, in [0, 1]
	Truncation float64 `json:"truncation"`              // part of δ that a maximum batch size takes, in [0, 0.5]
	State      int     `json:"state"`                   // numbers of 8 bytes that the noise keeps for each coordinate, at least 0
	StateBytes int64   `json:"state_bytes"`             // of all coordinates; 0 where their number is not known
	Speed      float64 `json:"noise_values"`            // of noise that one processor makes in a second, about
	CPU        float64 `json:"certificate_cpu_seconds"` // that a certificate with further ε takes of one processor, above 0: rough, and too small where only H(P,Q) was looked at; after [Result.Time] known to a factor of two for the first and the best of each scheme, and set against these for others

	SuggestedMaxBatchSize int `json:"suggested_max_batch_size,omitempty"` // the smallest, in examples or sampled owners, that costs at most 1 % of δ; 0 where none is known

	Rank int  `json:"rank"` // from 1; 0 if it is refused
	Tied bool `json:"tied"` // with the first: the errors of the estimates do not separate them

	norm   float64 // largest column norm of C
	unit   float64 // the objective's error at noise multiplier 1
	run    accounting.Run
	proven bool                 // it is of a method that takes no samples
	cost   calibration.Forecast // of its certificate, where that was looked at

	shared *[]*Row // rows that need the same noise multiplier, this one too; nil if there are no others
}

// share records that two rows need the same noise multiplier.
func (r *Row) share(other *Row) {
	if r.shared == nil {
		r.shared = &[]*Row{r}
	}
	*r.shared = append(*r.shared, other)
	other.shared = r.shared
}

// sharers returns the rows that need the same noise multiplier, with this row among them.
func (r *Row) sharers() []*Row {
	if r.shared == nil {
		return []*Row{r}
	}
	return *r.shared
}

// NotEstimated begins the reason of a row that was left out although it may be useful.
const NotEstimated = "not estimated: "

// Seconds of one processor that a value of noise takes: for each normal that is drawn, and for
// each product.
const (
	normalSeconds  = 2.1e-9
	productSeconds = 0.04e-9
)

// coverage is the probability that an example, or an owner, takes part at least once.
func coverage(s sampling.Spec, units int64) float64 {
	never := func(p float64, steps int) float64 { return math.Exp(float64(steps) * math.Log1p(-p)) }
	switch s := s.Scheme().(type) {
	case sampling.BMinSep:
		n := s.Steps
		if !s.WarmStart {
			return 1 - never(s.Prob, n)
		}
		// Free at the first step, or only after 1 to b-1 steps, each with probability p times as
		// much.
		none := never(s.Prob, n)
		for wait := 1; wait < s.MinSep; wait++ {
			none += s.Prob * never(s.Prob, max(0, n-wait))
		}
		return 1 - none/(1+float64(s.MinSep-1)*s.Prob)
	case sampling.Poisson:
		return 1 - never(s.Prob, s.Steps)
	case sampling.BallsInBins:
		return min(1, float64(s.Steps)/float64(s.Period))
	case sampling.EpochMinSep:
		return min(1, float64(s.Steps)/float64(s.EpochSteps))
	case sampling.Rotation: // of an example of the first pool; of those in a later period that is cut, it may be less
		return min(1, float64(s.Steps)/float64(s.EpochSteps))
	case sampling.CyclicPoisson:
		turns, more := s.Steps/s.MinSep, s.Steps%s.MinSep // of most parts, and the number of parts with one more
		b := float64(s.MinSep)
		return 1 - (float64(more)*never(s.Prob, turns+1)+(b-float64(more))*never(s.Prob, turns))/b
	case sampling.Fixed:
		return min(1, float64(s.Steps)*float64(s.BatchSize)/float64(units))
	}
	return math.NaN()
}
