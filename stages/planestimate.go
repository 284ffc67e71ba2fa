package stages

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"minsep/accounting"
	"minsep/accounting/verification"
	"minsep/manifest"
	"minsep/mechanism"
	"minsep/sampling"
)

// PlanEstimate is the expected output and cost of a stage. It follows from the plan and from
// the tables that are there, which are all public; nothing that came out by chance is in it.
type PlanEstimate struct {
	Rows   int64   `json:"rows,omitempty"`    // of the graph that is read: edges; of batches: participations; of noise: values
	Files  int     `json:"files,omitempty"`   // without the index
	Bytes  int64   `json:"bytes,omitempty"`   // of these files, at least 0
	Memory int64   `json:"memory_bytes"`      // bytes at the peak, of the whole process
	CPU    float64 `json:"cpu_seconds"`       // seconds of processors, about
	AtMost bool    `json:"at_most,omitempty"` // of an account whose CPU is its budget, as it cannot be told how much of it is needed

	Sampled bool `json:"sampled,omitempty"` // an account that draws samples: it may end without a certificate

	// Outlook is a forecast of the samples of an account before they are drawn; nil where
	// there is nothing to say.
	Outlook *verification.Outlook `json:"outlook,omitempty"`

	// SuggestedMaxBatchSize, of account, is the smallest maximum batch size that adds at most
	// accounting.SuggestedShare to delta at any noise multiplier; 0 where none is known.
	SuggestedMaxBatchSize int `json:"suggested_max_batch_size,omitempty"`
}

// Costs of stages: seconds of one processor and bytes of memory, on the direct runner. Where the
// constants come from, and how far off they were, is in docs/run.md, under "Estimates".
const (
	processMemory = 55 << 20 // of a process that does nothing

	compressedEdge = 4.1    // stored bytes of an edge, compressed or in Parquet
	plainEdge      = 14.0   // as text
	boundEdge      = 0.8e-6 // seconds per edge
	boundMemory    = 80     // bytes per edge, and
	boundBuffers   = 250 << 20

	formExample       = 0.05e-6 // seconds an example
	formRow           = 0.06e-6 // seconds a participation
	formParquetRow    = 0.2e-6
	formOwnedExample  = 1.3e-6 // of schemes that look at owners
	formRowMemory     = 8
	formParquetMemory = 30
	formOwnedMemory   = 1 << 10
	parquetRow        = 5.5 // bytes of a file

	sampleStep     = 15e-9 // seconds of a Monte Carlo sample, a step
	planning       = 8     // times the cost of the budget: for tables and kernels
	tables         = 5.0   // seconds, where the budget is a time: tables that may exceed it
	provenSeconds  = 3.0   // of privacy loss distributions
	provenMemory   = 330 << 20
	sampledMemory  = 80 << 10 // bytes a step
	severalPerUser = 2.7      // times, with several examples per owner

	noiseValue  = 2.1e-9  // seconds a value of independent noise, and
	noiseBand   = 0.04e-9 // of each band
	noiseByte   = 2e-9    // to hash and write a byte
	noiseFile   = 1.5e-3  // to sync a file
	noiseMemory = 3       // bytes a value of a file
	headerBytes = 128

	materializedRow    = 13e-6 // seconds a participation, of rows of 1 kB
	materializedMemory = 700 << 20
)

// Estimate is the expected output and cost of a stage. edges is about how many the graph has.
func (p Plan) Estimate(stage string, edges int64) (e PlanEstimate) {
	switch stage {
	case "bound":
		e = estimateBound(edges)
	case "strategy":
		strategy := p.Strategy
		strategy.Steps = p.Scheme.Steps
		e = PlanEstimate{Files: 1, CPU: strategy.Seconds()}
	case "account":
		e = p.estimateAccount()
	case "form":
		e = p.estimateForm()
	case "noise":
		e = p.estimateNoise()
	case "materialize":
		e = p.estimateMaterialize()
	}
	e.Memory += processMemory
	return e
}

func estimateBound(edges int64) PlanEstimate {
	return PlanEstimate{Rows: edges, Files: 1, CPU: 0.02 + boundEdge*float64(edges), Memory: boundMemory*edges + min(boundBuffers, 200*edges)}
}

