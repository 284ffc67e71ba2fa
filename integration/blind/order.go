package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"minsep/accounting"
	"minsep/planner"
)

// certified is an alternative of a plan that was run to its certificate.
type certified struct {
	row     *planner.Row
	samples uint64  // its budget, where it takes samples
	sigma   float64 // certified; 0 if nothing could be
	cpu     float64 // of the certificate, in seconds

	// needed is the noise multiplier that the samples of the verification say is enough,
	// without the slack of a certificate; neededErr its standard error.
	needed, neededErr float64
}

// needed is where the divergence would be δ by the mean of a verification, in the worse
// direction, if it fell with σ as a Gaussian mechanism's does. Those samples are independent of
// the plan's. It certifies nothing, and is 0 where there are none.
func needed(c *accounting.Certificate) (sigma, stdErr float64, err error) {
	gaussian := func(delta float64) float64 {
		x, fault := accounting.GaussianNoiseMultiplier(c.Epsilon, delta, 1)
		err = errors.Join(err, fault)
		return x
	}
	at := gaussian(c.Delta)
	for _, v := range c.Points[0].Directions {
		if v.Samples == 0 || v.Mean == 0 {
			continue // far below δ
		}
		off := math.Sqrt(v.Bound*v.Mean/float64(v.Samples)) / 2
		if s := c.NoiseMultiplier * at / gaussian(v.Mean); s > sigma {
			sigma, stdErr = s, c.NoiseMultiplier*at*math.Abs(1/gaussian(v.Mean+off)-1/gaussian(max(v.Mean/2, v.Mean-off)))
		}
	}
	return sigma, stdErr, err
}

// error is the noise relative to the batch at the certified noise multiplier, and least at the one
// that its samples say is enough.
func (c certified) error() float64 { return c.row.Relative * c.above() }
func (c certified) least() float64 { return c.row.Relative * c.needed / c.row.Noise.Multiplier }

// above is the certified noise multiplier over the plan's.
func (c certified) above() float64 { return c.sigma / c.row.Noise.Multiplier }

// judged is a set with its plan and certificates.
type judged struct {
	set  set
	plan planner.Result
	cpu  float64 // of the plan, in seconds
	all  []certified
}

// apart is how many standard errors two figures are apart when a plan takes their order as
// known.
const apart = 3

// pairs counts the pairs of a set's alternatives that both have a certificate and are more than
// apart standard errors from each other in the plan.
type pairs struct {
	told    int // where the plan says that one has less noise than the other
	bounded int // the same, but of the one it knows a lower bound only (≥): it does not say so

	wrong, wrongBounded []string // of each, those that have the other order
}

// compare counts pairs, in whatever order the alternatives are, by a figure of their
// certificates; 0 is not known.
func compare(all []certified, what func(certified) float64) (p pairs) {
	for i, a := range all {
		for _, b := range all[i+1:] {
			if what(a) == 0 || what(b) == 0 {
				continue
			}
			less, more := a, b
			if less.row.Relative > more.row.Relative {
				less, more = b, a
			}
			if more.row.Relative-less.row.Relative <= apart*math.Hypot(less.row.StdErr, more.row.StdErr) {
				continue
			}
			count, wrong := &p.told, &p.wrong
			if less.row.Noise.OneDirection {
				count, wrong = &p.bounded, &p.wrongBounded
			}
			*count++
			if what(less) >= what(more) {
				*wrong = append(*wrong, fmt.Sprintf("%s: %.4g by the plan, now %.4g; %s: %.4g and %.4g",
					less.row.Name(), less.row.Relative, what(less), more.row.Name(), more.row.Relative, what(more)))
			}
		}
	}
	return p
}

// tooHigh are alternatives that were certified with less noise than the plan says that they
// need, by more than apart standard errors or, for a proven one, by more than a finer grid of
// losses explains: the estimate is wrong, as a certificate is not.
func tooHigh(all []certified) (names []string) {
	for _, c := range all {
		slack := apart * c.row.Noise.StdErr
		if c.row.Noise.Proven {
			slack = gridSlack * c.row.Noise.Multiplier
		}
		if c.sigma > 0 && c.sigma < c.row.Noise.Multiplier-slack {
			names = append(names, fmt.Sprintf("%s: %.4g ± %.2g by the plan, %.4g certified", c.row.Name(), c.row.Noise.Multiplier, c.row.Noise.StdErr, c.sigma))
		}
	}
	return names
}

