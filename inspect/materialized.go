package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling"
)

func init() { inspectors["materialize"] = inspectMaterialized }

// inspectMaterialized compares the materialized entries of every step with the batches beside them.
// The data that were joined to the entries are not in the run directory and are not checked.
func inspectMaterialized(ctx context.Context, dir string) (Inspection, error) {
	var found Inspection
	m, err := manifest.OpenMaterialized(ctx, dir)
	if err != nil {
		return found, err
	}
	found.Checks = []sampling.Check{filesCheck(ctx, m.Index, dir)}
	unlistedCheck(ctx, &found, m.Index, dir)
	found.Checks = append(found.Checks, runCheck(ctx, m.Index, store.Dir(dir)), secretCheck(m.Index))
	beside := store.Join(store.Dir(dir), manifest.BatchesFolder)
	digest, err := manifest.DigestOf(ctx, beside)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	same := err == nil && digest == m.Index.Inputs[manifest.BatchesFolder]
	rule := "the examples were joined with the batches beside them"
	if !same {
		rule = "the examples were joined with other batches than those beside them: run minsep materialize --overwrite"
	}
	found.check("input", rule, same)
	if !same {
		return found, nil
	}
	batches, err := manifest.OpenBatches(ctx, beside)
	if err != nil {
		return found, err
	}
	facts := m.Facts.Steps == batches.Facts.Steps && m.Facts.Owners == batches.OfOwners()
	found.check("facts", "steps and owners of the index are as in the batches", facts)
	if !facts {
		return found, nil
	}
	p := sampling.Check{Name: "entries", Rule: "every step has the entries of its batch, each once, in slots from 0 on"}
	if m.Facts.Owners {
		p.Rule += ", with each owner's together"
	}
	if m.Params.Pad > 0 {
		p.Rule += fmt.Sprintf(", filled up to a multiple of %d", m.Params.Pad)
	}
	if p.Broken, err = brokenSteps(ctx, m, batches); err != nil {
		return found, err
	}
	p.Held = p.Broken == 0
	found.Checks = append(found.Checks, p)
	return found, nil
}

// brokenSteps counts the steps with entries that differ from their batches.
func brokenSteps(ctx context.Context, m *manifest.Materialized, batches *manifest.Batches) (broken int64, err error) {
	r := m.Entries(ctx)
	defer func() { err = errors.Join(err, r.Close()) }()
	for shard := range batches.Facts.Shards {
		if err := batches.EachOf(ctx, shard, func(step int, rows []int64, ends []int) error {
			entries, err := r.Step(step, len(rows)+max(1, m.Params.Pad))
			if err == nil && !isStep(entries, rows, ends, m.Params.Pad) {
				broken++
			}
			return err
		}); err != nil {
			return broken, err
		}
	}
	return broken, nil
}

// isStep reports whether entries are those of one batch, in any order of its rows or owners. With
// ends, rows[ends[i-1]:ends[i]] belong to owner i. pad is the number of which the entries must be a
// multiple; 0 for no padding.
func isStep(entries []manifest.Entry, rows []int64, ends []int, pad int) bool {
	have, padding := groupsOf(entries, ends != nil)
	want := wantedGroups(rows, ends)
	n := len(entries) - padding
	total := n
	if pad > 0 {
		total = pad * max(1, (n+pad-1)/pad)
	}
	if len(entries) != total {
		return false
	}
	for i, e := range entries {
		if e.Slot != i || (e.Row == sampling.PadRow) != (i >= n) {
			return false
		}
	}
	slices.SortFunc(have, func(a, b []int64) int { return cmp.Compare(a[0], b[0]) })
	return slices.EqualFunc(have, want, slices.Equal)
}

// groupsOf returns the rows of each owner in the order of the entries, or single rows where owners
// is false, and the number of padding entries.
func groupsOf(entries []manifest.Entry, owners bool) (groups [][]int64, padding int) {
	for _, e := range entries {
		switch {
		case e.Row == sampling.PadRow:
			padding++
		case owners && len(groups) > 0 && e.Owner == int64(len(groups)-1):
			groups[len(groups)-1] = append(groups[len(groups)-1], e.Row)
		case owners && e.Owner != int64(len(groups)):
			groups = append(groups, []int64{sampling.PadRow}) // matches no batch
		default:
			groups = append(groups, []int64{e.Row})
		}
	}
	return groups, padding
}

// wantedGroups returns the groups of rows of a batch without its padding, in the order of their
// first rows.
func wantedGroups(rows []int64, ends []int) (groups [][]int64) {
	start := 0
	for number := 0; start < len(rows); number++ {
		end := start + 1
		if ends != nil {
			end = ends[number]
		}
		var group []int64
		for _, row := range rows[start:end] {
			if row != sampling.PadRow {
				group = append(group, row)
			}
		}
		if group != nil {
			groups = append(groups, group)
		}
		start = end
	}
	return groups
}
