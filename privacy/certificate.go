package privacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/drawhere"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/montecarlo"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/internal/words"
)

// Certificate is a verified claim together with what it follows from. It is public, and may be
// kept as JSON.
type Certificate struct {
	Epsilon         float64 // of the claim
	Delta           float64 // of the claim; it includes the probability that the verification errs
	NoiseMultiplier float64 // σ: standard deviation of the noise over the clip norm
	Verified        bool    // false for a published analysis without a proof
	Reason          string  // why it is not Verified
	Method          string  // such as "closed-form", "pld" or "monte carlo"
	Statement       string  // a paragraph for a paper: whom it protects, of what, and the assumptions

	File     []byte   // as certificate.json of the command
	Protocol []byte   // as protocol.json of the command's ledger
	Units    [][]byte // sums of the samples, each JSON; none for a proof
}

// Draw draws the samples of units and returns their sums. A unit is a range of samples of the
// protocol, as JSON; the sums of a unit are integers, which depend on the protocol and the unit
// alone. Units may be drawn anywhere, in any order.
type Draw func(ctx context.Context, protocol []byte, units [][]byte) (sums [][]byte, err error)

// NotVerifiedError says that the samples did not verify the claim.
type NotVerifiedError struct {
	Err     error     // with the means of the samples
	Earlier []Earlier // for the [Claim.Earlier] of another try
}

func (e *NotVerifiedError) Error() string { return e.Err.Error() }

func (e *NotVerifiedError) Unwrap() error { return e.Err }

// Certify verifies a claim. Its samples, if it needs any, are drawn by draw: transforms.OnRunner
// has workers of a Beam runner do it; nil draws them in this process, on all processors.
//
// The error is a [*NotVerifiedError] if the samples did not verify the claim. Scheme and
// strategies without an analysis are refused, as are budgets that are too small. It takes about the
// claim's CPUTime, or half a minute more for a strategy with more bands than the scheme's min-sep,
// and ends when ctx does.
func Certify(ctx context.Context, c Claim, draw Draw) (*Certificate, error) {
	plan, err := c.problem().Plan(ctx)
	if err != nil {
		return nil, err
	}
	l, err := ledger.InMemory(plan.Protocol)
	if err != nil {
		return nil, err
	}
	draws := calibration.Draw(drawhere.By(c.worker, 0))
	if draw != nil {
		draws = draw.into
		c.watch("drawing samples")
	}
	err = calibration.Release(ctx, l, calibration.UnitSize(c.Strategy.Steps), draws)
	if errors.Is(err, accounting.ErrNotVerified) {
		return nil, &NotVerifiedError{err, append(c.Earlier[:len(c.Earlier):len(c.Earlier)], Earlier(l.Spent()))}
	}
	if err != nil {
		return nil, err
	}
	return certificate(l)
}

// watched is a worker for a trial that tells how far it is.
type watched struct {
	*calibration.Worker
	claim Claim
	of    accounting.Trial
	text  string
}

func (c Claim) worker(p *accounting.Protocol, candidate, trial int) (watched, error) {
	text := fmt.Sprintf("verifying candidate %d of %d", len(p.Candidates)-candidate, len(p.Candidates))
	c.watch(text + ": tables")
	w, err := calibration.NewWorker(p, candidate, trial)
	return watched{w, c, p.Candidates[candidate].Trials[trial], text}, err
}

func (w watched) Run(ctx context.Context, first, count uint64, workers int) (ledger.Result, error) {
	w.claim.watch(fmt.Sprintf("%s: %d of %d samples of direction %s", w.text, first, w.of.Samples, w.of.Direction))
	return w.Worker.Run(ctx, first, count, workers)
}

// into draws units and records their sums.
func (d Draw) into(ctx context.Context, l *ledger.Ledger, _ int, units []ledger.Unit) error {
	protocol, err := l.Protocol().Encode()
	if err != nil {
		return err
	}
	encoded := make([][]byte, len(units))
	for i, u := range units {
		if encoded[i], err = json.Marshal(u); err != nil {
			return err
		}
	}
	sums, err := d(ctx, protocol, encoded)
	if err != nil {
		return err
	}
	return record(l, sums)
}

func record(l *ledger.Ledger, sums [][]byte) error {
	entries := make([]ledger.Entry, len(sums))
	for i, b := range sums {
		if err := strictjson.Unmarshal(b, &entries[i]); err != nil {
			return fmt.Errorf("sums of a unit: %w", err)
		}
	}
	return l.AddAll(entries)
}

