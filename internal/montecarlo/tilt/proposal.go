package tilt

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// ParamError is a parameter with a value that breaks a rule.
type ParamError = param.Error

// ErrNotTilted is wrapped by errors that say why a problem has no tilted proposal. Plain sampling
// may serve.
var ErrNotTilted = errors.New("no tilted proposal")

// Methods of drawing.
const (
	Zero    = "zero"    // the divergence is 0: no sample is needed, and none is drawn
	Tilted  = "tilted"  // y with density f^θ/N_θ against Q (F5.2), for H(P,Q)
	Tangent = "tangent" // y beyond where a tangent shows that the value is 0 (F5.4), for H(Q,P)
	Plain   = "plain"   // y ~ Q, for H(Q,P) where no tangent helps
)

// Config is one divergence to bound: H(P,Q) at e^Epsilon in direction montecarlo.P, H(Q,P) in
// direction montecarlo.Q.
type Config struct {
	Spec      montecarlo.Spec      `json:"spec"`      // a valid one
	Epsilon   float64              `json:"epsilon"`   // finite, at least 0
	Direction montecarlo.Direction `json:"direction"` // P or Q
}

// Validate returns every fault joined. It does not say whether there is a tilted proposal;
// NewProposal does.
func (c Config) Validate() error {
	check := param.Checker{}
	check.Add(c.Spec.Validate())
	check.Require(
		c.Epsilon >= 0 && !math.IsInf(c.Epsilon, 1),
		"epsilon",
		c.Epsilon,
		"must be a finite number, at least 0",
	)
	check.Require(
		c.Direction == montecarlo.P || c.Direction == montecarlo.Q,
		"direction",
		c.Direction,
		"must be P or Q",
	)
	return check.Err()
}

// Proposal says how the values of a Config are drawn. It is public, and is fixed before the first
// sample: the values depend on it and on a key alone. In JSON its Config is left out, or has the hash
// of the law alone.
type Proposal struct {
	Config
	Method string `json:"method"` // Zero, Tilted, Tangent or Plain

	// Moment is the order of a Tilted proposal.
	Moment Moment `json:"moment,omitzero"`

	// Parts is the number of parts that the run is divided into, with the Moment of one part; 0 for
	// the whole run. Cut is where on a grid of ln B the values of a part B begin (F5.14).
	Parts int `json:"parts,omitempty"`
	Cut   int `json:"cut,omitempty"`

	// Draws is R, the number of draws that f_k of an owner of several examples is the mean of
	// (F4.8); 0 where f_k has a recursion.
	Draws int `json:"draws,omitempty"`

	// Kappa is where on its ray the tangent of a Tangent proposal touches: y0 =
	// -Kappa·direction.
	Kappa float64 `json:"kappa,omitempty"`

	// Bound is M: every value is in [0, M].
	Bound float64 `json:"bound"`

	// Slack bounds the amount, as a share of Bound, by which rounding can lower the mean of the
	// values. It covers the total variation between the distribution of the draws and the distribution
	// of the formulas, and the error of log ratios. Every value is raised by Slack·Bound.
	Slack float64 `json:"slack"`

	// Divergence is a proven upper bound of the divergence, at most Bound: when it is at most δ, no
	// sample is needed.
	Divergence float64 `json:"divergence"`
}

