package planner

import (
	"math"

	"minsep/internal/accounting"
	"minsep/mechanism"
	"minsep/sampling"
)

// Beside is a certified run beside DP-SGD, with the same claim, steps and expected batch size.
type Beside struct {
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ of DP-SGD, proven, above 0
	Relative        float64 `json:"relative"`         // noise of DP-SGD relative to the batch, above 0
	Ratio           float64 `json:"ratio"`            // noise of the run over DP-SGD's: above 1, DP-SGD has less
	Unit            float64 `json:"-"`                // error of independent noise at noise multiplier 1
}

// BesideDPSGD compares a certified run with DP-SGD, by the RMSE of a workload. units is the
// number of examples, or of owners where they are sampled; batch is their expected number in a
// batch. The result is nil if there is nothing to compare: without a certificate or a batch size,
// for a run of DP-SGD itself, for a claim for which DP-SGD needs no noise, and for learning rates
// from a file.
func BesideDPSGD(c *accounting.Certificate, units int64, batch float64, workload mechanism.Params) *Beside {
	sigma := sigmaOf(c, units, batch)
	if !(sigma > 0) || c.Run.Sampler.Poisson != nil && c.Run.Strategy.Bands() == 1 {
		return nil
	}
	own := Error(c.Run.Strategy, workload, RMSE)
	unit := Error(mechanism.Identity(c.Run.Strategy.Steps), workload, RMSE)
	if math.IsNaN(own) || math.IsNaN(unit) {
		return nil
	}
	return &Beside{
		NoiseMultiplier: sigma,
		Relative:        sigma * unit / batch,
		Ratio:           c.NoiseMultiplier * own / (sigma * unit),
		Unit:            unit,
	}
}

// unknownUnits stands for a number of examples that is not known: the comparison is the same for
// any, at the same rate.
const unknownUnits = 1_000_000

// BesideClaim is BesideDPSGD with the certificate's number of examples; nil also for fixed
// batches of an unknown number of them.
func BesideClaim(c *accounting.Certificate, workload mechanism.Params) *Beside {
	if c == nil {
		return nil
	}
	units, batch := sizeOf(c)
	return BesideDPSGD(c, units, batch, workload)
}

// sizeOf returns the number of examples, or of owners where they are sampled, in a certificate, and
// their expected number in a batch. Both are 0 if a number is needed and not known.
func sizeOf(c *accounting.Certificate) (units int64, batch float64) {
	units = c.Run.Examples
	switch s := c.Run.Sampler.Scheme().(type) {
	case sampling.Independent:
		if units == 0 {
			units = unknownUnits
		}
		batch = s.ExpectedBatchSize(units)
	case sampling.Fixed:
		batch = float64(s.BatchSize)
	}
	return units, batch
}

// sigmaOf returns the noise multiplier that DP-SGD needs for the claim of a verified certificate, and
// 0 if there is none to compare with.
func sigmaOf(c *accounting.Certificate, units int64, batch float64) float64 {
	if c == nil || c.Status != accounting.Verified || units < 1 || !(batch > 0) {
		return 0
	}
	sigma, err := claimOf(c, units).NoiseMultiplier(batch)
	if err != nil {
		return 0
	}
	return sigma
}

// claimOf is DP-SGD for the claim of a certificate, of so many examples, or owners where they are
// sampled.
func claimOf(c *accounting.Certificate, units int64) DPSGD {
	return DPSGD{
		Epsilon:     c.Epsilon,
		Delta:       c.Delta,
		Steps:       c.Run.Strategy.Steps,
		Units:       units,
		MaxPerOwner: c.Run.MaxExamplesPerOwner,
	}
}

// Error is the error of a strategy on a workload at noise multiplier 1, by an objective; NaN where
// it is not known: for learning rates from a file, or more than MaxSteps.
func Error(s *mechanism.Strategy, workload mechanism.Params, objective string) float64 {
	if s.Steps > MaxSteps || workload.ScheduleFile() != "" {
		return math.NaN()
	}
	workload.Steps = s.Steps
	problem, err := workload.Problem(nil)
	if err != nil {
		return math.NaN()
	}
	e, err := s.Error(problem.Workload)
	if err != nil {
		return math.NaN()
	}
	return errorBy(e, objective)
}
