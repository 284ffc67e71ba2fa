package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"minsep/planner"
)

// certified is an alternative of a plan that was run to its certificate.
type certified struct {
	row   *planner.Row
	sigma float64 // certified; 0 if nothing could be
	cpu   float64 // of the certificate, in seconds
}

// error is the noise relative to the batch at the certified noise multiplier.
func (c certified) error() float64 { return c.row.Relative * c.above() }

// above is the certified noise multiplier over the plan's.
func (c certified) above() float64 { return c.sigma / c.row.Noise.Multiplier }

// judged is a set with its plan and certificates.
type judged struct {
	set  set
	plan planner.Result
	cpu  float64 // of the plan, in seconds
	all  []certified
}

// order counts pairs of alternatives: those that the plan tells apart, and of them those whose
// certificates have the other order.
func order(all []certified) (apart int, wrong []string) {
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.sigma == 0 || b.sigma == 0 || b.row.Relative-a.row.Relative <= 3*math.Hypot(a.row.StdErr, b.row.StdErr) {
				continue
			}
			apart++
			if a.error() >= b.error() {
				wrong = append(wrong, fmt.Sprintf("%s: %.4g by the plan, %.4g certified; %s: %.4g and %.4g", a.row.Name(), a.row.Relative, a.error(), b.row.Name(), b.row.Relative, b.error()))
			}
		}
	}
	return apart, wrong
}

func report(w io.Writer, all []judged) {
	fmt.Fprintln(w, "| data set | rank | scheme, strategy | σ by the plan | certified | noise/batch certified | CPU-s of the certificate by the plan | measured |\n|---|---|---|---|---|---|---|---|")
	var ratios []float64
	for _, j := range all {
		for _, c := range j.all {
			row := c.row
			if c.cpu == 0 {
				continue
			}
			rank, sigma := fmt.Sprint(row.Rank), fmt.Sprintf("%.4g", row.Noise.Multiplier)
			if row.Tied {
				rank = "=1"
			}
			if row.Noise.OneDirection {
				sigma = "≥" + sigma
			}
			if !row.Noise.Proven {
				sigma += fmt.Sprintf(" ± %.1f %%", 100*row.Noise.StdErr/row.Noise.Multiplier)
			}
			certificate, relative := "none", ""
			if c.sigma > 0 {
				certificate, relative = fmt.Sprintf("%.4g (%+.1f %%)", c.sigma, 100*(c.above()-1)), fmt.Sprintf("%.4g", c.error())
				ratios = append(ratios, c.cpu/row.CPU)
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %.2g | %.2g |\n", j.set.name, rank, row.Name(), sigma, certificate, relative, row.CPU, c.cpu)
		}
	}
	fmt.Fprintln(w)
	for _, j := range all {
		apart, wrong := order(j.all)
		fmt.Fprintf(w, "%s: %d candidates in %.3g CPU-s; %d pairs told apart, %d of them certified in the other order\n", j.set.name, len(j.plan.Rows), j.cpu, apart, len(wrong))
		for _, text := range wrong {
			fmt.Fprintln(w, "  "+text)
		}
	}
	if len(ratios) > 0 {
		slices.Sort(ratios)
		fmt.Fprintf(w, "\ncertificates: measured over planned CPU time %.2g to %.2g, median %.2g\n", ratios[0], ratios[len(ratios)-1], ratios[len(ratios)/2])
	}
}
