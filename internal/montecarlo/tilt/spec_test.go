package tilt

import (
	"minsep/internal/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// specOf is the spec of one example of a scheme that has a law.
func specOf(s sampling.Scheme, c *mechanism.Strategy, sigma float64) montecarlo.Spec {
	table, err := sampling.TableOf(s)
	if err != nil {
		panic(err)
	}
	return montecarlo.Spec{Law: table, NoiseMultiplier: sigma, Strategy: c}
}

// ownersOf is the spec of an owner of k examples.
func ownersOf(s montecarlo.Spec, k int) montecarlo.Spec {
	s.MaxExamplesPerOwner = k
	return s
}
