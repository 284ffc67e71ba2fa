package main

import (
	"fmt"
	"math"

	"minsep/mechanism"
)

// printedBanded is the optimal 3-banded strategy for 9 steps (arXiv 2405.15913, Appendix B.1), by
// columns.
var printedBanded = [][]string{
	{"0.740", "0.500", "0.450"}, {"0.822", "0.492", "0.286"}, {"0.876", "0.395", "0.278"}, {"0.821", "0.462", "0.335"},
	{"0.855", "0.442", "0.272"}, {"0.882", "0.403", "0.243"}, {"0.892", "0.409", "0.194"}, {"0.936", "0.353"}, {"1.000"},
}

func tablesBanded() []table {
	return []table{
		{"arXiv 2405.15913, Appendix B.1: the optimal 3-banded strategy for 9 steps, columns of norm one", matrixBanded},
		{"arXiv 2405.15913, section 4: RMSE above the optimum's, in percent: normalised Toeplitz against banded, banded square root against Toeplitz.\nThe paper gives the largest of each", ratiosBanded},
		{"arXiv 2405.15913, Appendix I: MaxSE over the optimum's, n = 2¹⁶, 64 bands, of the Toeplitz strategy optimised with m terms computed and the rest at their limit", scalingBanded},
	}
}

func matrixBanded() ([]row, error) {
	s, err := made(mechanism.Problem{Workload: mechanism.Prefix(9)}, mechanism.KindBanded, 3)
	if err != nil {
		return nil, err
	}
	var rows []row
	for j, column := range printedBanded {
		for i, published := range column {
			rows = append(rows, row{name: fmt.Sprintf("C[%d][%d]", i+j, j), published: published, computed: s.Columns[j][i]})
		}
	}
	return rows, nil
}

func ratiosBanded() ([]row, error) {
	var rows []row
	for _, c := range []struct {
		n, bands  int
		published string
		note      string
	}{
		{128, 32, "", ""}, {512, 8, "", ""}, {512, 32, "", ""}, {512, 128, "2", "largest of the paper: 2 %"},
		{16384, 32, "0.25", "largest of the paper for n ≥ 16384, bands ≤ 32"},
	} {
		p := mechanism.Problem{Workload: mechanism.Prefix(c.n)}
		toeplitz, err := made(p, mechanism.KindBandedToeplitz, c.bands)
		if err != nil {
			return nil, err
		}
		toeplitz.Normalized = true
		above, err := p.Loss(toeplitz)
		if err != nil {
			return nil, err
		}
		best, err := leastLoss(p, mechanism.KindBanded, c.bands)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{
			name: fmt.Sprintf("normalised Toeplitz, n=%d, %d bands", c.n, c.bands), published: c.published,
			computed: 100 * (math.Sqrt(above/best) - 1), note: c.note, open: true,
		})
	}
	for _, c := range []struct {
		n, bands  int
		published string
		note      string
	}{{1 << 14, 16, "", ""}, {1 << 17, 16, "", ""}, {1 << 20, 16, "25", "largest of the paper, at settings it does not name"}} {
		p := mechanism.Problem{Workload: mechanism.Prefix(c.n)}
		best, err := leastLoss(p, mechanism.KindBandedToeplitz, c.bands)
		if err != nil {
			return nil, err
		}
		root, err := mechanism.BSR(c.n, c.bands)
		if err != nil {
			return nil, err
		}
		loss, err := p.Loss(root)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{
			name: fmt.Sprintf("banded square root, n=%d, %d bands", c.n, c.bands), published: c.published,
			computed: 100 * (math.Sqrt(loss/best) - 1), note: c.note, open: true,
		})
	}
	return rows, nil
}
