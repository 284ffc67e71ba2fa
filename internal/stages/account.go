package stages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/leave"
	"minsep/internal/manifest"
	"minsep/internal/montecarlo"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/mechanism"
	"minsep/sampling"
)

// Account finds and verifies the noise multiplier that a training run needs. It takes parameters,
// and leaves run/certificate.json and run/ledger. Everything that it reads and writes is public; it
// needs no key.
//
// The combination of scheme, bands, owners and truncation decides how: in closed form, by privacy
// loss distributions, or by the samples of a protocol that is in the ledger before the first of
// them. The first two take no samples. A combination without an analysis is an
// accounting.RefusedError. A run that was stopped goes on with the protocol of its ledger. A
// protocol of another request that gave no certificate is put aside, and its failure probability is
// taken off δ.
type Account struct {
	sampling.Params
	PlanPrivacy
	Bounded     string `flag:"bounded" help:"run directory with a bounded graph, made by minsep bound; it gives the number of examples, and the most of one owner"` // or folder of a bounded table; or
	Examples    int64  `flag:"examples" help:"number of examples, in place of a bounded graph"`                                                                     // copies counted; needed for a batch size and with a max batch size
	Strategy    string `flag:"strategy" help:"strategy file, made by minsep strategy"`                                                                              // or
	Bands       int    `flag:"bands" help:"number of bands of the optimal Toeplitz strategy for prefix sums, in place of a strategy file"`                          // 1 to the steps
	MaxPerOwner int    `flag:"max-per-owner" help:"most examples of one owner (default: as in the bounded graph, or 1)"`                                            // k_u; 0 for the bounded table's own, or 1
}

// PlanPrivacy is the claim to certify, with the budget of its verification.
type PlanPrivacy struct {
	Epsilon         float64   `json:"epsilon"                    strict:"required" flag:"epsilon" help:"epsilon of the claim"`                                                                                     // 0 to 10,000
	Delta           float64   `json:"delta"                      strict:"required" flag:"delta" help:"delta of the claim"`                                                                                         // 1e-300 to 0.99
	NoiseMultiplier float64   `json:"noise_multiplier,omitempty" flag:"noise-multiplier" help:"verify this noise multiplier only"`                                                                                 // above 0; 0 for the smallest that can be verified
	Samples         uint64    `json:"samples,omitempty"          flag:"samples" help:"number of samples for estimates and verification, in place of a time; tables and proofs without samples come on top"`        // or
	CPUTime         CPUTime   `json:"cpu_time,omitempty"         flag:"cpu-time" help:"CPU time for estimates and verification, such as 10m (default 1m, or less where more saves little noise)"`                  // above 0; with neither, calibration.DefaultCPUTime
	AlsoEpsilon     []float64 `json:"also_epsilon,omitempty"     flag:"also-epsilon" help:"further values of epsilon, such as 1,2,8: delta is certified at them too; their samples come on top of the budget"`     // see calibration.Problem
	Unit            string    `json:"unit,omitempty"             flag:"unit" help:"whom the claim protects: owner, or example, which must be asked for by name and leaves owners of several examples unprotected"` // see accounting.ParseUnit; "" for owners
}

// CPUTime is a time of one processor, as text such as "10m".
type CPUTime time.Duration

func (t CPUTime) String() string { return time.Duration(t).String() }

// Set reads the time, as a flag does.
func (t *CPUTime) Set(text string) error {
	d, err := time.ParseDuration(text)
	*t = CPUTime(d)
	return err
}

// Type names the type of a flag.
func (CPUTime) Type() string { return "duration" }

// Describe names the type for whoever gives another value in a plan.
func (CPUTime) Describe() string { return `a time above 0, such as "10m"` }

func (t CPUTime) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a time above 0.
func (t *CPUTime) UnmarshalText(text []byte) error {
	err := t.Set(string(text))
	if err == nil && *t <= 0 {
		err = errors.New("must be " + t.Describe())
	}
	return err
}