// Edges is about how many edges files of a graph have.
func (g PlanGraph) Edges(stored int64) int64 {
	perEdge := plainEdge
	if slices.ContainsFunc(g.Paths, func(path string) bool {
		return slices.ContainsFunc([]string{".gz", ".zst", ".bz2", ".xz", ".lz4", ".parquet"}, func(end string) bool { return strings.HasSuffix(path, end) })
	}) {
		perEdge = compressedEdge
	}
	return int64(float64(stored) / perEdge)
}

func (p Plan) estimateAccount() PlanEstimate {
	e := PlanEstimate{Files: 1, CPU: 0.2, SuggestedMaxBatchSize: p.suggestedMaxBatchSize()}
	switch p.accountMethod() {
	case accounting.MonteCarlo, accounting.Unproven:
		seconds := planning * sampleStep * float64(p.Scheme.Steps) * float64(p.Privacy.Samples)
		if p.Bound != nil && p.Bound.MaxExamplesPerOwner > 1 {
			seconds *= severalPerUser
		}
		if p.Privacy.Samples == 0 {
			budget, _ := p.Privacy.cpuTime()
			seconds = tables + cmp.Or(budget, verification.DefaultCPUTime).Seconds()
		}
		e.CPU, e.Sampled, e.AtMost = e.CPU+seconds, true, p.Privacy.Samples == 0
		e.Memory = sampledMemory * int64(p.Scheme.Steps)
	case accounting.PLD:
		e.CPU += provenSeconds
		e.Memory = provenMemory
	}
	return e
}

// suggestedMaxBatchSize is for numbered examples: with a graph it is not known how many there will
// be.
func (p Plan) suggestedMaxBatchSize() int {
	spec, err := p.foreseen()
	if err != nil || p.numbered() == 0 {
		return 0
	}
	run := accounting.Run{Sampler: spec, Strategy: mechanism.Identity(p.Scheme.Steps), MaxExamplesPerOwner: 1, Examples: p.numbered()}
	size, err := run.SuggestMaxBatchSize(p.Privacy.Epsilon, p.Privacy.Delta, accounting.Moments{})
	if err != nil {
		return 0
	}
	return size
}

// accountMethod is how the scheme is accounted for, as far as that can be said before the examples
// are known: by samples where it cannot.
func (p Plan) accountMethod() accounting.Method {
	spec, err := p.foreseen()
	strategy := p.Strategy.StandIn()
	if strategy == nil { // of more than one band
		strategy = &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: p.Scheme.Steps, Toeplitz: []float64{1, 0.5}}
	}
	if err == nil {
		run := accounting.Run{Sampler: spec, Strategy: strategy, MaxExamplesPerOwner: 1, Examples: unknownExamples}
		if method, err := run.Method(); err == nil {
			return method
		}
	}
	return accounting.MonteCarlo
}

// expectedForm has the facts about the batches before they are formed: all of it where the examples
// are known, else those that the batch size implies.
func (p Plan) expectedForm() FormResult {
	if f, _, err := p.FormParams().Planned(context.Background()); err == nil {
		return f
	}
	shards := p.Batches.Shards
	if shards == 0 {
		shards = manifest.BatchShards(p.Scheme.BatchSize*float64(p.Scheme.Steps), p.Scheme.Steps)
	}
	f := FormResult{Examples: p.numbered(), ExpectedBatchSize: p.Scheme.BatchSize, Shards: min(shards, p.Scheme.Steps)}
	if p.Scheme.Sample == sampling.SampleOwners { // fewer where owners have fewer
		f.ExpectedExamples = f.ExpectedBatchSize * float64(p.Scheme.ExamplesPerOwner)
	}
	if p.Scheme.Pad {
		f.ExpectedExamples = float64(p.Scheme.MaxBatchSize) * float64(max(1, p.Scheme.ExamplesPerOwner))
	}
	return f
}

// RowsPerStep is how many rows are expected in a batch; with padding exactly so many.
func (f FormResult) RowsPerStep() float64 {
	return cmp.Or(float64(f.PaddedBatchSize()), f.ExpectedExamples, f.ExpectedBatchSize)
}

