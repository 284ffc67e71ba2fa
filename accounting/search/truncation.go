package search

import (
	"errors"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
)

// TruncationCost is Run.TruncationCost at a noise multiplier, or at any for 0, with the run's
// moments where these may lower it.
func TruncationCost(run accounting.Run, noiseMultiplier, epsilon float64, d montecarlo.Direction) (accounting.Truncated, error) {
	var m accounting.Moments
	if d == montecarlo.P {
		var err error
		if m, err = Moments(run, noiseMultiplier); err != nil {
			return accounting.Truncated{}, err
		}
	}
	return run.TruncationCost(d, epsilon, m)
}

// MostTruncationCost is the cost in the dearer direction.
func MostTruncationCost(run accounting.Run, noiseMultiplier, epsilon float64) (most float64, err error) {
	for _, d := range montecarlo.Directions {
		cost, err := TruncationCost(run, noiseMultiplier, epsilon, d)
		if err != nil {
			return 0, err
		}
		most = max(most, cost.Cost)
	}
	return most, nil
}

// Moments are the moments of a run by its scheme at a noise multiplier; none where the scheme has
// none, and at noise multiplier 0, which stands for any.
func Moments(run accounting.Run, noiseMultiplier float64) (accounting.Moments, error) {
	if noiseMultiplier == 0 {
		return accounting.Moments{}, nil
	}
	m := accounting.Moments{NoiseMultiplier: noiseMultiplier}
	list, err := tilt.Moments(run.Untruncated().Loss(noiseMultiplier))
	var unknown *montecarlo.ParamError
	if err != nil && !errors.As(err, &unknown) { // a run that is composed may have no loss to sample
		return m, err
	}
	for _, o := range list {
		m.Orders = append(m.Orders, accounting.Moment(o))
	}
	return m, nil
}
