package pipelines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/manifest"
	"minsep/internal/montecarlo"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/transforms/progress"
	"minsep/internal/words"
)

// AccountResult is the result of an account.
type AccountResult struct {
	RunID  string            `json:"run_id,omitempty"`
	Out    string            `json:"out"`    // run directory
	Method accounting.Method `json:"method"` // how the claim is verified
	// Exactness grades a sampled loss: exact, a bound or a draw that makes δ too large,
	// or not proven. Empty without samples.
	Exactness montecarlo.Exactness `json:"exactness,omitempty"`
	Run       accounting.Run       `json:"run"`               // the run of the claim
	Epsilon   float64              `json:"epsilon"`           // of the request
	Delta     float64              `json:"delta"`             // of the request
	DryRun    bool                 `json:"dry_run,omitempty"` // nothing was verified

	// Outlook is a dry run's forecast of the verification.
	Outlook *calibration.Outlook `json:"outlook,omitempty"`

	// Ledger is where a protocol of this request is that gave no certificate; "" if there is none.
	Ledger string `json:"ledger,omitempty"`

	// Certificate is the verified claim; nil when nothing was verified, and in a dry run.
	Certificate *accounting.Certificate `json:"certificate,omitempty"`

	// Attacks bounds membership attacks by the certificate.
	Attacks *accounting.AttackBounds `json:"attacks,omitempty"`
	// Statement is a paragraph for a paper, and ModelCard lines for a model card.
	Statement string `json:"statement,omitempty"`
	ModelCard string `json:"model_card,omitempty"`

	// NotCertified are the epsilon of AlsoEpsilon at which the verification rejected δ.
	NotCertified []float64 `json:"not_certified,omitempty"`
	// LeftOut are the epsilon of AlsoEpsilon that the protocol has no claim for, since δ would be
	// above 1/2.
	LeftOut []float64 `json:"left_out,omitempty"`

	// Earlier are the protocols of this directory that had samples before, for whatever claim: their
	// failure probabilities are taken off δ.
	Earlier []accounting.Earlier `json:"earlier,omitempty"`

	Standing

	// SuggestedMaxBatchSize, of a dry run or of a certificate without a maximum, is the smallest
	// maximum batch size that costs at most accounting.SuggestedShare of delta at any noise
	// multiplier; 0 where none is known.
	SuggestedMaxBatchSize int `json:"suggested_max_batch_size,omitempty"`

	// The rest are estimates, and certify nothing.

	Estimate   float64                          `json:"estimated_noise_multiplier,omitempty"` // the smallest, without the slack of a verification
	MultiOwner []calibration.MultiOwnerEstimate `json:"multi_owner,omitempty"`                // of Algorithm 3
}

// Standing says how good a certificate is.
type Standing struct {
	Weak []string `json:"weak,omitempty"` // why the claim protects next to nobody though it holds, see accounting.Guarantee.Weak
	// Beside is the certificate beside DP-SGD, by the workload of the plan or by prefix sums; nil where
	// there is nothing to compare, and where the certificate was there before. Whoever shows it asks
	// for it: see planner.BesideClaim.
	Beside         *planner.Beside `json:"beside_dp_sgd,omitempty"`
	WithoutSamples bool            `json:"without_samples,omitempty"` // the noise multiplier is one that needs no samples, where samples can verify less noise
	Unused         string          `json:"unused,omitempty"`          // the verification used next to nothing of δ, see accounting.Certificate.Unused
}

// judge fills in how good a certificate is for so many owners or examples; given is the noise
// multiplier that was asked for, 0 for none.
func (s *Standing) judge(c *accounting.Certificate, given float64, protected int64) {
	s.Weak, s.WithoutSamples, s.Unused = c.Guarantee().Weak(protected), given == 0 && c.WithoutSamples(), c.Unused()
}

// Account is the account with the parameters of [stages.Account].
type Account stages.Account

// Validate reports every fault that can be seen without the files.
func (a Account) Validate() error { return stages.Account(a).Validate() }

// Run finds and verifies the noise multiplier. An error that wraps accounting.ErrNotVerified comes
// with a result, which has the estimates.
func (a Account) Run(ctx context.Context, o Options) (AccountResult, error) {
	w, err := o.begin(ctx, beginning{stage: a, looks: true, remade: manifest.CertificateFile})
	if err != nil {
		return AccountResult{}, err
	}
	defer w.end()
	// A copy of a directory may have its account: a certificate is for a mechanism, and draws nothing
	// from the key. Batches and noise are refused there.
	problem, request, of, err := stages.Account(a).Problem(ctx, w.here)
	if err != nil {
		return AccountResult{}, err
	}
	problem.Watch = WatchPhase
	result := AccountResult{Out: o.Out, Run: problem.Run, Epsilon: a.Epsilon, Delta: a.Delta, DryRun: o.DryRun}
	if result.Method, err = problem.Run.Method(); err != nil {
		return result, err
	}
	if result.Method == accounting.MonteCarlo || result.Method == accounting.Unproven {
		result.Exactness = problem.Run.Loss(1).Exactness()
	}
	// Before any sample: batches or noise of another mechanism would make the certificate useless
	// here.
	if err := w.here.WithClaim(problem.Run, problem.Unit, of, a.NoiseMultiplier).Agree(); err != nil {
		return result, err
	}
	if result.Method == accounting.PLD && a.NoiseMultiplier == 0 {
		progress.Enter("finding the least noise multiplier that is proven without samples", "", 0, 0)
	}
	c := claim{Account: a, work: w, of: of, problem: problem, request: request}
	switch {
	case o.DryRun:
		result.SuggestedMaxBatchSize, err = problem.Run.SuggestMaxBatchSize(a.Epsilon, a.Delta)
		if err != nil {
			return result, err
		}
		result.Outlook, err = problem.Outlook(ctx, 0)
	default:
		err = c.certify(ctx, &result)
	}
	if result.Certificate != nil {
		result.judge(result.Certificate, a.NoiseMultiplier, of.Protected(problem.Unit))
	}
	return result, err
}

