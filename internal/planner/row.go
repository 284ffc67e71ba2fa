package planner

import (
	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/mechanism"
	"minsep/sampling"
)

// Row is a candidate and its figures.
type Row struct {
	Scheme      sampling.Params  `json:"scheme"`        // as a plan for minsep run has it
	Strategy    mechanism.Params `json:"strategy"`      // likewise
	MaxPerOwner int              `json:"max_per_owner"` // k_u, at least 1

	Refused string `json:"refused,omitempty"` // why there is nothing below: it cannot be used, or, with NotEstimated before it, was left out; "" if there is

	Bands int               `json:"bands"` // of C, 1 to n
	Noise calibration.Noise `json:"noise"`

	BatchSize  float64 `json:"batch_size"`              // expected, in examples, or in owners where they are sampled, above 0
	Relative   float64 `json:"relative"`                // the objective's error over BatchSize, above 0: the noise relative to the batch
	StdErr     float64 `json:"std_err"`                 // of Relative, at least 0; 0 if the noise multiplier is proven
	Forgetful  float64 `json:"relative_forgetful"`      // as Relative, for a model that forgets sooner: Result.ShorterMemory
	StepNoise  float64 `json:"step_noise"`              // of one step over DP-SGD's with the same batch size, above 0 (F1.2)
	MayBeWorse bool    `json:"may_be_worse"`            // than DP-SGD: by Relative or by Forgetful it has more noise
	Examples   int64   `json:"examples"`                // kept, at least 1; those in any pool
	Pools      int     `json:"pools,omitempty"`         // that rotation takes in turn, at least 1; 0 for other schemes
	Kept       float64 `json:"kept"`                    // part of those given, above 0 and at most 1
	TimesEach  float64 `json:"times_each"`              // expected participations of an example, or of an owner that is sampled, in the run, at least 0
	Truncation float64 `json:"truncation"`              // part of δ that a maximum batch size takes, in [0, 0.5]
	State      int     `json:"state"`                   // numbers of 8 bytes that the noise keeps for each coordinate, at least 0
	CPU        float64 `json:"certificate_cpu_seconds"` // that a certificate with further ε takes of one processor, to a factor of two; 0 where it is not known: of rows that need samples it is that of one after [Result.Time]

	SuggestedMaxBatchSize int `json:"suggested_max_batch_size,omitempty"` // the smallest, in examples or sampled owners, that costs at most 1 % of δ; 0 where none is known

	Rank int  `json:"rank"` // from 1; 0 if it is refused
	Tied bool `json:"tied"` // with the first: the errors of the estimates do not separate them

	norm   float64 // largest column norm of C
	base   float64 // noise multiplier of DP-SGD in the row's setting
	step   float64 // noise of one step over BatchSize
	unit   float64 // the objective's error at noise multiplier 1
	run    accounting.Run
	proven bool    // it is of a method that takes no samples
	needs  float64 // seconds of processors of an ample budget for its certificate, where that was looked at

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
