package inspect

import (
	"context"
	"fmt"
	"math"

	"minsep/internal/manifest"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/internal/words"
	"minsep/sampling"
)

func init() { inspectors["form"] = inspectBatches }

// inspectBatches re-reads every batch and compares it with the scheme, the table and the index's
// facts.
func inspectBatches(ctx context.Context, dir string, _ *manifest.Index, found *Inspection) error {
	batches, err := manifest.OpenBatches(ctx, dir)
	if err != nil {
		return err
	}
	var params manifest.BatchesParams
	if err := strictjson.Loose(batches.Index.Params, &params); err != nil {
		return fmt.Errorf("%s: params: %w", dir, err)
	}
	if err := params.Scheme.Validate(); err != nil {
		return err
	}
	found.all.Batches, found.all.Scheme = &batches.Facts, &params.Scheme
	ofOwners := params.Scheme.Owners != nil
	if batches.OfOwners() != ofOwners {
		return fmt.Errorf(
			"%s: the format of the index, %s, does not belong to its scheme",
			dir,
			batches.Index.Format,
		)
	}
	of := sampling.Audited{
		Examples:      batches.Facts.Examples,
		Neighborhoods: sampling.Neighborhoods{1: batches.Facts.Examples},
	}
	public := sampling.Population{Examples: of.Examples, Neighborhoods: of.Neighborhoods}
	if batches.Facts.RowsOf == manifest.RowsOfBounded {
		at := store.Join(store.Dir(dir), manifest.BoundedFolder)
		if is, err := isInput(ctx, found, batches, at); !is || err != nil {
			return err
		}
		table, err := manifest.OpenBounded(ctx, at)
		if err != nil {
			return err
		}
		if of, err = auditedTable(ctx, table, params.Scheme.LooksAtOwners()); err != nil {
			return err
		}
		public = stages.PopulationOf(table.Summary)
	}
	if ofPools := params.Scheme.Rotation != nil; ofPools != (of.Pools != nil) {
		found.check("pools", "rotation has a table of pools beside it, and other schemes have none", false)
		return nil
	}
	if ofOwners {
		alone := ownedOnce(of)
		found.check("owned once", "every example of the bounded table has one owner, and is there once", alone)
		if !alone {
			return nil
		}
		found.Notes = append(
			found.Notes,
			fmt.Sprintf(
				"owners take part, each with up to %s: average the gradients of an owner's examples, clip the mean once for each owner, and divide the sum by "+
					"the expected number of owners, %.9g",
				words.Count(params.Scheme.Owners.ExamplesPerOwner, "example"),
				params.Scheme.ExpectedBatchSize(public),
			),
		)
	}
	found.check(
		"facts",
		"steps, examples, batch sizes and table of the index agree with its parameters and inputs",
		factsAgree(batches, params.Scheme, of.Examples, public),
	)
	audit := sampling.NewAudit(params.Scheme, of)
	err = batches.Each(ctx, func(_ int, rows []int64, ends []int) error {
		if ofOwners {
			audit.StepOwners(rows, ends)
		} else {
			audit.Step(rows)
		}
		return nil
	})
	if err != nil {
		return err
	}
	found.Checks = append(found.Checks, audit.Checks()...)
	realized := audit.Realized()
	found.Realized = &realized
	return nil
}

// isInput says whether batches were formed from the table beside them.
func isInput(
	ctx context.Context,
	found *Inspection,
	batches *manifest.Batches,
	table string,
) (is bool, err error) {
	digest, err := manifest.DigestOf(ctx, table)
	if err != nil {
		return false, fmt.Errorf("the batches' rows refer to a bounded table, which must lie beside them: %w", err)
	}
	if formedOf := batches.Index.Inputs[manifest.BoundedFolder]; digest != formedOf {
		found.check(
			"input",
			fmt.Sprintf(
				"the batches were formed from another bounded table (%v) than the one beside them (%v)",
				formedOf,
				digest,
			),
			false,
		)
		return false, nil
	}
	found.check("input", "the batches were formed from the bounded table beside them", true)
	return true, nil
}

// ownedOnce reports whether every example has exactly one owner and one copy.
func ownedOnce(of sampling.Audited) bool {
	if of.Owners == nil || of.Copies != nil {
		return false
	}
	for i, end := range of.Owners.Ends {
		if end != i+1 {
			return false
		}
	}
	return true
}

// factsAgree compares the index's facts with the scheme, with the number of rows of the table and
// with public, the part of the table that may be published.
func factsAgree(b *manifest.Batches, scheme sampling.Spec, rows int64, public sampling.Population) bool {
	got, rowsOf := b.Facts, manifest.RowsOfRange
	if _, ofTable := b.Index.Inputs[manifest.BoundedFolder]; ofTable {
		rowsOf = manifest.RowsOfBounded
	}
	want := stages.BatchesFacts(scheme, public, rows, got.Shards, rowsOf)
	// Processors may round the last bits differently.
	for _, size := range [][2]*float64{
		{&got.ExpectedBatchSize, &want.ExpectedBatchSize},
		{&got.ExpectedExamples, &want.ExpectedExamples},
	} {
		if math.Abs(*size[0]-*size[1]) <= 1e-12**size[1] {
			*size[0] = *size[1]
		}
	}
	return got == want
}
