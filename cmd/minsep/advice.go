package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/digits"
	"minsep/internal/pipelines"
	"minsep/internal/stages"
)

// notCertified wraps the error of a claim that was not certified with the facts that advice depends
// on.
type notCertified struct {
	error
	fixed   bool   // the user gave the noise multiplier
	several bool   // an owner has several examples
	inPlan  bool   // advice names fields of the plan, not flags
	ledger  string // folder with the rejected protocol; "" if there is none
}

func (e notCertified) Unwrap() error { return e.error }

// newNotCertified wraps err, the error of an account that ended with result.
func newNotCertified(err error, result pipelines.AccountResult, noiseMultiplier float64, inPlan bool) error {
	return notCertified{err, noiseMultiplier != 0, result.Run.MaxExamplesPerOwner > 1, inPlan, result.Ledger}
}

// advice returns the ways out after a claim was not certified, and the files that are kept. It
// names flags, or fields of the plan. It returns "" for any other error.
func advice(err error) string {
	var e notCertified
	if !errors.As(err, &e) {
		return ""
	}
	var lines []string
	if help := e.help(); help != "" {
		if e.inPlan {
			help = stages.WithFields(help)
		}
		lines = append(lines, "what would help: "+help)
	}
	if e.inPlan {
		lines = append(
			lines,
			"to go on, change the plan and run it by --again NEW: the new directory NEW takes over the stages that still hold",
		)
	}
	if e.ledger != "" {
		lines = append(
			lines,
			"the protocol that was rejected stays in "+e.ledger+", and its failure probability counts",
		)
	}
	return strings.Join(lines, "\n")
}

// help returns the changes that would make the claim certifiable, by their flags; "" if the error
// itself says it.
func (e notCertified) help() string {
	var cut *accounting.TruncationError
	var few *calibration.TooFewError
	var rejected *accounting.NotVerifiedError
	var refused *accounting.RefusedError
	switch {
	case errors.As(e.error, &refused):
		return refused.Help
	case errors.As(e.error, &cut):
		return fmt.Sprintf("--max-batch-size %d", cut.Suggested)
	// From the special to the general: an error of an earlier case may match a later one too.
	case errors.As(e.error, &few) && few.Advised > 0 && few.Advised < maxAdvised && few.CPU > 0:
		return fmt.Sprintf(
			"--cpu-time %s or more (or --samples %.0f), %s%s",
			budgetTime(max(few.Advised*few.CPU, few.AdvisedCPU)),
			twoDigits(few.Advised),
			unamplified(few),
			e.otherwise(),
		)
	case errors.Is(e.error, accounting.ErrTooFewSamples):
		return unamplified(few) + e.otherwise() + ", or a strategy with no more bands than --min-sep"
	case errors.Is(e.error, calibration.ErrNotPrivate), errors.Is(e.error, calibration.ErrEstimatedAbove):
		return e.moreNoise("") + "a larger --epsilon or --delta"
	case errors.As(e.error, &rejected):
		return e.moreSamples(rejected)
	case errors.Is(e.error, accounting.ErrNotVerified):
		return e.moreNoise("") + "a larger --cpu-time where the mean is below delta, or a larger --epsilon or --delta"
	}
	return ""
}

// unamplified names the noise multiplier that needs no budget, where there is one.
func unamplified(few *calibration.TooFewError) string {
	if few == nil || !few.Unamplified {
		return ""
	}
	return fmt.Sprintf(
		"--noise-multiplier %g (proven without samples, since it needs no amplification), ",
		few.Proven,
	)
}

// otherwise lists the changes that make any claim easier to certify.
func (e notCertified) otherwise() string {
	list := "a larger --epsilon or --delta, a smaller batch"
	switch {
	case e.several && e.inPlan:
		list += ", a smaller bound.max_examples_per_owner"
	case e.several:
		list += ", a smaller --max-per-owner (that of minsep bound too, where there is a bounded table)"
	}
	return list
}

// moreNoise advises a larger noise multiplier if the user gave one; else it returns "".
func (e notCertified) moreNoise(than string) string {
	if !e.fixed {
		return ""
	}
	return "a larger --noise-multiplier" + than + ", or none, for the smallest that can be verified; "
}

// adviceErrors is the distance, in standard errors, between the observed mean and the acceptance
// threshold at the advised number of samples. A fresh verification with that many samples passes 99
// times in 100.
const adviceErrors = 2.5

// moreSamples advises after a verification with too large a mean: a budget at which the same noise
// multiplier would probably be accepted, or no budget if the mean leaves no room below δ.
func (e notCertified) moreSamples(rejected *accounting.NotVerifiedError) string {
	need, ok := calibration.Advised(rejected, adviceErrors)
	if !ok || need > maxAdvised {
		return fmt.Sprintf(
			"%s%s. More samples do not help: the mean leaves no room below delta",
			e.moreNoise(fmt.Sprintf(" than %.4g", rejected.NoiseMultiplier)),
			e.otherwise(),
		)
	}
	budget := fmt.Sprintf("--samples %.0f or more", twoDigits(need))
	if rejected.CPU > 0 {
		budget = fmt.Sprintf(
			"--cpu-time %s or more (or --samples %.0f)",
			budgetTime(need*rejected.CPU),
			twoDigits(need),
		)
	}
	return fmt.Sprintf(
		"%s with --noise-multiplier %.6g; %s%s",
		budget,
		rejected.NoiseMultiplier,
		e.moreNoise(""),
		e.otherwise(),
	)
}

// maxAdvised is the largest number of samples that is advised: weeks of CPU time.
const maxAdvised = 1e13

// twoDigits rounds x up to a whole number of two significant digits.
func twoDigits(x float64) float64 { return digits.Up(math.Ceil(x), 2) }

// budgetTime formats seconds as a duration that --cpu-time accepts, rounded up.
func budgetTime(seconds float64) string {
	// A tenth more than is needed: the machine may be busier than while the samples were timed.
	unit, name := time.Second, "s"
	switch {
	case seconds > 48*3600:
		unit, name = time.Hour, "h"
	case seconds > 100:
		unit, name = time.Minute, "m"
	}
	return fmt.Sprintf("%.0f%s", math.Max(1, math.Ceil(1.1*seconds/unit.Seconds())), name)
}
