package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"minsep/internal/param"
	"slices"
	"strings"
	"sync"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/sampling"
)

// setting is one population and batch size. Its parts are looked at by goroutines of their own;
// the result of one does not depend on another.
type setting struct {
	*planning
	population Population
	owners     bool    // owners take part in place of examples
	batch      float64 // expected, in examples, or in owners where they take part
	base       float64 // noise multiplier of Poisson sampling with independent noise

	rotation *rotation // the population is a pool of it; nil for others
}

// planning is shared by all settings of a request.
type planning struct {
	*Request
	strategies cache

	mu   sync.Mutex
	done int
}

// units is how many examples, or owners, can take part.
func (s *setting) units() int64 {
	if s.owners {
		return s.population.Owners
	}
	return s.population.Examples
}

// most is the number of units that the accounting counts for an owner.
func (s *setting) most() int {
	if s.owners {
		return 1
	}
	return s.perOwner(s.population)
}

// isTwin says whether another setting, of examples, needs the same noise multipliers as one of
// sampled owners: where as many examples are each the only one of an owner.
func (s *setting) isTwin(other *setting) bool {
	return s.owners && !other.owners && other.rotation == nil && other.most() == 1 && s.units() == other.units() &&
		s.batch == other.batch
}

// isLessOf says whether s has the same batches of examples as another setting, and fewer examples
// per owner.
func (s *setting) isLessOf(other *setting) bool {
	return !s.owners && !other.owners && s.rotation == nil && other.rotation == nil && s.batch == other.batch &&
		s.most() < other.most()
}

// part is a sequence of candidates of a setting: each may begin where the one before ended.
type part struct {
	*setting
	rows  []*Row
	known *Row // the best candidate of the stages before; nil if there is none

	fewer []*Row // of as large batches of examples, with fewer examples per owner: the best ones there are tried first
	twin  *part  // its candidates need the same noise multipliers, and were looked at before; nil if there is none
}

// made is a strategy and the figures that do not depend on the scheme.
type made struct {
	strategy *mechanism.Strategy
	err      error
	error    mechanism.Error
	figures  mechanism.Figures
	shorter  float64 // the objective's error for a model that forgets sooner
	norm     float64
}

// cache holds strategies by their parameters.
type cache struct {
	mu  sync.Mutex
	all map[string]func() made
}

// get makes a strategy once.
func (c *cache) get(key string, make func() made) made {
	c.mu.Lock()
	if c.all == nil {
		c.all = map[string]func() made{}
	}
	one := c.all[key]
	if one == nil {
		one = sync.OnceValue(make)
		c.all[key] = one
	}
	c.mu.Unlock()
	return one()
}

// make makes the strategy of parameters, or says why it cannot be used.
func (p *planning) make(ctx context.Context, params mechanism.Params) made {
	return p.strategies.get(described(params), func() (m made) {
		if m.strategy, m.err = params.Make(ctx, p.rates); m.err != nil {
			return m
		}
		problem, err := p.measured(params.Kind).Problem(p.rates)
		if err != nil {
			return made{err: err}
		}
		if m.figures, m.err = (mechanism.Problem{Workload: problem.Workload}).Figures(m.strategy); m.err != nil {
			return m
		}
		if m.error, m.err = m.strategy.Error(problem.Workload); m.err != nil {
			return m
		}
		if problem, err = p.shorter().Problem(p.rates); err != nil {
			return made{err: err}
		}
		shorter, err := m.strategy.Error(problem.Workload)
		if err != nil {
			return made{err: err}
		}
		m.shorter = p.error(shorter)
		m.norm = 1
		if !m.strategy.Normalized {
			for _, norm := range m.strategy.ColumnNorms() {
				m.norm = max(m.norm, norm)
			}
		}
		return m
	})
}

// described is a text of parameters that tells them apart.
func described(p mechanism.Params) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // of numbers and texts
	}
	return string(text)
}

// wanted says whether a scheme and a kind of strategy are asked for.
func (p *planning) wanted(scheme, kind string) bool {
	in := func(list []string, name string) bool { return list == nil || slices.Contains(list, name) }
	return in(p.Schemes, scheme) && in(p.Kinds, kind)
}