// PaddedBatchSize is how many rows each batch has where batches are padded; 0 where they are not.
func (f FormResult) PaddedBatchSize() int {
	t := f.Scheme.Truncation
	switch {
	case t == nil || !t.Pad:
		return 0
	case f.Scheme.Owners != nil:
		return t.MaxBatchSize * f.Scheme.Owners.ExamplesPerOwner
	}
	return t.MaxBatchSize
}

// rows is how many participations are expected, with padding how many rows there are.
func (f FormResult) rows() float64 {
	return f.RowsPerStep() * float64(f.Scheme.Scheme().NumSteps())
}

// Bytes is about how many bytes the batches take.
func (f FormResult) Bytes(parquet bool) int64 {
	bytes := 4 * f.rows()
	if parquet {
		bytes += parquetRow * f.rows()
	}
	return int64(min(bytes, 1<<62))
}

// CPU is about how many seconds of one processor it takes to form the batches of numbered examples.
func (f FormResult) CPU() float64 { return formExample*float64(f.Examples) + formRow*f.rows() }

func (p Plan) estimateForm() PlanEstimate {
	f := p.expectedForm()
	rows := f.RowsPerStep() * float64(p.Scheme.Steps)
	e := PlanEstimate{Rows: int64(rows), Files: 2 * f.Shards, CPU: 0.02 + formExample*float64(f.Examples) + formRow*rows, Memory: formRowMemory * int64(rows)}
	e.Bytes = 4*int64(rows) + 8*int64(p.Scheme.Steps+f.Shards) + int64(2*f.Shards)*headerBytes
	if p.Batches.Parquet {
		e.Files += f.Shards
		e.Bytes += int64(parquetRow * rows)
		e.CPU += formParquetRow * rows
		e.Memory = formParquetMemory * int64(rows)
	}
	if p.Scheme.Sample == sampling.SampleOwners {
		e.Files += f.Shards
		e.Bytes += int64(8*f.ExpectedBatchSize*float64(p.Scheme.Steps)) + int64(f.Shards)*headerBytes
	}
	if p.Scheme.Sample == sampling.SampleOwners || p.Scheme.Kind().Owners != sampling.OwnersIgnored {
		e.CPU += formOwnedExample * float64(f.Examples)
		e.Memory += formOwnedMemory * f.Examples
	}
	return e
}

// Product is the product of counts above 0, or 2^62 where it is larger: sizes that no disk has.
func Product(counts ...int64) int64 {
	const most = 1 << 62
	product := int64(1)
	for _, n := range counts {
		if n > 0 && product > most/n {
			return most
		}
		product *= n
	}
	return product
}

// estimateNoise knows the files' number and sizes: they follow from the plan. The recipe's size is
// left out.
func (p Plan) estimateNoise() PlanEstimate {
	n := p.NoiseParams(1)
	e := PlanEstimate{Files: 1, CPU: 0.02}
	if n.RecipeOnly {
		return e
	}
	facts := n.Layout()
	shards, perFile := facts.Shards, min(facts.StepsPerFile, n.Steps)
	files := shards * ((n.Steps + perFile - 1) / perFile)
	values := Product(int64(n.Steps), n.Coordinates)
	e.Rows, e.Files = values, files+1
	e.Bytes = Product(values, int64(DTypes[n.DType].Size())) + int64(files)*headerBytes
	e.CPU += float64(values)*(noiseValue+noiseBand*float64(p.Strategy.Bands)) + noiseByte*float64(e.Bytes) + noiseFile*float64(files)
	e.Memory = noiseMemory*int64(perFile)*(n.Coordinates/int64(shards)) + 8*int64(p.Strategy.Bands)*(n.Coordinates/int64(shards))
	return e
}

// estimateMaterialize does not look at the examples, so it does not know how large they are.
func (p Plan) estimateMaterialize() PlanEstimate {
	rows := p.expectedForm().RowsPerStep() * float64(p.Scheme.Steps)
	return PlanEstimate{Rows: int64(rows), Files: max(1, p.Materialize.Shards), CPU: 0.1 + materializedRow*rows, Memory: min(materializedMemory, int64(2000*rows))}
}
