package planner

import (
	"fmt"

	"minsep/internal/accounting"
)

// StepNoise is the noise of one step beside DP-SGD's with the same claim, steps and expected
// batch size (F1.2).
type StepNoise struct {
	Ratio           float64 `json:"ratio"`            // ρ: standard deviation over DP-SGD's, above 0
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ of DP-SGD, proven, above 0
}

// String is the ratio in words, and whether it is good.
func (s StepNoise) String() string {
	text := fmt.Sprintf("%.4g times DP-SGD's in a single step, at the same claim, steps and batch size", s.Ratio)
	if s.Ratio <= 1 {
		return text
	}
	return text + ": above 1 is usual with correlated noise and no fault, as later steps take a part back (for Adam, see scale_by_step_noise)"
}

// StepNoiseOf compares the noise of one step of a certified run, made with noiseMultiplier, with
// DP-SGD's. It is nil where there is nothing to compare with: no certificate, fixed batches of an
// unknown number of examples, or a claim for which DP-SGD needs no noise.
func StepNoiseOf(c *accounting.Certificate, noiseMultiplier float64) *StepNoise {
	if c == nil {
		return nil
	}
	units, batch := sizeOf(c)
	sigma := sigmaOf(c, units, batch)
	if !(sigma > 0) {
		return nil
	}
	own, err := c.Run.Strategy.StepNoise()
	if err != nil {
		return nil
	}
	return &StepNoise{Ratio: noiseMultiplier * own / sigma, NoiseMultiplier: sigma}
}