// evaluate finds the figures of a candidate. A candidate that cannot be used is refused with
// the reason; an error ends the plan.
func (p *part) evaluate(ctx context.Context, scheme sampling.Params, strategy mechanism.Params) (*Row, error) {
	if !p.wanted(scheme.Scheme, strategy.Kind) {
		return nil, nil
	}
	if p.MaxBatchSize > 0 && scheme.Scheme != "fixed" {
		scheme.MaxBatchSize = p.MaxBatchSize
	}
	row := p.newRow(scheme, strategy)
	p.count(row, 0)
	err := p.find(ctx, row)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var refused *accounting.RefusedError
	var bad *ParamError
	var infeasible *sampling.InfeasibleError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		row.Refused = refused.Reason
	case errors.As(err, &bad):
		row.Refused = bad.Message(bad.Param)
	case errors.Is(err, calibration.ErrTooExpensive):
		row.Refused = NotEstimated + err.Error()
	case errors.Is(err, errLeftOut),
		errors.As(err, &infeasible),
		errors.Is(err, calibration.ErrNoEstimate),
		errors.Is(err, mechanism.ErrNotConverged),
		errors.Is(err, mechanism.ErrTooLarge),
		errors.Is(err, tilt.ErrTable):
		row.Refused = err.Error()
	default:
		return nil, err
	}
	p.rows = append(p.rows, row)
	p.count(row, 1)
	return row, nil
}

// newRow is a candidate of the setting without figures.
func (s *setting) newRow(scheme sampling.Params, strategy mechanism.Params) *Row {
	row := &Row{
		base:        s.base,
		Scheme:      scheme,
		Strategy:    strategy,
		MaxPerOwner: s.population.MaxPerOwner,
		Examples:    s.population.Examples,
		Kept:        s.population.Kept(),
	}
	if s.rotation != nil {
		s.rotation.use(row)
	}
	return row
}

// count shows a candidate that is begun, or was looked at, for those who watch.
func (p *planning) count(row *Row, done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += done
	p.say(row.Name())
}

// say shows the work that is being done. Where candidates are looked at in parallel, mu must be
// held.
func (p *planning) say(text string) {
	if p.Watch != nil {
		p.Watch(Progress{Done: p.done, Text: text})
	}
}

// errLeftOut begins the error of a candidate that is dear, and not refused.
var errLeftOut = errors.New(strings.TrimSuffix(NotEstimated, ": "))

// find finds the noise multiplier of a row, and its figures.
func (p *part) find(ctx context.Context, row *Row) error {
	if takes := row.Strategy.Seconds(); takes > dear {
		return fmt.Errorf(
			"%w: the strategy itself takes about %s of a processor to make: write it into a plan, and minsep run certifies it",
			errLeftOut,
			seconds(takes),
		)
	}
	strategy := p.make(ctx, row.Strategy)
	if strategy.err != nil {
		return strategy.err
	}
	row.Bands = strategy.strategy.Bands()
	of := sampling.Population{Examples: p.population.Examples, Owners: sampling.OwnerSizes{1: p.population.Owners}}
	spec, err := row.Scheme.Spec(of)
	if err != nil {
		return err
	}
	row.run = accounting.Run{
		Sampler:             spec,
		Strategy:            strategy.strategy,
		MaxExamplesPerOwner: p.most(),
		Examples:            p.units(),
	}
	method, err := row.run.Method()
	if err != nil {
		return err
	}
	row.proven = calibration.WithoutSamples(method)
	if loss := row.run.Loss(1); !row.proven && (row.Bands > dearBands || float64(loss.Steps()*loss.Strategy.Bands()) > mostProducts) {
		return fmt.Errorf(
			"%w: estimates with %s of %s take long: write it into a plan, and minsep run certifies it",
			errLeftOut,
			words.Count(loss.Steps(), "step"),
			words.Count(loss.Strategy.Bands(), "band"),
		)
	}
	row.BatchSize = spec.ExpectedBatchSize(of)
	row.TimesEach = row.BatchSize * float64(p.Steps) / float64(p.units())
	if p.rotation != nil {
		row.TimesEach = row.BatchSize * float64(p.Steps) / float64(row.Examples)
	}
	row.SuggestedMaxBatchSize, err = row.run.Untruncated().
		SuggestMaxBatchSize(p.Epsilon, p.Delta)
	if err != nil {
		return err
	}
	row.norm, row.unit = strategy.norm, p.error(strategy.error)
	start, behind := p.guess(row)
	if row.Noise, err = p.noise(ctx, row, start, behind); err != nil {
		return err
	}
	p.figures(row, strategy.figures)
	return nil
}