// off is by how many standard errors a plan's estimate differs at most from needed, the figure
// by the certificate's samples, and for how many alternatives that is known. With bounded it
// counts the alternatives where only H(P,Q) was looked at.
func off(all []certified, bounded bool) (most float64, of int) {
	for _, c := range all {
		n := c.row.Noise
		if !n.Proven && n.OneDirection == bounded && c.needed > 0 {
			of++
			if z := (n.Multiplier - c.needed) / math.Hypot(n.StdErr, c.neededErr); math.Abs(z) > math.Abs(most) {
				most = z
			}
		}
	}
	return most, of
}

// gridSlack is by how much, as a part, a proven noise multiplier of a plan may be above a
// certificate's, which has a finer grid.
const gridSlack = 0.003

// excess is by how much, as a part, the noise of the plan's first row is above the least that
// was certified; NaN where the first has no certificate.
func excess(all []certified) float64 {
	first, least := math.NaN(), math.Inf(1)
	for _, c := range all {
		if c.sigma == 0 {
			continue
		}
		if c.row.Rank == 1 {
			first = c.error()
		}
		least = min(least, c.error())
	}
	return first/least - 1
}

func report(w io.Writer, all []judged) {
	fmt.Fprintln(w, "| data set | rank | scheme, strategy | σ by the plan | by the samples | certified | noise/batch certified | samples | CPU-s of the certificate by the plan | measured |\n|---|---|---|---|---|---|---|---|---|---|")
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
			samples := ""
			if !row.Noise.Proven {
				samples = fmt.Sprint(c.samples)
				sigma += fmt.Sprintf(" ± %.1f %%", 100*row.Noise.StdErr/row.Noise.Multiplier)
			}
			certificate, relative, least := "none", "", ""
			if c.sigma > 0 {
				if !row.Noise.Proven && c.needed > 0 {
					least = fmt.Sprintf("%.4g ± %.2f %%", c.needed, 100*c.neededErr/c.needed)
				}
				certificate, relative = fmt.Sprintf("%.4g (%+.1f %%)", c.sigma, 100*(c.above()-1)), fmt.Sprintf("%.4g", c.error())
				ratios = append(ratios, c.cpu/row.CPU)
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %.2g | %.2g |\n", j.set.name, rank, row.Name(), sigma, least, certificate, relative, samples, row.CPU, c.cpu)
		}
	}
	fmt.Fprintln(w)
	for _, j := range all {
		fmt.Fprintf(w, "%s: %d candidates in %.3g CPU-s\n", j.set.name, len(j.plan.Rows), j.cpu)
		for _, by := range []struct {
			name string
			what func(certified) float64
		}{{"certified", certified.error}, {"by the samples", certified.least}} {
			p := compare(j.all, by.what)
			fmt.Fprintf(w, "  %s: %d of %d pairs told apart have the other order, and %d of %d in which the lesser has ≥\n",
				by.name, len(p.wrong), p.told, len(p.wrongBounded), p.bounded)
			for _, text := range slices.Concat(p.wrong, p.wrongBounded) {
				fmt.Fprintln(w, "    "+text)
			}
		}
		for _, text := range tooHigh(j.all) {
			fmt.Fprintln(w, "  estimated too high: "+text)
		}
		for i, what := range []string{"known in both directions", "with ≥"} {
			if most, of := off(j.all, i == 1); of > 0 {
				fmt.Fprintf(w, "  %d estimates %s are off by %+.1f standard errors at most\n", of, what, most)
			}
		}
		if more := excess(j.all); more >= 0 {
			fmt.Fprintf(w, "  the first has %.2g %% more noise than the least that was certified\n", 100*more)
		}
	}
	if len(ratios) > 0 {
		slices.Sort(ratios)
		fmt.Fprintf(w, "\ncertificates: measured over planned CPU time %.2g to %.2g, median %.2g\n", ratios[0], ratios[len(ratios)-1], ratios[len(ratios)/2])
	}
}