// claim is the claim to certify, and the place of its ledger.
type claim struct {
	Account
	*work
	of      stages.Examples
	problem calibration.Problem
	request stages.Request
}

// ledger returns the folder of the ledger.
func (c *claim) ledger() string { return store.Join(c.path, manifest.LedgerFolder) }

// besides computes the figures that are shown with a certificate. Each may fail, so this comes
// before the certificate is written.
func (a Account) besides(ctx context.Context, c *accounting.Certificate, result *AccountResult) (err error) {
	if c.Run.Sampler.Truncation == nil {
		result.SuggestedMaxBatchSize, err = c.Run.SuggestMaxBatchSize(c.Epsilon, c.Delta)
		if err != nil {
			return err
		}
	}
	attacks := c.AttackBounds()
	result.Attacks = &attacks
	result.Statement, result.ModelCard = c.Statement(words.UsualNouns), c.ModelCard(words.UsualNouns)
	if result.Method == accounting.Unproven {
		result.MultiOwner, err = calibration.MultiOwnerEstimates(ctx, c.Run, c.NoiseMultiplier, a.Epsilon)
	}
	return err
}

// WatchPhase shows the progress of a plan of a verification.
func WatchPhase(p calibration.Phase) {
	progress.Enter(p.Text, "", 0, 0)
	if p.Left > 0 {
		progress.Limit(time.Duration(p.Left * float64(time.Second)))
	}
}

// certify makes a plan or goes on from the ledger, verifies, and publishes the certificate.
func (c *claim) certify(ctx context.Context, result *AccountResult) error {
	folder := c.ledger()
	resume, err := c.lookAt(ctx)
	if err != nil {
		return err
	}
	var protocol *accounting.Protocol
	cpu := 0.0 // of a sample; 0 if an earlier command made the plan
	if !resume {
		// Before the plan: the failure probabilities of earlier protocols are a part of the δ that the
		// plan may spend.
		if c.problem.Earlier, err = stages.Earlier(ctx, folder); err != nil {
			return err
		}
		plan, err := c.problem.Plan(ctx)
		if plan != nil {
			result.Estimate = plan.Estimate
		}
		if err != nil {
			return err
		}
		protocol, cpu = plan.Protocol, plan.CPU
	}
	// A ledger with a sample in it is never removed: whoever could remove it could try until a false
	// claim is accepted, and count one attempt.
	started := false // from then on the ledger stays
	return c.inRun(func(error) bool { return started }, func(run manifest.Run) error {
		result.RunID = run.RunID.String()
		l, err := openLedger(folder, c.request, protocol)
		if err != nil {
			return err
		}
		started = true
		if resume { // its samples are checked as they are read, but nobody has looked at its bounds
			if err := checkProofs(ctx, folder, l.Protocol()); err != nil {
				return err
			}
		}
		result.Earlier = l.Protocol().Earlier
		if err := c.verify(ctx, l); err != nil {
			result.Ledger = folder
			var rejected *accounting.NotVerifiedError
			if errors.As(err, &rejected) {
				rejected.CPU = cpu
			}
			return err
		}
		if c.jobs.translates { // no samples are needed, so there is no job
			return ErrTranslated
		}
		certificate, err := l.Certificate()
		if err == nil { // the noise multiplier is known only now
			err = c.here.WithClaim(c.problem.Run, c.problem.Unit, c.of, certificate.NoiseMultiplier).Agree()
		}
		if err != nil {
			return err
		}
		if err := c.besides(ctx, certificate, result); err != nil {
			return err
		}
		result.missing(c.AlsoEpsilon, certificate, l.Protocol())
		return c.publish(certificate, result)
	})
}

// checkProofs computes the bounds of a protocol again that another process fixed.
func checkProofs(ctx context.Context, folder string, p *accounting.Protocol) error {
	err := calibration.CheckProofs(ctx, p)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf(
			"%s: its protocol has a bound that does not hold when it is computed again: it was changed, or made by another version; move the folder away and begin again: %w",
			folder,
			err,
		)
	}
	return nil
}

// missing adds the further ε that a certificate does not have: those that the protocol left out,
// and those that were not verified.
func (r *AccountResult) missing(also []float64, certificate *accounting.Certificate, p *accounting.Protocol) {
	for _, epsilon := range also {
		switch {
		case slices.ContainsFunc(certificate.Points, func(p accounting.Claimed) bool { return p.Epsilon == epsilon }):
		case slices.ContainsFunc(p.Points, func(p accounting.Point) bool { return p.Epsilon == epsilon }):
			r.NotCertified = append(r.NotCertified, epsilon)
		default:
			r.LeftOut = append(r.LeftOut, epsilon)
		}
	}
}

// publish writes the certificate, and the run's examples.
func (c *claim) publish(certificate *accounting.Certificate, result *AccountResult) error {
	if c.of.Identity != "" {
		if err := manifest.SetExamples(c.path, c.of.Identity); err != nil {
			return err
		}
	}
	// Last: a directory with a certificate is done, whatever was stopped before.
	if err := writeCertificate(c.path, certificate); err != nil {
		return err
	}
	result.Certificate = certificate
	return nil
}
