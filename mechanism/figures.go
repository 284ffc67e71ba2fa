package mechanism

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Figures are the columns of a comparison of strategies.
type Figures struct {
	Kind        string      `json:"kind"`        // of the strategy
	Bands       int         `json:"bands"`       // of C, 1 to the steps
	RMSE        float64     `json:"rmse"`        // at noise multiplier 1
	MaxSE       float64     `json:"max_se"`      // at noise multiplier 1
	Sensitivity Sensitivity `json:"sensitivity"` // without amplification, clip norm 1
	StepNoise   float64     `json:"step_noise"`  // of the noise of one step, the standard deviation at noise multiplier 1
	// Noise of one step, for each coordinate:
	State        int `json:"state"`         // numbers kept from step to step, at least 0
	Normals      int `json:"normals"`       // normals drawn, drawn again included, at least 1
	MultiplyAdds int `json:"multiply_adds"` // at most, after the first bands; at least 0
}

// noiseCost returns the state, normals and multiply-adds of one step and coordinate of C⁻¹Z (F1).
func noiseCost(s *Strategy) (state, normals, multiplyAdds int) {
	normals = 1
	switch {
	case s.InverseToeplitz != nil: // past inputs are drawn again
		normals = trimmed(s.InverseToeplitz)
		multiplyAdds = normals
	case s.BLT != nil:
		state = len(s.BLT.Scales)
		multiplyAdds = 2 * state
	default:
		state = s.Bands() - 1
		multiplyAdds = s.Bands()
		if s.Toeplitz != nil && s.Bands() == 1 && s.Toeplitz[0] == 1 {
			multiplyAdds = 0
		}
	}
	if s.Normalized {
		multiplyAdds++
	}
	return state, normals, multiplyAdds
}

// WriteTable writes figures as a table, one strategy a line. RMSE and MaxSE are at noise multiplier
// 1. RMSE·sens is RMSE times the sensitivity, which compares strategies without amplification; ≤
// marks figures with an upper bound of the sensitivity.
func WriteTable(w io.Writer, figures []Figures) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kind\tbands\tRMSE\tMaxSE\tsensitivity\tby\tRMSE·sens\tstate\tnormals\tmul-adds\t")
	for _, f := range figures {
		bound := ""
		if !f.Sensitivity.Exact {
			bound = "≤"
		}
		fmt.Fprintf(
			t,
			"%s\t%d\t%.5g\t%.5g\t%s%.5g\t%s\t%s%.5g\t%d\t%d\t%d\t\n",
			f.Kind,
			f.Bands,
			f.RMSE,
			f.MaxSE,
			bound,
			f.Sensitivity.Value,
			f.Sensitivity.Method,
			bound,
			f.RMSE*f.Sensitivity.Value,
			f.State,
			f.Normals,
			f.MultiplyAdds,
		)
	}
	return t.Flush()
}
