package pipelines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/verification"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/transforms/progress"
)

// Account finds and verifies the noise multiplier that a training needs: parameters in, run/certificate.json and run/ledger
// out. Everything it reads and writes is public; it needs no key.
//
// The combination of scheme, bands, owners and truncation decides how: in closed form, by privacy loss distributions, or by the
// samples of a protocol that is in the ledger before the first of them. The first two take no samples. A combination without an analysis
// is an accounting.RefusedError. A run that was stopped goes on with the protocol of its ledger. A protocol of another request that
// gave no certificate is put aside; if it is for the same sampler and strategy, its failure probability is taken off δ.
type Account struct {
	sampling.Params
	Bounded  string // run directory or folder of a bounded table, for the number of examples and k_u; or
	Examples int64  // this many examples; needed for a batch size and with a max batch size

	Strategy string // file of a strategy; or
	Bands    int    // of the optimal Toeplitz strategy for prefix sums

	MaxPerOwner int    // k_u; 0 for the bounded table's own, or 1
	Unit        string // whom the claim protects, see accounting.ParseUnit; "" for owners

	Epsilon         float64
	Delta           float64
	NoiseMultiplier float64       // verify this one only; 0 for the smallest that can be verified
	Samples         uint64        // budget of the verification; or
	CPUTime         time.Duration // of one processor; with neither, verification.DefaultCPUTime
	Curve           bool          // estimate δ at other ε as well

	// From is a run directory whose certificate is for the same unit, k_u, sampler, strategy, ε, δ and, with a max batch size,
	// number of examples: it is checked and taken over with its ledger, and no sample is drawn. "" for a verification of its own.
	From string
}

// Accounted is what an account came to.
type Accounted struct {
	RunID  string            `json:"run_id,omitempty"`
	Out    string            `json:"out"`
	Method accounting.Method `json:"method"`
	// Exactness says what a sampled loss is worth: exact, or a bound that makes δ too large, or not proven. Empty without samples.
	Exactness montecarlo.Exactness `json:"exactness,omitempty"`
	Run       accounting.Run       `json:"run"`
	Epsilon   float64              `json:"epsilon"`
	Delta     float64              `json:"delta"`

	// Certificate is what was verified; nil when nothing was, and in a dry run.
	Certificate *accounting.Certificate `json:"certificate,omitempty"`

	From string `json:"from,omitempty"` // the run directory from which the certificate was taken over

	// Earlier are protocols of this directory for the same sampler and strategy, whose failure probabilities are taken off δ.
	Earlier []accounting.Earlier `json:"earlier,omitempty"`

	// What follows are estimates, and certify nothing.

	Estimate float64             `json:"estimated_noise_multiplier,omitempty"` // the smallest, without the slack of a verification
	Looks    []verification.Look `json:"estimates,omitempty"`
	Table    []verification.Row  `json:"table,omitempty"`
	Curve    []verification.Dot  `json:"curve,omitempty"`
	Laws     []verification.Law  `json:"laws,omitempty"` // of Algorithm 3
}

// Validate reports every fault that can be seen without the files.
func (a Account) Validate() error {
	c := param.Checker{Package: "pipelines"}
	c.Add(a.Params.Validate())
	c.Require(a.Bounded == "" || a.Examples == 0, "bounded and examples", nil, "only one of them may be given")
	c.Require(a.Examples >= 0, "examples", a.Examples, "must be at least 1")
	kind := a.Kind()
	known := a.Bounded != "" || a.Examples > 0
	c.Require(known || a.BatchSize == 0 || kind.ExactBatchSize, "batch size", a.BatchSize, "needs the number of examples or a bounded table")
	c.Require(known || a.MaxBatchSize == 0, "max batch size", a.MaxBatchSize, "needs the number of examples or a bounded table")
	c.Require(a.Bounded != "" || kind.Owners != sampling.OwnersNeeded || a.BatchSize == 0, "batch size", a.BatchSize, "needs a bounded table for "+kind.Name)
	c.Require((a.Strategy == "") != (a.Bands == 0), "strategy and bands", nil, "exactly one of them must be given")
	c.Require(a.Bands >= 0, "bands", a.Bands, "must be at least 1")
	c.Require(a.MaxPerOwner >= 0, "max per owner", a.MaxPerOwner, "must be at least 1")
	unit, err := accounting.ParseUnit(a.Unit)
	c.Add(err)
	c.Require(unit != accounting.UnitExample || a.MaxPerOwner <= 1, "max per owner", a.MaxPerOwner, "must be left out with unit example, which protects no owner of several examples")
	c.Require(a.Epsilon >= 0 && a.Epsilon <= 1e6, "epsilon", a.Epsilon, "must be from 0 to 1e6")
	c.Require(a.Delta >= 1e-300 && a.Delta < 1, "delta", a.Delta, "must be at least 1e-300 and below 1")
	c.Require(a.Samples == 0 || a.CPUTime == 0, "samples and cpu-time", nil, "only one of them may be given")
	c.Require(a.CPUTime >= 0, "cpu-time", a.CPUTime, "must be above 0")
	if a.NoiseMultiplier != 0 {
		c.Positive("noise multiplier", a.NoiseMultiplier)
	}
	return c.Err()
}