// Validate reports every fault that can be seen without the files.
func (a Account) Validate() error {
	c := param.Checker{}
	c.Add(a.Params.Validate())
	c.Require(a.Bounded == "" || a.Examples == 0, "bounded and examples", nil, "only one of them may be given")
	c.Require(a.Examples >= 0, "examples", a.Examples, "must be at least 1")
	c.Add(feasible(a.Params, a.Examples))
	kind := a.Kind()
	known := a.Bounded != "" || a.Examples > 0
	const needsNumber = "needs --examples, their number, or --bounded, a run directory with a bounded table"
	c.Require(known || a.BatchSize == 0 || kind.ExactBatchSize, "batch size", a.BatchSize, needsNumber)
	c.Require(known || a.MaxBatchSize == 0, "max batch size", a.MaxBatchSize, needsNumber)
	c.Require(
		a.Bounded != "" || kind.Owners != sampling.OwnersNeeded || a.BatchSize == 0,
		"batch size",
		a.BatchSize,
		"needs a bounded table for "+kind.Name,
	)
	if a.Sample == sampling.SampleOwners {
		c.Require(
			a.Examples == 0,
			"examples",
			a.Examples,
			"must be left out with sample owners: a bounded table says how many owners there are",
		)
		c.Require(
			a.MaxPerOwner == 0,
			"max per owner",
			a.MaxPerOwner,
			"must be left out with sample owners: an owner takes part as one example does, however many it has",
		)
	}
	c.Require(
		(a.Strategy == "") != (a.Bands == 0),
		"strategy and bands",
		nil,
		"exactly one of them must be given: a file that minsep strategy wrote, or a number; --bands 1 is independent noise, as of DP-SGD",
	)
	c.Require(a.Bands >= 0, "bands", a.Bands, "must be at least 1")
	c.Require(a.MaxPerOwner >= 0, "max per owner", a.MaxPerOwner, "must be at least 1")
	unit, err := accounting.ParseUnit(a.Unit)
	c.Add(err)
	c.Require(
		unit != accounting.UnitExample || a.Sample != sampling.SampleOwners,
		"unit",
		a.Unit,
		"must be owner with sample owners: the trainer clips one mean for each owner, and no single example",
	)
	c.Require(
		unit != accounting.UnitExample || a.MaxPerOwner <= 1,
		"max per owner",
		a.MaxPerOwner,
		"must be left out with unit example, which protects no owner of several examples",
	)
	c.Add(a.problem(accounting.Run{}).ValidateClaim())
	return c.Err()
}

// Problem reads the inputs, and returns the problem, the request and the examples that the
// claim is for. here are the contents of the run directory.
func (a Account) Problem(
	ctx context.Context,
	here Present,
) (p calibration.Problem, r Request, of Examples, err error) {
	source, err := Form{Bounded: a.Bounded, Examples: a.Examples}.Source(ctx)
	if err != nil {
		return p, r, of, err
	}
	if of, err = a.examples(source, here); err != nil {
		return p, r, of, err
	}
	if err := source.fits(a.Params, a.Unit); err != nil {
		return p, r, of, err
	}
	spec, err := a.Spec(source.Population())
	if err != nil {
		return p, r, of, err
	}
	unit, most, err := a.protects(of)
	if err != nil {
		return p, r, of, err
	}
	if spec.Kind().Owners == sampling.OwnersIfKnown && source.Table == nil && most > 1 {
		return p, r, of, &accounting.RefusedError{
			Scheme: a.Scheme,
			Reason: "batches of numbered examples know no owners: give the bounded table for several examples per owner",
		}
	}
	run := accounting.Run{Sampler: spec, MaxExamplesPerOwner: most, Examples: source.Population().Examples}
	if spec.Owners != nil {
		run.Examples = source.Population().Owners.Total()
	}
	run.Strategy, err = a.strategy(ctx, spec)
	if err != nil {
		return p, r, of, err
	}
	_, plan, err := manifest.Params(manifest.BatchesParams{Scheme: spec})
	if err != nil {
		return p, r, of, err
	}
	if err := run.Validate(); err != nil {
		return p, r, of, err
	}
	if err := a.checkMost(run); err != nil {
		return p, r, of, err
	}
	p = a.problem(run)
	p.Unit, p.CodeVersion, p.PlanSHA256 = unit, manifest.Version, plan.String()
	r, err = a.request(p)
	return p, r, of, err
}

// problem returns the claim about a run, with its budget.
func (a Account) problem(run accounting.Run) calibration.Problem {
	return calibration.Problem{
		Run:             run,
		Epsilon:         a.Epsilon,
		Delta:           a.Delta,
		NoiseMultiplier: a.NoiseMultiplier,
		Samples:         a.Samples,
		CPUTime:         time.Duration(a.CPUTime),
		AlsoEpsilon:     a.AlsoEpsilon,
	}
}

// examples returns the facts about the examples on which the claim depends. They come from the
// table that is named or, if none is, from the table in the run directory.
func (a Account) examples(source Source, here Present) (Examples, error) {
	table := here.table
	if source.Table != nil || table == nil {
		return source.Examples(), nil
	}
	if a.Examples > 0 && a.Examples != table.summary.KeptCopies {
		return Examples{}, param.Fault(
			"examples",
			a.Examples,
			"must be %d, as the bounded table in %s has; give --bounded %s, or another --out",
			table.summary.KeptCopies,
			here.out,
			here.out,
		)
	}
	return table.examples(), nil
}

