package inspect

import (
	"context"
	"slices"
	"strings"

	"minsep/internal/store"
	"minsep/manifest"
)

// replaced reports whether the bounded table of a run directory is not the one that run.json names.
// This is so after bound ran again, with another graph or bound, when other results had been made
// from the first table.
func replaced(ctx context.Context, run string) bool {
	r, err := manifest.ReadRun(ctx, run)
	if err != nil || r.Examples == "" {
		return false
	}
	digest, err := manifest.DigestOf(ctx, store.Join(run, manifest.BoundedFolder))
	return err == nil && r.Examples != manifest.BoundedExamples(digest)
}

// outdated records a failed check, caused by a replaced bounded table.
func (i *Inspection) outdated(name, rule string) { i.unlessOutdated(name, rule, false) }

// unlessOutdated records a check that can fail only because the bounded table was replaced.
func (i *Inspection) unlessOutdated(name, rule string, held bool) {
	i.check(name, rule, held)
	if !held {
		i.old = append(i.old, name)
	}
}

// outdated returns a sentence naming the results that belong to another bounded table, and the
// commands that make them again, or "" if there are none.
func outdated(found []Inspection) string {
	var kinds []string
	for _, i := range found {
		if i.old != nil {
			kinds = append(kinds, i.kind)
		}
	}
	if kinds == nil {
		return ""
	}
	has := func(kind string) bool { return slices.Contains(kinds, kind) }
	results := strings.Join(slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return kind == manifest.RunName }), " and ")
	claim, _ := certificateOf(found)
	again := ""
	switch {
	case isThere(found, manifest.NoiseFolder):
		again = "noise serves one training run, so give bound another --out for another table"
	case has(manifest.BatchesFolder) && has(claim):
		again = "remove " + claim + " (its ledger stays, and counts) and run minsep form --overwrite, then minsep account"
	case has(manifest.BatchesFolder):
		again = "run minsep form --overwrite"
	case has(claim):
		again = "run minsep account --overwrite"
	default:
		results, again = "run.json", "run minsep form"
	}
	return "bounded holds another table than the one behind " + results + ": " + again + ", or bound the earlier graph again with --overwrite"
}
