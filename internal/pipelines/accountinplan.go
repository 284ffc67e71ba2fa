package pipelines

import (
	"context"

	"minsep/internal/accounting"
	"minsep/internal/planner"
	"minsep/internal/stages"
)

// init registers the stage for plans.
func init() {
	inPlans["account"] = InPlan{Run: runAccount, Report: reportAccount, Forecast: forecastAccount}
}

// runAccount runs the account of a plan. If nothing is certified, the estimates go to the figures
// with the error.
func runAccount(ctx context.Context, p stages.Plan, o Options, to *Figures) error {
	account := Account(stages.AccountOf(p))
	result, err := account.Run(ctx, o)
	if err != nil {
		result.Out, result.Epsilon, result.Delta = o.Out, account.Epsilon, account.Delta
		to.NotCertified = &result
		return err
	}
	to.Beside = planner.BesideClaim(result.Certificate, p.Strategy)
	return nil
}

// reportAccount takes the figures of a certificate that is there.
func reportAccount(ctx context.Context, p stages.Plan, to *Figures) error {
	c, err := stages.ReadCertificate(ctx, p.Out)
	if err != nil {
		return err
	}
	to.NoiseMultiplier, to.Epsilon, to.Delta = c.NoiseMultiplier, c.Epsilon, c.Delta
	to.Status, to.Reason, to.Protects = string(c.Status), c.Reason, c.Protected()
	// The claim is weak or not by the number of those whom it protects.
	to.Protected = to.owners
	switch {
	case p.Examples > 0:
		to.Protected = p.Examples
	case c.Unit == accounting.UnitExample:
		to.Protected = to.Copies
	}
	to.judge(c, p.Privacy.NoiseMultiplier, to.Protected)
	return nil
}

// forecastAccount adds the forecast of the samples to the estimate of a dry run.
func forecastAccount(ctx context.Context, p stages.Plan, to *stages.PlanEstimate) error {
	strategy, err := p.QuickStrategy(ctx)
	if err != nil {
		return err
	}
	to.Outlook, err = p.Outlook(ctx, strategy, WatchPhase)
	return err
}
