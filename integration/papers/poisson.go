package main

import (
	"context"
	"fmt"
	"math"

	"minsep/internal/accounting"
	"minsep/mechanism"
	"minsep/sampling"
)

// cyclicFractional is the row of cyclic Poisson sampling of arXiv 2605.18379, Table 7, by privacy
// loss distributions.
func cyclicFractional() ([]row, error) {
	var rows []row
	p := problemFractional()
	for i, published := range []string{"24.45", "14.61", "9.19", "5.95"} {
		epsilon := float64(int(1) << i)
		r := row{name: fmt.Sprintf("BandMF, cyclic Poisson, ε = %v", epsilon), published: published, computed: math.Inf(1)}
		for _, bands := range powers(epochFractional) {
			s, err := made(p, mechanism.KindBandedToeplitz, bands)
			if err != nil {
				return nil, err
			}
			sampler := sampling.CyclicPoisson{Prob: float64(bands) / epochFractional, Steps: stepsFractional, MinSep: bands}
			rmse, err := provenRMSE(sampling.Spec{CyclicPoisson: &sampler}, s, epsilon)
			if err != nil {
				return nil, err
			}
			if rmse < r.computed {
				r.computed, r.note = rmse, fmt.Sprintf("proven, bands = %v", bands)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// sgdLambda is the row of DP-SGD of arXiv 2601.22334, Table 4, by privacy loss distributions.
func sgdLambda() ([]row, error) {
	const n = 3900
	var rows []row
	for _, c := range []struct {
		epsilon   float64
		published string
	}{{8, "21.82"}, {4, "26.27"}, {2, "31.68"}, {1, "40.10"}, {.5, "59.17"}, {.25, "100.27"}} {
		rmse, err := provenRMSE(sampling.Spec{Poisson: &sampling.Poisson{Prob: 1. / 390, Steps: n}}, mechanism.Identity(n), c.epsilon)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{name: fmt.Sprintf("DP-SGD, ε = %v", c.epsilon), published: c.published, computed: rmse, note: "proven"})
	}
	return rows, nil
}

// provenRMSE is the RMSE for prefix sums of a run of independent events at the smallest proven
// noise multiplier.
func provenRMSE(sampler sampling.Spec, s *mechanism.Strategy, epsilon float64) (float64, error) {
	sigma, err := accounting.Run{Sampler: sampler, Strategy: s, MaxExamplesPerOwner: 1}.Calibrate(context.Background(), epsilon, deltaOfTables)
	if err != nil {
		return 0, err
	}
	e, err := s.Error(mechanism.Prefix(s.Steps))
	return sigma * e.RMSE, err
}