// Validate returns every fault of a proposal that was read from a file. NewVerifier computes the
// moments again.
func (p Proposal) Validate() error {
	check := param.Checker{}
	check.Add(p.Config.Validate())
	check.Require(p.Bound >= 0 && p.Bound <= math.MaxFloat64, "bound", p.Bound, "must be finite and at least 0")
	check.Requiref(p.Slack >= 0 && p.Slack <= maxSlack, "slack", p.Slack, "must be 0 to %g", maxSlack)
	check.Require(
		p.Method == Zero || p.Bound >= leastBound && p.Slack >= lossError(p.Epsilon),
		"bound and slack",
		p.Bound,
		"are too small",
	)
	check.Requiref(p.Draws >= 0 && p.Draws <= maxDraws, "draws", p.Draws, "must be 0 to %d", maxDraws)
	check.Require(
		p.Draws == 0 || p.Spec.MaxExamplesPerOwner > 1 && p.Method != Zero && (p.Method != Plain || p.Bound == 1),
		"draws",
		p.Draws,
		"must be 0: they are for several examples, and plain values with them have the bound 1",
	)
	switch p.Method {
	case Zero, Plain:
	case Tangent:
		check.Positive("kappa", p.Kappa)
	case Tilted:
		m := p.Moment
		check.AtLeast("order", m.Order, p.Spec.ExamplesPerOwner())
		check.Requiref(
			m.Order <= highestOrder(p.Spec) || m.Block > 0 && m.Order <= maxBlockOrder,
			"order",
			m.Order,
			"must be at most %d", highestOrder(p.Spec),
		)
		check.Require(m.Block >= 0 && m.Block <= p.Spec.MinSep(), "block", m.Block, "must be 0 to min-sep")
		check.AtLeast("tables", m.Tables, 0)
		check.Require(
			m.LogN >= 0 && m.LogN <= math.MaxFloat64,
			"log moment",
			m.LogN,
			"must be finite and at least 0",
		)
		check.Requiref(
			p.Parts >= 0 && p.Parts <= mostParts && (p.Parts == 0) == (p.Cut == 0) && p.Cut >= 0,
			"parts and cut",
			p.Parts,
			"must both be 0, or both above 0 with at most %d parts", mostParts,
		)
	default:
		check.Require(false, "method", p.Method, "must be zero, tilted, tangent or plain")
	}
	check.Require(
		(p.Method == Tilted) == (p.Direction == montecarlo.P),
		"method",
		p.Method,
		"must be tilted in direction P, and only there",
	)
	return check.Err()
}

// lossError bounds, as a share of M, the change that two errors make in a value: the error of log
// ratios, below 1e-12 of their size, and the resolution of random words. The change is largest near
// f = e^ε, where a value changes fastest: by less than M·θ·e for a unit of ln f.
func lossError(epsilon float64) float64 { return 2e-9 * (1 + epsilon/20) }

// maxSlack is the largest slack that a proposal may have: part of the form of a proposal.
const maxSlack = 1e-3

// leastBound keeps M, and values over M, in the range of float64.
const leastBound = 1e-250

// inflation is the least relative amount by which N_θ is raised, to cover the errors of N_θ and of
// densities.
const inflation = 1e-9

// NewProposal validates c and chooses the order, or the tangent, with the least M. It
// costs the recursion F5.3 once for each order that is tried: 0.4 s for 7200 steps and min-sep 256.
// Its errors wrap ErrNotTilted when only plain sampling is left, in either direction: as for
// Algorithm 3, or for tables that are too large.
//
// The choice depends on c alone, on no time and no other limit of a machine: the same version makes
// the same proposal everywhere. Another version may choose another one. A protocol holds the
// proposals of its samples as they were chosen, and NewVerifier makes the tables of its order,
// whatever NewProposal would choose now. A bound that needs no samples is compared with the
// Divergence of a new proposal, so a version that finds only a larger bound refuses the
// certificate. When ctx ends, the search ends within about a second, with ctx's error.
//
// work is for callers to whom its time matters more than M: an order above the least is not tried if
// its table takes more, in states times steps (some 5 ns each); +Inf sets no limit. Blocks of steps are
// then tried only where orders end below twice the number of examples per owner. With three or more
// examples, the limit holds for the least order too. The proposal is as valid as any other.
func NewProposal(ctx context.Context, c Config, work float64) (p Proposal, err error) {
	if err := c.Validate(); err != nil {
		return p, err
	}
	if err := tiltable(c.Spec); err != nil {
		return p, err
	}
	columns := likelihood.NewColumns(c.Spec.Strategy)
	if c.Direction == montecarlo.P {
		p, err = forwardProposal(ctx, c, columns, work)
	} else {
		p, err = reverseProposal(ctx, c, columns)
	}
	if ctx.Err() != nil { // whatever was found by then
		return Proposal{}, ctx.Err()
	}
	return p, err
}

// forwardProposal is the proposal of H(P,Q): by exact tables, by blocks of steps where exact tables
// end too early, or by parts of the run where M of the parts is less than half of M of the whole
// run. Blocks are not tried where parts are better than blocks can be.
func forwardProposal(
	ctx context.Context,
	c Config,
	columns *likelihood.Columns,
	work float64,
) (Proposal, error) {
	f := newForward(c, columns, work)
	f.orders(ctx)
	divided, ok := Proposal{}, false
	if bulky(f.moment) {
		divided, ok = partsProposal(ctx, c)
	}
	if !ok || max(divided.Bound, divided.Divergence) >= f.leastInBlocks()/2 {
		f.blocks(ctx)
	}
	whole, err := f.proposal()
	if ok && (err != nil || bulky(whole.Moment) && divided.Bound < whole.Bound/2) {
		if err == nil {
			divided.Divergence = min(divided.Divergence, whole.Divergence)
		}
		return divided, nil
	}
	return whole, err
}