// Run accounts. An error that wraps accounting.ErrNotVerified comes with a result: what was estimated.
func (a Account) Run(ctx context.Context, o Options) (Accounted, error) {
	c := param.Checker{Package: "pipelines"}
	c.Add(a.Validate())
	o.validateJob(&c)
	c.Require(a.From == "" || realPath(a.From) != realPath(o.Out), "from", a.From, "must be another directory than --out")
	if err := c.Err(); err != nil {
		return Accounted{}, err
	}
	if err := o.oneTraining(ctx, CertificateFile, nil); err != nil {
		return Accounted{}, err
	}
	here, err := o.present(ctx, CertificateFile)
	if err != nil {
		return Accounted{}, err
	}
	problem, request, of, err := a.problem(ctx, here)
	if err != nil {
		return Accounted{}, err
	}
	result := Accounted{Out: o.Out, Run: problem.Run, Epsilon: a.Epsilon, Delta: a.Delta}
	if result.Method, err = problem.Run.Method(); err != nil {
		return result, err
	}
	if result.Method == accounting.MonteCarlo || result.Method == accounting.Unproven {
		result.Exactness = problem.Run.Loss(1).Exactness()
	}
	if err := here.agreesToAccount(problem.Run, problem.Unit, of, a.NoiseMultiplier); err != nil {
		return result, err
	}
	if a.From != "" {
		err := a.takeOver(ctx, o, here, of, problem, request, &result)
		return result, err
	}
	if o.DryRun {
		return result, nil
	}
	certificate, err := a.certify(ctx, o, here, of, problem, request, &result)
	if err != nil {
		return result, err
	}
	result.Certificate = certificate
	return result, nil
}

// besides makes what is shown with a certificate: before that is written, since all of it may fail.
func (a Account) besides(ctx context.Context, c *accounting.Certificate, result *Accounted) (err error) {
	if a.Curve {
		if result.Curve, err = verification.Curve(ctx, c.Run, c.NoiseMultiplier, a.Epsilon); err != nil {
			return err
		}
	}
	if result.Method == accounting.Unproven {
		result.Laws, err = verification.Laws(ctx, c.Run, c.NoiseMultiplier, a.Epsilon)
	}
	return err
}

// watch shows what a plan of a verification is doing.
func watch(p verification.Phase) {
	unit := ""
	if p.Of > 0 {
		unit = "samples"
	}
	progress.Enter(p.Text, unit, int64(p.Done), int64(p.Of))
}

// problem reads the inputs, and says of which examples the claim is.
func (a Account) problem(ctx context.Context, here present) (p verification.Problem, r request, of population, err error) {
	source, err := Form{Bounded: a.Bounded, Examples: a.Examples}.source(ctx)
	if err != nil {
		return p, r, of, err
	}
	if of, err = a.population(source, here); err != nil {
		return p, r, of, err
	}
	spec, err := a.Spec(source.population())
	if err != nil {
		return p, r, of, err
	}
	unit, most, err := a.protects(of)
	if err != nil {
		return p, r, of, err
	}
	if spec.Kind().Owners == sampling.OwnersIfKnown && source.bounded == nil && most > 1 {
		return p, r, of, &accounting.RefusedError{Scheme: a.Scheme, Reason: "batches of numbered examples know no owners: give the bounded table for several examples per owner"}
	}
	run := accounting.Run{Sampler: spec, MaxExamplesPerOwner: most, Examples: source.population().Examples}
	if a.Strategy == "" && a.Bands <= spec.Scheme().NumSteps() { // to make it may take long
		run.Strategy = mechanism.Params{Kind: mechanism.KindBandedToeplitz, Steps: spec.Scheme().NumSteps(), Bands: a.Bands}.StandIn()
		if _, err := run.Method(); err != nil {
			return p, r, of, err
		}
	}
	run.Strategy, err = a.strategy(ctx, spec)
	if err != nil {
		return p, r, of, err
	}
	_, plan, err := manifest.Params(formParams{spec})
	if err != nil {
		return p, r, of, err
	}
	if err := run.Validate(); err != nil {
		return p, r, of, err
	}
	p = verification.Problem{Run: run, Unit: unit, Epsilon: a.Epsilon, Delta: a.Delta, NoiseMultiplier: a.NoiseMultiplier, Samples: a.Samples, CPUTime: a.CPUTime, Watch: watch,
		CodeVersion: manifest.Version, PlanSHA256: plan.String()}
	r, err = a.request(p)
	return p, r, of, err
}

// population is what the claim depends on of the examples: those of the table that is named or, else, that is in the run directory.
func (a Account) population(source examples, here present) (population, error) {
	of, table := source.of(), here.table
	switch {
	case table == nil:
	case source.bounded != nil && source.bounded.Digest != table.digest:
		return of, &ParamError{Package: "pipelines", Param: "bounded", Value: a.Bounded, Rule: fmt.Sprintf("must be the bounded table in %s, which is another one; give --bounded %s, or another --out", here.out, here.out)}
	case source.bounded == nil && a.Examples > 0 && a.Examples != table.summary.KeptCopies:
		return of, &ParamError{Package: "pipelines", Param: "examples", Value: a.Examples, Rule: fmt.Sprintf("must be %d, as the bounded table in %s has; give --bounded %s, or another --out", table.summary.KeptCopies, here.out, here.out)}
	case source.bounded == nil:
		of = table.population()
	}
	return of, nil
}

