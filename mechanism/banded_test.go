package mechanism_test

import (
	"testing"

	"minsep/mechanism"
)

type denseCase struct {
	N         int       `json:"n"`
	Epochs    int       `json:"epochs"`
	Bands     int       `json:"bands"`
	EqualNorm bool      `json:"equal_norm"`
	Loss      float64   `json:"mse_times_sens2"`
	First     []float64 `json:"first_column_first8"`
}

func denseGolden(t testing.TB) []denseCase {
	var golden struct {
		Cases []denseCase `json:"cases"`
	}
	readGolden(t, "dense_banded_strategies.json", &golden)
	return golden.Cases
}

func TestOptimalBandedRefuses(t *testing.T) {
	for _, c := range []struct {
		p     mechanism.Problem
		bands int
	}{
		{mechanism.Problem{}, 1},
		{mechanism.Problem{Workload: mechanism.Prefix(8)}, 0},
		{mechanism.Problem{Workload: mechanism.Prefix(8)}, 9},
		{mechanism.Problem{Workload: mechanism.Prefix(8), Objective: "median"}, 2},
		{mechanism.Problem{Workload: mechanism.Prefix(8), Objective: mechanism.MaxError}, 2},
		{mechanism.Problem{Workload: mechanism.Prefix(8), Participation: mechanism.Participation{MinSep: 2}}, 3},
	} {
		if second(c.p.Make(t.Context(), mechanism.KindBanded, c.bands)) == nil {
			t.Errorf("%+v with %d bands is accepted", c.p, c.bands)
		}
	}
}
