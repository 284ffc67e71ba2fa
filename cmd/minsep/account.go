package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/pipelines"
	"minsep/internal/planner"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/sampling"
)

func accountCommand(a *app) *cobra.Command {
	var stage pipelines.Account
	c := &cobra.Command{
		Use:        "account --scheme S --steps N --min-sep B (--prob P | --batch-size X) [--examples N | --bounded DIR] (--strategy FILE | --bands W) --epsilon E --delta D --out DIR",
		SuggestFor: []string{"certify"},
		Short:      "Find and verify the noise multiplier of a training run",
		Long: `account finds the smallest noise multiplier at which training with these batches and this strategy can be proven
(E, D)-differentially private, and writes the proof: certificate.json, and the ledger from which anybody can recompute it.

How it is proven depends on the scheme: in closed form (fixed), by privacy loss distributions (poisson with one band,
cyclic-poisson), otherwise by estimate-verify-release: candidates and thresholds are written to the ledger before the first
sample of the verification. --cpu-time, or --samples, is its budget; a larger one gives less noise. A
stopped or killed command resumes when it is repeated. With other parameters it starts over: the protocol in the ledger is
set aside, and its failure probability still counts. A certificate is never replaced.

If nothing can be certified, the command exits with 3 and leaves no certificate. The accounting of multi-owner is the
published one, which is not proven: it is written to accounting.json, which is no certificate and says so.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := a.options()
			stop := a.watch("account")
			result, err := stage.Run(cmd.Context(), o)
			stop()
			// Where nothing was certified, the estimates and the table of budgets are printed all the same:
			// a next attempt needs them. An error before there is a method has nothing to print.
			if err != nil && unverified(err) {
				err = newNotCertified(err, result, stage.NoiseMultiplier, false)
			}
			if err != nil && (!unverified(err) || result.Method == "") {
				return err
			}
			if cert := result.Certificate; cert != nil && cert.Status == accounting.NotProven {
				a.say(fmt.Sprintf("warning: %s: %s", cert.Status, cert.Reason))
			}
			result.Beside = planner.BesideClaim(result.Certificate, mechanism.Params{})
			return errors.Join(a.print(result, func(w io.Writer) { printAccounted(w, result) }), err)
		},
	}
	f := c.Flags()
	// Not addStageFlags: an account draws nothing from the root key, and needs none.
	f.StringVar(&a.out, "out", "", "run directory to write to")
	a.addJobFlags(c, "finished work is kept; the same command goes on from there")
	f.BoolVar(&a.dryRun, "dry-run", false, "check everything, say how the claim would be verified, write nothing")
	stage.Epsilon = math.NaN() // if it is not given: 0 is a claim
	stage.Scheme = sampling.DefaultScheme
	addFlags(f, &stage)
	f.Lookup("epsilon").DefValue = "0"
	return c
}

// unverified reports whether err means that nothing could be certified: exit code 3, not a fault.
func unverified(err error) bool {
	var refused *accounting.RefusedError
	return errors.Is(err, accounting.ErrNotVerified) || errors.Is(err, accounting.ErrTooFewSamples) ||
		errors.As(err, &refused)
}

func printAccounted(w io.Writer, r pipelines.AccountResult) {
	t := newTable(w)
	defer t.Flush()
	if c := r.Certificate; c != nil {
		t.row(
			"%s\t(%g, %g)-DP at noise multiplier %s",
			statusText(string(c.Status), r.Weak),
			c.Epsilon,
			c.Delta,
			accounting.RoundedUp(c.NoiseMultiplier, 6),
		)
		printWeak(t, r.Weak)
		t.row("protects\t%s", c.Protected())
		for _, f := range c.Facts() {
			t.row("%s\t%s", f.Name, f.Text)
		}
		if c.Run.Sampler.Owners != nil {
			t.row("clipping\tthe mean gradient of an owner's examples, once for each owner")
		}
		t.row("method\t%s", c.Method)
		if r.Exactness != "" {
			t.row("losses\t%s", r.Exactness)
		}
		// The first point is the claim that was asked for; printAlso prints the further ones.
		p := c.Points[0]
		for _, v := range p.Directions {
			if v.Samples == 0 {
				t.row(
					"direction %s\tat most %.4g, proven without samples%s",
					v.Direction,
					v.Bound,
					truncation(v, c.Delta),
				)
				continue
			}
			t.row(
				"direction %s\tmean %.4g of %s samples, accepted up to %.4g (M/delta %.3g)%s",
				v.Direction,
				v.Mean,
				words.Grouped(int64(v.Samples)),
				v.Accept,
				v.Bound/c.Delta,
				truncation(v, c.Delta),
			)
		}
		if p.FailureProbability > 0 {
			t.row("in delta\tfailure probability %.3g of the verification", p.FailureProbability)
		}
		if r.Estimate > 0 && r.Estimate < c.NoiseMultiplier {
			t.row("estimated\tnoise multiplier %.5g has this delta; the rest is what the verification takes", r.Estimate)
		}
		printAlso(t, r)
		if a := r.Attacks; a != nil {
			t.row("attacks, %s\t%s", a.Worth, attackText(*a))
		}
	} else if r.DryRun {
		t.row(
			"dry run\tof a claim of (%g, %g)-DP: nothing was verified, and nothing written",
			r.Epsilon,
			r.Delta,
		)
		t.row("method\t%s", r.Method)
		if r.Outlook != nil {
			printOutlook(t, *r.Outlook)
		}
	} else {
		t.row("not certified\t(%g, %g)-DP; method: %s", r.Epsilon, r.Delta, r.Method)
	}
	if r.SuggestedMaxBatchSize > 0 {
		t.row(
			"max batch size\tfrom %d on it adds at most %g %% to delta",
			r.SuggestedMaxBatchSize,
			100*accounting.SuggestedShare,
		)
	}
	printEarlier(t, r)
	printMultiOwner(t, r)
	printWorse(t, r.Standing, "--cpu-time or --samples")
}

// statusText returns the status of a certificate, marked if the claim protects next to nobody.
func statusText(status string, weak []string) string {
	if weak != nil {
		return status + ", but weak"
	}
	return status
}

func printWeak(t table, weak []string) {
	for _, why := range weak {
		t.row("weak\t%s", why)
	}
}

// printWorse warns if another mechanism, or a larger budget, would need less noise than a
// certificate. The budget is named by its flags or its fields of a plan.
func printWorse(t table, s pipelines.Standing, budget string) {
	if b := s.Beside; b != nil && b.Ratio > 1 {
		t.row(
			"worse than DP-SGD\t%.3g times its noise, for the same claim, steps and batch size: minsep plan compares mechanisms",
			b.Ratio,
		)
	}
	if s.Unused != "" {
		t.row("mostly unused\t%s", s.Unused)
	}
	if s.WithoutSamples {
		t.row(
			"without samples\tat a noise multiplier that needs none: a larger %s may certify less noise",
			budget,
		)
	}
}

// printAlso prints the results of --also-epsilon: the further points of the certificate, and the ε
// at which nothing was certified.
func printAlso(t table, r pipelines.AccountResult) {
	for _, p := range r.Certificate.Points[1:] {
		t.row(
			"also %s\t(%g, %g)-DP at the same noise multiplier",
			r.Certificate.Status,
			p.Epsilon,
			p.Delta,
		)
	}
	for _, epsilon := range r.NotCertified {
		t.row(
			"not certified\tdelta at epsilon %g: its samples were rejected; the other claims stand",
			epsilon,
		)
	}
	for _, epsilon := range r.LeftOut {
		t.row(
			"not certified\tdelta at epsilon %g: it would be above 0.5 at this noise multiplier; the other claims stand",
			epsilon,
		)
	}
}

// truncation returns the share of δ that the maximum batch size takes in one direction; "" if
// batches have no maximum size.
func truncation(v accounting.Verdict, delta float64) string {
	if v.Truncation == nil {
		return ""
	}
	return fmt.Sprintf(
		"; truncation adds %.3g, %.2g %% of delta (%s)",
		v.Truncation.Cost,
		100*v.Truncation.Cost/delta,
		v.Truncation.Rule,
	)
}

// printOutlook prints the forecast of a dry run for the verification: its budget, samples and CPU
// time.
func printOutlook(t table, o calibration.Outlook) {
	if !o.Samples {
		t.row("expected\tno samples: some seconds")
		return
	}
	most := ""
	if strings.HasSuffix(o.Budget, ", the default") { // only the default budget may be left unspent
		most = "at most "
	}
	t.row("budget\t%s%s, for estimates and verification together", most, o.Budget)
	if o.Expected > 0 {
		t.row("expected\tabout %s of a processor in all", budgetTime(o.Expected))
	}
	switch {
	case o.Unamplified:
		t.row(
			"on request\tnoise multiplier %.5g, which needs neither samples nor amplification",
			o.Proven,
		)
	case o.Proven > 0:
		t.row("expected\ta noise multiplier of at most %.5g, which needs no samples", o.Proven)
	}
	if o.Hopeless() {
		t.row(
			"expected\tmore samples than any verification has, at noise multiplier %.4g (M/delta %.3g)",
			o.NoiseMultiplier,
			o.Effort,
		)
		if o.Refused() {
			t.row(
				"expected\tno certificate, exit code 3, whatever the budget: give a larger delta or epsilon, or another scheme",
			)
		}
		return
	}
	verdict := "the budget is enough for that"
	if !o.Enough {
		verdict = "the budget is not enough for that"
	}
	t.row(
		"expected\tat least %s samples at noise multiplier %.4g (M/delta %.3g), %.2g s of a processor: %s",
		words.Grouped(int64(o.Need)),
		o.NoiseMultiplier,
		o.Effort,
		o.Need*o.CPU,
		verdict,
	)
	if o.Refused() {
		t.row(
			"expected\tno certificate, exit code 3, unless the budget is about %.2g samples, %s of a processor",
			o.Advised,
			budgetTime(o.AdvisedCPU),
		)
	}
}

// printEarlier prints the failure probability of protocols that earlier attempts left in the
// ledger.
func printEarlier(t table, r pipelines.AccountResult) {
	q := 0.0
	for _, e := range r.Earlier {
		q += e.FailureProbability
	}
	if q > 0 {
		t.row(
			"earlier\t%s in ledger/earlier, which takes %.3g of delta",
			plural(len(r.Earlier), "protocol"),
			q,
		)
	}
}

// printMultiOwner prints the table of the unproven analysis of multi-owner.
func printMultiOwner(t table, r pipelines.AccountResult) {
	if len(r.MultiOwner) == 0 {
		return
	}
	t.row("\nnot proven (F4.1)\texamples of an owner\tdelta\tstandard error\tM/delta")
	for _, l := range r.MultiOwner {
		t.row("\t%d\t%.4g\t%.1g\t%.3g", l.Examples, l.Delta, l.StdErr, l.Effort)
	}
}