// guess is the noise multiplier at which a row has the error of the most similar row so far,
// which is nearer than that row's noise multiplier; DP-SGD's where there is no such row. Where
// a row is behind with its guess, the search begins at the noise multiplier from which on it is
// behind: few samples show that a noise multiplier is too small, and many that one is too
// large. With several examples per owner a smaller noise multiplier takes so many more samples
// that the search begins at the guess.
func (p *part) guess(row *Row) (start, behind float64) {
	behind = calibration.Little * p.least() * row.BatchSize / row.unit
	start, least := min(p.base*row.norm, p.least()*row.BatchSize/row.unit), math.Inf(1)
	if p.most() > 1 && p.known != nil { // as much above it as DP-SGD is above DP-SGD
		start = p.base / p.known.base * p.known.Noise.Multiplier * p.known.unit / row.unit
	}
	for _, other := range p.rows {
		if other.Refused != "" || other.Noise.Proven {
			continue
		}
		unlike := math.Abs(math.Log(float64(other.Bands)/float64(row.Bands))) + math.Abs(math.Log(float64(max(1, other.Scheme.MinSep))/float64(max(1, row.Scheme.MinSep))))
		if other.Scheme.Scheme != row.Scheme.Scheme {
			unlike++
		}
		if other.Strategy.Kind != row.Strategy.Kind {
			unlike++
		}
		if unlike <= least {
			least, start = unlike, other.Relative*row.BatchSize/row.unit
			if p.most() == 1 {
				start = min(start, behind)
			}
		}
	}
	if p.most() > 1 { // lower, a divergence takes a fraction of the samples, and of the tables
		start *= math.Exp(-calibration.Farthest)
	}
	return start, behind
}

// noise finds the noise multiplier. The cost of a maximum batch size is taken off δ (F3.11).
func (p *part) noise(ctx context.Context, row *Row, start, behind float64) (calibration.Noise, error) {
	if same := p.sameNoise(row); same != nil {
		row.Truncation = same.Truncation
		same.share(row)
		return same.Noise, nil
	}
	c := p.claim(row)
	n, err := c.Noise(ctx, start, behind)
	if err != nil || row.run.Sampler.Truncation == nil {
		return n, err
	}
	cost, err := row.run.MostTruncationCost(p.Epsilon)
	if err != nil {
		return n, err
	}
	row.Truncation = cost / p.Delta
	if row.Truncation > calibration.MostTruncation {
		return n, param.Fault("max batch size", p.MaxBatchSize,
			"adds %.3g to delta, and may add at most half of %g: a larger maximum adds less", cost, p.Delta)
	}
	c.Delta -= cost
	return c.Noise(ctx, n.Multiplier, behind)
}

// sameNoise is the row of the twin that needs the same noise multiplier, or nil.
func (p *part) sameNoise(row *Row) *Row {
	if p.twin == nil {
		return nil
	}
	scheme := row.Scheme
	scheme.Sample, scheme.ExamplesPerOwner = "", 0
	for _, other := range p.twin.rows {
		if other.Refused == "" && other.Scheme == scheme && described(other.Strategy) == described(row.Strategy) {
			return other
		}
	}
	return nil
}

// claim is the claim of a row, without its maximum batch size.
func (p *planning) claim(row *Row) calibration.Claim {
	return calibration.Claim{
		Run:     row.run.Untruncated(),
		Epsilon: p.Epsilon,
		Delta:   p.Delta * (1 - row.Truncation),
		Seed:    p.Seed,
	}
}
