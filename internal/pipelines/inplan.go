package pipelines

import (
	"context"

	"minsep/internal/stages"
)

// InPlan has the functions by which a plan runs a stage of package stages. The file of the stage
// registers it.
type InPlan struct {
	Run func(ctx context.Context, p stages.Plan, o Options, to *Figures) error

	// Functions of stages that have more to say; nil for the others.

	Report   func(ctx context.Context, p stages.Plan, to *Figures) error             // takes the figures of a finished result
	Forecast func(ctx context.Context, p stages.Plan, to *stages.PlanEstimate) error // adds to the estimate of a dry run
}

// inPlans has the stages by name.
var inPlans = map[string]InPlan{}

// Figures are the figures that the stages of a plan report. All of them are public.
type Figures struct {
	Examples          int64   `json:"examples,omitempty"`            // kept
	Copies            int64   `json:"copies,omitempty"`              // of them
	ExpectedBatchSize float64 `json:"expected_batch_size,omitempty"` // in owners, where they are sampled
	Owners            int64   `json:"owners,omitempty"`              // where they are sampled, as the next field
	ExpectedExamples  float64 `json:"expected_examples,omitempty"`   // of a batch
	NoiseMultiplier   float64 `json:"noise_multiplier,omitempty"`    // σ of the certificate
	Epsilon           float64 `json:"epsilon,omitempty"`             // of the claim
	Delta             float64 `json:"delta,omitempty"`               // of the claim
	Status            string  `json:"status,omitempty"`              // of the certificate
	Protects          string  `json:"protects,omitempty"`            // whom the certificate protects
	Protected         int64   `json:"protected,omitempty"`           // how many of them there are: owners with an example, or examples; 0 where that is not known
	Reason            string  `json:"reason,omitempty"`              // of a status that is not verified

	Kept string `json:"kept,omitempty"` // how much of the data that is, see stages.KeptText

	Standing

	Warning string `json:"warning,omitempty"` // [stages.FloatingPointOpen] of noise without a grid

	NotCertified *AccountResult `json:"not_certified,omitempty"` // the best that account came to, with an error that says why

	owners int64 // with an example in the bounded table, once that is known
}
