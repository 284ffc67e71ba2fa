package likelihood

import "math"

// Epochs is the participation process of epoch min-sep (F3.8): exactly once in each Epoch of at
// least MinSep steps.
type Epochs struct {
	Steps, MinSep, Epoch int
}

// Hazard is η of a step: the probability with which an example that is free and not yet in this
// epoch takes part.
func (e Epochs) Hazard(i int) float64 { return 1 / float64(e.Epoch-max(i%e.Epoch, e.MinSep-1)) }

// Next is the step from which on an example that takes part at step i is free again.
func (e Epochs) Next(i int) int { return max((i/e.Epoch+1)*e.Epoch, i+e.MinSep) }

// LogWaits returns the log probabilities of the waits 0 … b-1 before the first step at which the
// example is free.
func (e Epochs) LogWaits() []float64 {
	waits := make([]float64, e.MinSep)
	for r := range waits {
		waits[r] = -math.Log(float64(e.Epoch))
	}
	waits[0] += math.Log(float64(e.Epoch - e.MinSep + 1))
	return waits
}

// EpochMinSep returns the likelihood ratio of epoch min-sep (F3.8) for at most MinSep bands, exact;
// norms are ‖c_i‖²/σ².
func EpochMinSep(e Epochs, norms []float64) *Renewal {
	jump, stays := make([]float64, e.Steps), make([]float64, e.Steps)
	for i := range jump {
		jump[i] = math.Log(e.Hazard(i)) - norms[i]/2
		stays[i] = math.Log1p(-e.Hazard(i))
	}
	return &Renewal{Steps: e.Steps, MinSep: e.MinSep, Epoch: e.Epoch, Stays: stays, Jump: [][]float64{jump}, Start: e.LogWaits(), Times: 1}
}