// certificate is the certificate of a ledger.
func certificate(l *ledger.Ledger) (*Certificate, error) {
	of, err := l.Certificate()
	if err != nil {
		return nil, err
	}
	c := &Certificate{
		Epsilon:         of.Epsilon,
		Delta:           of.Delta,
		NoiseMultiplier: of.NoiseMultiplier,
		Verified:        of.Status == accounting.Verified,
		Reason:          of.Reason,
		Method:          string(of.Method),
		Statement:       of.Statement(words.UsualNouns),
	}
	if c.File, err = of.Encode(); err != nil {
		return nil, err
	}
	if c.Protocol, err = l.Protocol().Encode(); err != nil {
		return nil, err
	}
	for unit, result := range l.Units {
		b, err := json.Marshal(ledger.Entry{Unit: unit, Result: result})
		if err != nil {
			return nil, err
		}
		c.Units = append(c.Units, b)
	}
	return c, nil
}

// Write writes the certificate with its protocol and sums into a run directory, as `minsep account`
// does, and makes the directory if there is none. It must have no certificate, and no command may be
// writing there. `minsep inspect` checks it there, also one of a law or a strategy of your own, and
// `minsep compose` adds the certificates of several run directories up.
func (c *Certificate) Write(ctx context.Context, run string) error {
	p, err := accounting.ParseProtocol(c.Protocol)
	if err != nil {
		return err
	}
	release, err := manifest.TakeLock(run)
	if err != nil {
		return err
	}
	defer release()
	if _, _, err := manifest.OpenRun(run); err != nil {
		return err
	}
	l, err := ledger.Create(store.Join(run, manifest.LedgerFolder), p)
	if err != nil {
		return err
	}
	if err := record(l, c.Units); err != nil {
		return err
	}
	name := manifest.CertificateFile
	if !c.Verified {
		name = manifest.AccountingFile
	}
	return store.WriteFile(ctx, store.Join(run, name), store.Options{Mode: 0o644, New: true}, c.File)
}

// Verification is what [Certificate.Verify] has shown by itself, whoever made the certificate.
type Verification struct {
	// Delta is an upper limit of δ at Epsilon. With few samples it is above the certificate's Delta,
	// which more CPU time mends: it is no contradiction.
	Delta float64
	// Confidence is the probability with which Delta holds: 1 if proofs carry the claim, else 0.98,
	// over the samples that were drawn now. It takes the published analysis for granted if the
	// certificate is not Verified.
	Confidence float64
	Samples    uint64 // that were drawn now, with a key that nobody knew before; 0 if proofs carry the claim
}

// Verify makes a certificate again without trusting it. It computes every proof again, and applies
// the rule of release to the protocol and the sums: that these allow the certificate is certain,
// but who made them may have chosen or forged them. So it draws samples of its own, for about cpuTime
// of processors, and returns what they show. A certificate that does not follow, or that these
// samples contradict (of a correct one they do so with a probability of at most 1e-9), is an error.
func (c *Certificate) Verify(ctx context.Context, cpuTime time.Duration) (Verification, error) {
	none := Verification{}
	p, err := accounting.ParseProtocol(c.Protocol)
	if err != nil {
		return none, err
	}
	l, err := ledger.InMemory(p)
	if err != nil {
		return none, err
	}
	if err := record(l, c.Units); err != nil {
		return none, err
	}
	again, err := certificate(l)
	if err != nil {
		return none, err
	}
	if !reflect.DeepEqual(again, c) {
		return none, errors.New("the certificate does not follow from its protocol and its sums")
	}
	if err := calibration.CheckProofs(ctx, p); err != nil {
		return none, fmt.Errorf("a proof of the certificate does not hold: %w", err)
	}
	released, err := p.Release(l.Tallies())
	if err != nil {
		return none, err
	}
	if p.KernelID != "" && p.KernelID != montecarlo.KernelID() {
		return none, fmt.Errorf(
			"the samples were made by kernel %s, and this machine has kernel %s: verify it on a machine with the former",
			p.KernelID,
			montecarlo.KernelID(),
		)
	}
	own, err := calibration.Resample(ctx, p, released, cpuTime.Seconds())
	if err != nil {
		return none, err
	}
	if own.Contradicts {
		return none, errors.New("samples drawn now contradict the certificate: its own were chosen or forged")
	}
	v := Verification{Delta: own.Delta, Confidence: 1, Samples: own.Samples}
	if own.Samples > 0 {
		v.Confidence = calibration.OwnConfidence
	}
	return v, nil
}