func tiltable(s montecarlo.Spec) error {
	if s.Law == nil {
		return fmt.Errorf("%w for Algorithm 3", ErrNotTilted)
	}
	return nil
}

// forward makes the proposal of H(P,Q).
type forward struct {
	Config
	columns  *likelihood.Columns
	examples int
	family   family
	work     float64 // of a table, at most

	moment    Moment  // of the best order to draw from; order 0 for none
	least     float64 // its M
	walkError float64 // of it
	bound     float64 // M of the best order, or of blocks
	walkable  int     // the highest order to draw tuples from; at first the number of examples
	order     int     // the last
	logN      float64 // ln N_θ of it
	slope     float64 // by which it is above the order before
	converged bool    // higher orders are of no use
	failed    error
}

func newForward(c Config, columns *likelihood.Columns, work float64) *forward {
	f := &forward{
		Config:   c,
		columns:  columns,
		examples: c.Spec.ExamplesPerOwner(),
		family:   familyOf(c.Spec),
		work:     work,
	}
	f.least, f.bound, f.walkable, f.order = math.Inf(1), math.Inf(1), f.examples, 1
	if f.examples == 1 {
		f.moment, f.least = Moment{Order: 1}, 1
	}
	return f
}

// orders tries exact tables, from the least order on. For one example and for two, this order is tried
// with a larger work too; with more, blocks have it too.
func (f *forward) orders(ctx context.Context) {
	k, spec := f.examples, f.Spec
	last := math.Inf(1) // how the order before changed M
	part := 1.0         // of the work of an order that the one before took
	var s *source
	for order := max(2, k); order <= highestOrder(spec); order++ {
		if (order > max(2, k) || k > 2 && !math.IsInf(f.work, 1)) &&
			(!f.family.affordable(spec, order) || part*f.family.work(spec, order) > f.work) {
			break
		}
		most := f.work
		if order == max(2, k) {
			most = max(most, leastWork)
		}
		next, err := sourceAbove(ctx, s, spec, f.columns, order, most)
		if err != nil {
			f.failed = err
			break
		}
		s = next
		if k > 1 && s.work > 0 {
			part = s.work / f.family.work(spec, order)
		}
		m := Moment{Order: order, LogN: s.logN(), Tables: s.version}
		f.order, f.logN, f.slope = order, m.LogN, m.LogN-f.logN
		bound := m.bound(f.Epsilon, k)
		if s.walker != nil {
			f.walkable = order
			if bound < f.least {
				f.moment, f.least, f.walkError = m, bound, s.walkError
			}
		}
		if math.IsInf(f.bound, 1) {
			f.bound = bound
			continue
		}
		ratio := bound / f.bound
		f.bound = min(f.bound, bound)
		// ln M_θ is convex in θ, and nearly a parabola: the next ratio is at least this one, and
		// near ratio²/last.
		if ratio > 1 || ratio*ratio > 0.9*last {
			f.converged = true
			break
		}
		last = ratio
	}
}

// leastInBlocks is the least M that blocks may have, for one example: ln N_θ is convex in θ, so
// that it is above the line through the last two orders. These are known to far less than 1e-6.
func (f *forward) leastInBlocks() float64 {
	least := math.Inf(1)
	for order := f.walkable + 1; order <= maxBlockOrder; order++ {
		m := Moment{Order: order, LogN: max(0, f.logN+f.slope*float64(order-f.order)-1e-6)}
		least = min(least, m.bound(f.Epsilon, 1))
	}
	return least
}

// blocks tries blocks of steps, where more orders may be of use.
func (f *forward) blocks(ctx context.Context) {
	_, rotating := f.family.(rotation)
	if rotating || ctx.Err() != nil || f.converged ||
		f.moment.Order > 0 && !math.IsInf(f.work, 1) && (f.examples == 1 || f.walkable >= 2*f.examples) {
		return
	}
	const most = maxBlockWork
	search := blockSearch{
		spec:    f.Spec,
		columns: f.columns,
		epsilon: f.Epsilon,
		family:  newLawFamily(f.Spec),
		bound:   f.least,
	}
	search.most = min(most, blockShare*f.work)
	search.run(ctx, f.walkable+1)
	if search.most < most && search.moment.Order == 0 &&
		f.moment.Order == 0 { // the shortest that serves at all
		search.most = most
		search.run(ctx, f.walkable+1)
	}
	if search.moment.Order > 0 {
		f.moment, f.least, f.walkError = search.moment, search.bound, search.walkError
		f.bound = min(f.bound, f.least)
	}
}

