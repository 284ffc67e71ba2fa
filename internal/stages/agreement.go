package stages

import (
	"context"
	"fmt"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/store"
	"minsep/sampling"
)

// Agreement compares a claim with the batches in a run directory and their examples or, without
// batches, with the bounded table. It has no check of what is not there. It reads batches of another
// run too.
func Agreement(ctx context.Context, out string, c *accounting.Certificate) (checks []sampling.Check, err error) {
	p := Present{out: out}
	if p.table, err = readTableFacts(ctx, store.Join(out, manifest.BoundedFolder)); err != nil {
		return nil, err
	}
	if p.batches, err = p.readBatches(ctx, store.Join(out, manifest.BatchesFolder)); err != nil {
		return nil, err
	}
	return p.agreement(c), nil
}

// agreement compares a claim with batches or table.
func (p Present) agreement(c *accounting.Certificate) []sampling.Check {
	switch {
	case p.batches != nil:
		checks := compared(c, &p.batches.sampler, p.batches.of)
		if failed(checks) != nil {
			return checks // which say more
		}
		_, want, err := manifest.Params(manifest.BatchesParams{Scheme: c.Run.Sampler})
		// A program that certifies without batches leaves out their parameters: its sampler has them too.
		same := err == nil && p.batches.params == want && (c.PlanSHA256 == "" || c.PlanSHA256 == want.String())
		return append(checks, oneCheck("plan", same, "batches and claim name the same parameters of the sampler"))
	case p.table != nil:
		return compared(c, nil, p.table.examples())
	}
	return nil
}

// oneCheck returns a check that holds or fails in one place.
func oneCheck(name string, held bool, rule string) sampling.Check {
	one := sampling.Check{Name: name, Rule: rule, Held: held}
	if !held {
		one.Broken = 1
	}
	return one
}

// compared compares a claim with a sampler, unless it is nil, and with examples.
func compared(c *accounting.Certificate, sampler *sampling.Spec, of Examples) (checks []sampling.Check) {
	check := func(name string, held bool, rule string) { checks = append(checks, oneCheck(name, held, rule)) }
	claimed := c.Run.Sampler
	if sampler != nil {
		for _, differs := range Differences(claimed, *sampler, "in the claim", "in the batches") {
			check("sampler", false, differs)
		}
	}
	if of.MostPerOwner == 0 {
		return checks
	}
	if n, what := of.sampled(claimed); claimed.Truncation != nil {
		check(what, c.Run.Examples == n, fmt.Sprintf("the claim is for %d %s, there are %d", c.Run.Examples, what, n))
	}
	switch {
	case claimed.Owners != nil:
		check("owned once", of.ownedOnce(), ownedOnceRule)
	case of.Numbered && claimed.Kind().Owners == sampling.OwnersIfKnown:
		rule := fmt.Sprintf("the claim is for %s, and batches of numbered examples know no owners", c.Protected())
		check("owners", c.Run.MaxExamplesPerOwner == 1, rule)
	case !of.Numbered:
		single := c.Unit == accounting.UnitExample
		rule := fmt.Sprintf("the claim is for %s, the bounded table has one with %d", c.Protected(), of.MostPerOwner)
		check("examples per owner", single || of.MostPerOwner <= c.Run.MaxExamplesPerOwner, rule)
		if single {
			check("copies of examples", !of.Copied, "a claim for single examples is for a table without copies of examples")
		}
	}
	if rotation := claimed.Rotation != nil; rotation || of.Pools {
		check("pools", rotation && of.Pools, "the claim is for rotation, and the bounded table has pools")
	}
	return checks
}

// ownedOnceRule is the rule for the examples of owners who take part as one example does.
const ownedOnceRule = "the claim is for owners of a graph in which every example has one owner, and is there once"

// ownedOnce reports whether the examples keep ownedOnceRule.
func (e Examples) ownedOnce() bool { return !e.Numbered && !e.Shared && !e.Copied }

// failed returns the rules of the checks that failed.
func failed(checks []sampling.Check) (rules []string) {
	for _, c := range checks {
		if !c.Held {
			rules = append(rules, c.Rule)
		}
	}
	return rules
}