// protects is whom the claim protects: the unit, and k_u, which is what the user says, or how many copies of examples the owner with the
// most has. That only single examples are protected where an owner has several must be asked for by name.
func (a Account) protects(of population) (accounting.Unit, int, error) {
	unit, err := accounting.ParseUnit(a.Unit)
	switch {
	case err != nil:
		return unit, 0, err
	case unit == accounting.UnitExample && (of.numbered || of.most > 1):
		return unit, 1, nil
	case a.MaxPerOwner > 0 && a.MaxPerOwner < of.most:
		return unit, 0, &ParamError{Package: "pipelines", Param: "max per owner", Value: a.MaxPerOwner,
			Rule: fmt.Sprintf("must be at least %d: an owner in the bounded table has so many examples; give --unit example for a claim that protects no owner", of.most)}
	case a.MaxPerOwner == 0 && a.Bounded == "" && of.most > 1:
		return unit, 0, &ParamError{Package: "pipelines", Param: "bounded", Value: `""`,
			Rule: fmt.Sprintf("must name the run directory, whose bounded table has owners with up to %d examples, or the claim would protect none of them; give --unit example for such a claim", of.most)}
	}
	return accounting.UnitOwner, max(of.most, a.MaxPerOwner), nil
}

func mostPerOwner(s ownergraph.Summary) int {
	most := int64(1)
	for _, bin := range s.KeptPerOwner {
		most = max(most, bin.Value)
	}
	return int(most)
}

func (a Account) strategy(ctx context.Context, spec sampling.Spec) (*mechanism.Strategy, error) {
	if a.Strategy == "" {
		s, _, err := mechanism.Problem{Workload: mechanism.Prefix(spec.Scheme().NumSteps())}.OptimalToeplitz(a.Bands)
		return s, err
	}
	return ReadStrategyFile(ctx, a.Strategy)
}

// certify plans, or goes on with what the ledger holds, and verifies.
func (a Account) certify(ctx context.Context, o Options, here present, of population, problem verification.Problem, r request, result *Accounted) (*accounting.Certificate, error) {
	o, unlock, err := o.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	book := store.Join(o.Out, LedgerFolder)
	resume, err := o.lookAt(ctx, book, r)
	if err != nil {
		return nil, err
	}
	var protocol *accounting.Protocol
	cpu := 0.0 // of a sample
	if !resume {
		if problem.Earlier, err = earlier(ctx, book, problem.Run); err != nil {
			return nil, err
		}
		plan, err := problem.Plan(ctx)
		if plan != nil {
			result.Estimate, result.Looks, result.Table = plan.Estimate, plan.Looks, plan.Table
		}
		if err != nil {
			return nil, err
		}
		protocol, cpu = plan.Protocol, plan.CPU
	}
	run, made, err := manifest.OpenRun(o.Out, o.RunID)
	if err != nil {
		return nil, err
	}
	result.RunID = run.RunID.String()
	l, err := r.open(book, protocol)
	if err != nil {
		if made {
			err = errors.Join(err, manifest.RemoveRun(o.Out))
		}
		return nil, err
	}
	defer l.Close()
	result.Earlier = l.Protocol().Earlier
	if err := o.verify(ctx, book, l); err != nil {
		return nil, withTime(ctx, err, l.Protocol(), cpu)
	}
	if o.translates() { // no samples are needed, so there is no job
		return nil, ErrTranslated
	}
	certificate, err := l.Certificate()
	if err == nil { // the noise multiplier is known only now
		err = here.agreesToAccount(problem.Run, problem.Unit, of, certificate.NoiseMultiplier)
	}
	if err != nil {
		return nil, err
	}
	if err := a.besides(ctx, certificate, result); err != nil {
		return nil, err
	}
	return certificate, o.publish(certificate, of)
}

// withTime adds to the error of a protocol without an accepted candidate how long a sample takes: as
// the plan measured it or, where an earlier command made the plan, measured now.
func withTime(ctx context.Context, err error, p *accounting.Protocol, cpu float64) error {
	var rejected *accounting.NotVerifiedError
	if !errors.As(err, &rejected) {
		return err
	}
	if rejected.CPU = cpu; cpu == 0 {
		// The time is advice: where it cannot be measured the error is told without it.
		rejected.CPU, _ = verification.SampleCPU(ctx, p, len(p.Candidates)-1)
	}
	return err
}

// publish writes the certificate, and what the run is of.
func (o Options) publish(c *accounting.Certificate, of population) error {
	if of.identity != "" {
		if err := manifest.SetExamples(o.Out, of.identity); err != nil {
			return err
		}
	}
	return writeCertificate(o.Out, c)
}
