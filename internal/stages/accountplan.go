package stages

import (
	"context"
	"errors"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/mechanism"
	"minsep/sampling"
)

// accountStage is the account in plans, run directories and inspections.
var accountStage = Stage{
	Name:     "account",
	Group:    "privacy",
	Results:  ClaimFiles,
	Work:     manifest.LedgerFolder,
	Reads:    []string{"graph", "bound", "examples", "scheme", "strategy", "privacy", "inputs"},
	faults:   accountFaults,
	estimate: estimateAccount,
	differs:  accountDiffers,
	files:    func(ctx context.Context, d *Directory) []string { return claimFiles(ctx, d.Out) },
}

// accountDiffers says how the request of a certificate's ledger differs from the plan's. A certificate
// that does not follow from its ledger is an error.
func accountDiffers(ctx context.Context, d *Directory) ([]string, error) {
	here, err := ReadPresent(ctx, d.Out, manifest.BatchesFolder, manifest.NoiseFolder)
	if err != nil {
		return nil, err
	}
	_, r, _, err := AccountOf(d.Plan).Problem(ctx, here)
	if err != nil {
		return nil, err
	}
	differs, err := r.differs(ctx, d.path(manifest.LedgerFolder), "in the plan")
	if differs != nil || err != nil {
		return differs, err
	}
	// Bounds without samples are in the protocol itself: nothing in the ledger would contradict an altered one.
	l, err := ledger.Read(ctx, d.path(manifest.LedgerFolder))
	if err == nil && calibration.CheckProofs(ctx, l.Protocol()) != nil {
		differs = []string{"a bound in its ledger does not hold when it is computed again"}
	}
	return differs, err
}

// AccountOf returns the plan's parameters of the account. They are for k_u of the plan, even if
// no owner has so many examples: the claim does not depend on the data.
func AccountOf(p Plan) Account {
	a := Account{
		Params:      p.Scheme,
		PlanPrivacy: p.Privacy,
		Bounded:     p.Table(),
		Examples:    p.numbered(),
		Strategy:    strategyPath(p),
	}
	if p.Bound != nil && p.Scheme.Sample != sampling.SampleOwners && a.Unit != string(accounting.UnitExample) {
		a.MaxPerOwner = p.Bound.MaxExamplesPerOwner
	}
	return a
}

// accountFaults returns the faults of the claim and of its combination with bound and scheme.
func accountFaults(p Plan) error {
	err := AccountOf(p).Validate()
	if p.Graph == nil || p.Bound == nil {
		return err
	}
	return errors.Join(err, fitsBound(p.Scheme, p.Privacy.Unit, BoundOf(p).Bound))
}

// estimateAccount says whether the account draws samples.
func estimateAccount(p Plan) PlanEstimate {
	method := accountMethod(p)
	return PlanEstimate{
		Files:                 1,
		Sampled:               method == accounting.MonteCarlo || method == accounting.Unproven,
		SuggestedMaxBatchSize: suggestedMaxBatchSize(p),
	}
}

// suggestedMaxBatchSize returns 0 for a plan with a graph: the number of its examples is not known
// yet.
func suggestedMaxBatchSize(p Plan) int {
	run, err := p.run(mechanism.Identity(p.Scheme.Steps))
	if err != nil || p.numbered() == 0 {
		return 0
	}
	size, err := run.SuggestMaxBatchSize(p.Privacy.Epsilon, p.Privacy.Delta)
	if err != nil {
		return 0
	}
	return size
}

// accountMethod returns the method of the account as far as it is known before the examples are,
// and otherwise the most expensive, by samples.
func accountMethod(p Plan) accounting.Method {
	strategy := p.Strategy.StandIn()
	if strategy == nil { // of more than one band
		strategy = &mechanism.Strategy{
			Kind:     mechanism.KindToeplitz,
			Steps:    p.Scheme.Steps,
			Toeplitz: []float64{1, 0.5},
		}
	}
	if run, err := p.run(strategy); err == nil {
		if method, err := run.Method(); err == nil {
			return method
		}
	}
	return accounting.MonteCarlo
}
