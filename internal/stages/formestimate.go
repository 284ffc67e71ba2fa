package stages

import (
	"cmp"
	"context"

	"minsep/internal/manifest"
	"minsep/sampling"
)

// Seconds of one processor for forming batches of numbered examples.
const (
	formExample = 0.05e-6 // an example
	formRow     = 0.06e-6 // a participation
)

// expectedForm returns the facts about the batches before they are formed: all of them if the
// examples are known, else those that follow from the batch size.
func expectedForm(p Plan) FormResult {
	if f, _, err := FormOf(p).Planned(context.Background()); err == nil {
		return f
	}
	shards := p.Batches.Shards
	if shards == 0 {
		shards = manifest.BatchShards(p.Scheme.BatchSize*float64(p.Scheme.Steps), p.Scheme.Steps)
	}
	var f FormResult
	f.Examples, f.ExpectedBatchSize, f.Shards = p.numbered(), p.Scheme.BatchSize, min(shards, p.Scheme.Steps)
	if p.Scheme.Sample == sampling.SampleOwners { // fewer where owners have fewer
		f.ExpectedExamples = f.ExpectedBatchSize * float64(p.Scheme.ExamplesPerOwner)
	}
	if p.Scheme.Pad {
		f.ExpectedExamples = float64(p.Scheme.MaxBatchSize) * float64(max(1, p.Scheme.ExamplesPerOwner))
	}
	return f
}

// RowsPerStep returns the expected number of rows of a batch, which with padding is the exact
// number.
func (f FormResult) RowsPerStep() float64 {
	return cmp.Or(float64(f.BatchSize), f.ExpectedExamples, f.ExpectedBatchSize)
}

// rows returns the expected number of participations, or with padding the number of rows.
func (f FormResult) rows() float64 {
	return f.RowsPerStep() * float64(f.Scheme.Scheme().NumSteps())
}

// Bytes estimates the size of the batches.
func (f FormResult) Bytes() int64 { return int64(min(4*f.rows(), 1<<62)) }

// CPU estimates the seconds of one processor for forming the batches of numbered examples.
func (f FormResult) CPU() float64 { return formExample*float64(f.Examples) + formRow*f.rows() }

// estimateForm estimates from the expected number of rows. It tells nothing of the real sizes,
// which are secret.
func estimateForm(p Plan) PlanEstimate {
	f := expectedForm(p)
	rows := f.RowsPerStep() * float64(p.Scheme.Steps)
	e := PlanEstimate{Rows: int64(rows), Files: 2 * f.Shards}
	e.Bytes = 4*int64(rows) + 8*int64(p.Scheme.Steps+f.Shards) + int64(2*f.Shards)*headerBytes
	if p.Scheme.Sample == sampling.SampleOwners {
		e.Files += f.Shards
		e.Bytes += int64(8*f.ExpectedBatchSize*float64(p.Scheme.Steps)) + int64(f.Shards)*headerBytes
	}
	return e
}