// protects returns whom the claim protects: the unit, and k_u. The user gives k_u, or it is the
// largest number of copies of examples of an owner. If owners have several examples, protection of
// single examples only must be asked for by name.
func (a Account) protects(of Examples) (accounting.Unit, int, error) {
	unit, err := accounting.ParseUnit(a.Unit)
	switch {
	case err != nil:
		return unit, 0, err
	case a.Sample == sampling.SampleOwners:
		if !of.ownedOnce() && of.Identity != "" {
			return unit, 0, &ParamError{Param: "sample", Value: a.Sample, Rule: ownedOnceRule + ": give another --out"}
		}
		return unit, 1, nil
	case unit == accounting.UnitExample && (of.Numbered || of.MostPerOwner > 1):
		return unit, 1, nil
	case a.MaxPerOwner > 0 && a.MaxPerOwner < of.MostPerOwner:
		return unit, 0, param.Fault(
			"max per owner",
			a.MaxPerOwner,
			"must be at least %d: an owner in the bounded table has so many examples; give --unit example for a claim that protects no owner",
			of.MostPerOwner,
		)
	case a.MaxPerOwner == 0 && a.Bounded == "" && of.MostPerOwner > 1:
		return unit, 0, param.Fault(
			"bounded",
			`""`,
			"must name the run directory, whose bounded table has owners with up to %d examples, or the claim would protect none of them; give --unit example for such a claim",
			of.MostPerOwner,
		)
	}
	return accounting.UnitOwner, max(of.MostPerOwner, a.MaxPerOwner), nil
}

// checkMost refuses a k_u that is too large for accounting by samples, and says where it comes
// from.
func (a Account) checkMost(run accounting.Run) error {
	method, err := run.Method()
	if err != nil || run.MaxExamplesPerOwner <= montecarlo.MaxPerOwner ||
		method != accounting.MonteCarlo && method != accounting.Unproven {
		return err
	}
	e := param.Fault(
		"max per owner",
		a.MaxPerOwner,
		"must be at most %d for %s, which is accounted for by samples",
		montecarlo.MaxPerOwner,
		run.Sampler.Kind().Name,
	)
	if a.MaxPerOwner < run.MaxExamplesPerOwner {
		e.Param, e.Value = "bounded", a.Bounded
		e.Rule = fmt.Sprintf(
			"has an owner with %d examples; accounting for %s by samples takes at most %d: bound the graph with --max-per-owner %d or less",
			run.MaxExamplesPerOwner,
			run.Sampler.Kind().Name,
			montecarlo.MaxPerOwner,
			montecarlo.MaxPerOwner,
		)
	}
	return e
}

// takingPart returns the number of copies of examples that take part at a time: all of the table,
// or all of one pool.
func takingPart(s ownergraph.Summary) int64 {
	if s.Coverage != nil {
		return s.Coverage.Size
	}
	return s.KeptCopies
}

// MostPerOwner returns the largest number of copies of examples of one owner, at least 1. In a
// table with pools it counts within one pool.
func MostPerOwner(s ownergraph.Summary) int {
	most := int64(1)
	if s.Coverage != nil {
		return 1
	}
	for _, bin := range s.KeptPerOwner {
		most = max(most, bin.Value)
	}
	return int(most)
}

// Copied reports whether a bounded table has an example more than once. Each copy takes part by
// itself, so that such an example counts as several.
func Copied(s ownergraph.Summary) bool { return s.KeptCopies > s.Kept }

// strategy reads the strategy of the file, or makes the one with the given bands.
func (a Account) strategy(ctx context.Context, spec sampling.Spec) (*mechanism.Strategy, error) {
	if a.Strategy == "" {
		problem := mechanism.Problem{Workload: mechanism.Prefix(spec.Scheme().NumSteps())}
		// One evaluation of a million bands takes minutes, and does not look at the context.
		return leave.Behind(ctx, func() (*mechanism.Strategy, error) {
			return problem.Make(ctx, mechanism.KindBandedToeplitz, a.Bands)
		})
	}
	s, err := NamedStrategy(ctx, a.Strategy)
	if steps := spec.Scheme().NumSteps(); err == nil && s.Steps != steps {
		return nil, param.Fault(
			"strategy",
			a.Strategy,
			"must have as many steps as the sampler, %d, and has %d: make it with `minsep strategy --steps %d`, or give --steps %d",
			steps,
			s.Steps,
			steps,
			s.Steps,
		)
	}
	return s, err
}
