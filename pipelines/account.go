package pipelines

import (
	"context"
	"errors"
	"slices"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/verification"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/stages"
	"minsep/transforms/progress"
)

// AccountResult is what an account came to.
type AccountResult struct {
	RunID  string            `json:"run_id,omitempty"`
	Out    string            `json:"out"`
	Method accounting.Method `json:"method"`
	// Exactness says what a sampled loss is worth: exact, or a bound that makes δ too large, or not proven. Empty without samples.
	Exactness montecarlo.Exactness `json:"exactness,omitempty"`
	Run       accounting.Run       `json:"run"`
	Epsilon   float64              `json:"epsilon"`
	Delta     float64              `json:"delta"`
	DryRun    bool                 `json:"dry_run,omitempty"` // nothing was verified

	// Outlook is what a dry run can say of the verification.
	Outlook *verification.Outlook `json:"outlook,omitempty"`

	// Ledger is where a protocol of this request is that gave no certificate; "" if there is none.
	Ledger string `json:"ledger,omitempty"`

	// Certificate is what was verified; nil when nothing was, and in a dry run.
	Certificate *accounting.Certificate `json:"certificate,omitempty"`

	// NotCertified are the epsilon of AlsoEpsilon at which the verification rejected δ.
	NotCertified []float64 `json:"not_certified,omitempty"`

	From string `json:"from,omitempty"` // the run directory from which the certificate was taken over

	// Earlier are protocols of this directory for the same sampler and strategy, whose failure probabilities are taken off δ.
	Earlier []accounting.Earlier `json:"earlier,omitempty"`

	// SuggestedMaxBatchSize, of a dry run, is the smallest maximum batch size that costs at most accounting.SuggestedShare of
	// delta at any noise multiplier; 0 where none is known.
	SuggestedMaxBatchSize int `json:"suggested_max_batch_size,omitempty"`

	// What follows are estimates, and certify nothing.

	Estimate  float64                      `json:"estimated_noise_multiplier,omitempty"` // the smallest, without the slack of a verification
	Estimates []verification.NoiseEstimate `json:"estimates,omitempty"`
	Table     []verification.Row           `json:"table,omitempty"`
	Curve     []verification.CurvePoint    `json:"curve,omitempty"`
	Laws      []verification.Law           `json:"laws,omitempty"` // of Algorithm 3
}

// Account is the stage with the parameters of [stages.Account].
type Account stages.Account

// Validate reports every fault that can be seen without the files.
func (a Account) Validate() error { return stages.Account(a).Validate() }

// Run accounts. An error that wraps accounting.ErrNotVerified comes with a result: what was estimated.
func (a Account) Run(ctx context.Context, o Options) (AccountResult, error) {
	c := param.Checker{Package: "pipelines"}
	c.Add(a.Validate())
	o.validateJob(&c)
	c.Require(a.From == "" || store.Resolved(a.From) != store.Resolved(o.Out), "from", a.From, "must be another directory than --out")
	if err := c.Err(); err != nil {
		return AccountResult{}, err
	}
	if err := o.oneTraining(ctx, manifest.CertificateFile, nil); err != nil {
		return AccountResult{}, err
	}
	here, err := o.present(ctx, manifest.CertificateFile)
	if err != nil {
		return AccountResult{}, err
	}
	problem, request, of, err := stages.Account(a).Problem(ctx, here)
	if err != nil {
		return AccountResult{}, err
	}
	problem.Watch = watch
	result := AccountResult{Out: o.Out, Run: problem.Run, Epsilon: a.Epsilon, Delta: a.Delta, DryRun: o.DryRun}
	if result.Method, err = problem.Run.Method(); err != nil {
		return result, err
	}
	if result.Method == accounting.MonteCarlo || result.Method == accounting.Unproven {
		result.Exactness = problem.Run.Untruncated().Loss(1).Exactness()
	}
	if err := here.AgreesToAccount(problem.Run, problem.Unit, of, a.NoiseMultiplier); err != nil {
		return result, err
	}
	if a.From != "" {
		err := a.takeOver(ctx, o, here, of, problem, request, &result)
		return result, err
	}
	if o.DryRun {
		if result.SuggestedMaxBatchSize, err = problem.Run.SuggestMaxBatchSize(a.Epsilon, a.Delta, accounting.Moments{}); err != nil {
			return result, err
		}
		result.Outlook, err = problem.Outlook(ctx)
		return result, err
	}
	certificate, err := a.certify(ctx, o, here, of, problem, request, &result)
	if err != nil {
		return result, err
	}
	result.Certificate = certificate
	return result, nil
}

// besides makes what is shown with a certificate: before that is written, since all of it may fail.
func (a Account) besides(ctx context.Context, c *accounting.Certificate, result *AccountResult) (err error) {
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
	switch {
	case p.Text == verification.PhaseTables:
		unit = progress.Work
	case p.Of > 0:
		unit = "samples"
	}
	progress.Enter(p.Text, unit, int64(p.Done), int64(p.Of))
}

// certify plans, or goes on with what the ledger holds, and verifies.
func (a Account) certify(ctx context.Context, o Options, here stages.Present, of stages.Examples, problem verification.Problem, r stages.Request, result *AccountResult) (*accounting.Certificate, error) {
	o, unlock, err := o.Lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	folder := store.Join(o.Out, manifest.LedgerFolder)
	resume, err := o.lookAt(ctx, folder, r)
	if err != nil {
		return nil, err
	}
	var protocol *accounting.Protocol
	cpu := 0.0 // of a sample
	if !resume {
		if problem.Earlier, err = stages.Earlier(ctx, folder, problem.Run, problem.Run.Untruncated()); err != nil {
			return nil, err
		}
		plan, err := problem.Plan(ctx)
		if plan != nil {
			result.Estimate, result.Estimates, result.Table = plan.Estimate, plan.Estimates, plan.Table
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
	l, err := openLedger(folder, r, protocol)
	if err != nil {
		if made {
			err = errors.Join(err, manifest.RemoveRun(o.Out))
		}
		return nil, err
	}
	defer l.Close()
	result.Earlier = l.Protocol().Earlier
	if err := o.verify(ctx, folder, l); err != nil {
		result.Ledger = folder
		return nil, withTime(ctx, err, l.Protocol(), cpu)
	}
	if o.Translates() { // no samples are needed, so there is no job
		return nil, ErrTranslated
	}
	certificate, err := l.Certificate()
	if err == nil { // the noise multiplier is known only now
		err = here.AgreesToAccount(problem.Run, problem.Unit, of, certificate.NoiseMultiplier)
	}
	if err != nil {
		return nil, err
	}
	if err := a.besides(ctx, certificate, result); err != nil {
		return nil, err
	}
	for _, epsilon := range a.AlsoEpsilon {
		if !slices.ContainsFunc(certificate.Points, func(p accounting.Claimed) bool { return p.Epsilon == epsilon }) {
			result.NotCertified = append(result.NotCertified, epsilon)
		}
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
func (o Options) publish(c *accounting.Certificate, of stages.Examples) error {
	if of.Identity != "" {
		if err := manifest.SetExamples(o.Out, of.Identity); err != nil {
			return err
		}
	}
	return writeCertificate(o.Out, c)
}