// proposal is the best that was found.
func (f *forward) proposal() (Proposal, error) {
	if f.moment.Order == 0 || f.moment.Order == 1 && errors.Is(f.failed, ErrStates) {
		if f.failed == nil {
			return Proposal{}, fmt.Errorf(
				"%w for %d examples per owner: %w of an order that serves at so little noise",
				ErrNotTilted,
				f.examples,
				ErrTable,
			)
		}
		return Proposal{}, fmt.Errorf("%w: %w", ErrNotTilted, f.failed)
	}
	p := Proposal{Config: f.Config, Method: Tilted, Moment: f.moment, Draws: drawsFor(f.Spec)}
	p.Slack = lossError(f.Epsilon) + 2*f.walkError
	p.Bound = max(leastBound, f.least*(1+2*p.Slack))
	p.Divergence = min(1, max(f.bound, leastBound), p.Bound)
	return p, nil
}

// reverseProposal is the proposal of H(Q,P). It is 0 when Pr[no participation] ≥ e^-ε, since then f
// ≥ e^-ε everywhere.
func reverseProposal(ctx context.Context, c Config, columns *likelihood.Columns) (Proposal, error) {
	k := c.Spec.ExamplesPerOwner()
	sigma := c.Spec.NoiseMultiplier
	post, err := posteriorOf(c.Spec, columns)
	if err != nil {
		return Proposal{}, fmt.Errorf("%w: %w", ErrNotTilted, err)
	}
	plain := plainBound(c, post)
	if plain <= 0 {
		return Proposal{Config: c, Method: Zero}, nil
	}
	classes := min(1, max(leastBound, classBound(c, columns)))
	if classes < smallClasses {
		bound := min(1, max(leastBound, plain*(1+2*lossError(c.Epsilon))))
		return Proposal{
			Config:     c,
			Method:     Plain,
			Bound:      bound,
			Slack:      lossError(c.Epsilon),
			Divergence: min(bound, classes),
		}, nil
	}
	draws := drawsFor(c.Spec)
	kappa, divergence := bestTangent(ctx, c.Epsilon, k, draws > 0, columns, sigma, post)
	proposal := Proposal{Config: c, Method: Plain, Bound: plain, Slack: lossError(c.Epsilon)}
	if kappa > 0 {
		tail := shiftTangent(kappa, k, columns, sigma, post).tail(draws > 0, c.Epsilon, sigma)
		if tail.bound() < plain {
			proposal = Proposal{
				Config: c,
				Method: Tangent,
				Kappa:  kappa,
				Draws:  draws,
				Bound:  tail.bound(),
				Slack:  tail.slack(c.Epsilon),
			}
		}
	}
	proposal.Bound = max(leastBound, proposal.Bound*(1+2*proposal.Slack))
	if proposal.Method == Plain && draws > 0 { // values of drawn ratios may exceed the bound
		proposal.Draws, proposal.Bound = draws, 1
		divergence = min(divergence, plain)
	}
	if proposal.Method == Plain {
		proposal.Bound = min(1, proposal.Bound) // a bound above 1 is never needed, with rounding too
	}
	proposal.Divergence = min(1, proposal.Bound, max(leastBound, divergence*(1+inflation)))
	proposal.Divergence = min(proposal.Divergence, classes)
	if math.IsNaN(proposal.Divergence) {
		return Proposal{}, fmt.Errorf("%w: the bound of H(Q,P) leaves the range of float64", ErrNotTilted)
	}
	return proposal, nil
}

// plainBound is 1 - e^ε Pr[no participation]: no value of a plain sample is above it, since f ≥
// Pr[no participation].
func plainBound(c Config, post *likelihood.Posterior) float64 {
	return -math.Expm1(c.Epsilon + float64(c.Spec.ExamplesPerOwner())*post.LogNever())
}

func posteriorOf(s montecarlo.Spec, columns *likelihood.Columns) (*likelihood.Posterior, error) {
	points, err := likelihood.NewPoints(s.Law, columns, s.Factor())
	if err != nil {
		return nil, err
	}
	return likelihood.NewPosterior(points), nil
}
