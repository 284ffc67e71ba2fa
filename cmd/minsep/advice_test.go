package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/pipelines"
)

// TestAdvice: what would help names what was given and what there is, and nothing else.
func TestAdvice(t *testing.T) {
	few := &calibration.TooFewError{Forecast: calibration.Forecast{Need: 1e4, CPU: 1e-3, Advised: 3e5, AdvisedCPU: 400}}
	one, several := pipelines.AccountResult{Run: accounting.Run{MaxExamplesPerOwner: 1}}, pipelines.AccountResult{Run: accounting.Run{MaxExamplesPerOwner: 3}}
	kept := one
	kept.Ledger = "x/ledger"
	for _, c := range []struct {
		name   string
		err    error
		result pipelines.AccountResult
		sigma  float64
		inPlan bool
		want   []string
		never  []string
	}{
		{"a plan", fmt.Errorf("x: %w", few), several, 0, true, []string{"privacy.cpu_time 8m or more (or privacy.samples 300000)", "a smaller bound.max_examples_per_owner", "to go on, change the plan"},
			[]string{"--cpu-time", "--samples", "--epsilon", "noise_multiplier", "ledger"}},
		{"no budget is enough", accounting.ErrTooFewSamples, one, 0, true, []string{"scheme.min_sep"}, []string{"--", "noise_multiplier"}},
		{"rejected", accounting.ErrNotVerified, kept, 0, true, []string{"privacy.epsilon", "stays in x/ledger"}, []string{"noise_multiplier"}},
		{"refused", &accounting.RefusedError{Scheme: "s", Reason: "r"}, one, 0, true, []string{"to go on, change the plan"}, []string{"what would help"}},
		{"something else", errors.New("x"), one, 0, false, nil, []string{"--"}},
	} {
		got := advice(newNotCertified(c.err, c.result, c.sigma, c.inPlan))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in %q", c.name, want, got)
			}
		}
		for _, never := range c.never {
			if strings.Contains(strings.ReplaceAll(got, "--again NEW", ""), never) {
				t.Errorf("%s: %q is in %q", c.name, never, got)
			}
		}
	}
	if got := advice(errors.New("x")); got != "" {
		t.Errorf("advice %q without a claim", got)
	}
}

// TestOnePrefix: a message of several lines begins with the program's name once.
func TestOnePrefix(t *testing.T) {
	var out bytes.Buffer
	(&operation{stderr: &out}).say("one\ntwo\nthree")
	if want := "minsep: one\n  two\n  three\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
