package calibration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"minsep/internal/accounting"
	"minsep/internal/ledger"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/parallel"
	"minsep/internal/stream"
)

// Values says how the values of a trial are drawn: its Values field in JSON.
type Values struct {
	// Tilt is the plan of tilted sampling, or by a tangent; its Config is left out, being the run's. Without a plan the values are hockey-stick values of losses drawn from the direction's
	// own distribution, with bound 1.
	Tilt *tilt.Proposal `json:"tilt,omitempty"`
}

// Worker computes samples of one trial of a protocol.
type Worker struct {
	sampler
	epsilon float64
}

// NewWorker prepares the tables of a trial, which may take seconds. The trial must have samples.
func NewWorker(p *accounting.Protocol, candidate, trial int) (*Worker, error) {
	hash, err := p.SHA256()
	if err != nil {
		return nil, err
	}
	if id := montecarlo.KernelID(); id != p.KernelID {
		return nil, fmt.Errorf(
			"this machine's kernel is %s, the protocol's is %s: results of different kernels are not mixed",
			id,
			p.KernelID,
		)
	}
	key, err := verifierKey(hash, candidate, trial)
	if err != nil {
		return nil, err
	}
	return newWorker(p, candidate, trial, key)
}

// newWorker prepares the tables of a trial, whose samples have a key. The bound of the trial is
// computed again.
func newWorker(p *accounting.Protocol, candidate, trial int, key stream.Key) (*Worker, error) {
	if candidate < 0 || candidate >= len(p.Candidates) || trial < 0 ||
		trial >= len(p.Candidates[candidate].Trials) {
		return nil, fmt.Errorf("the protocol has no trial %d of candidate %d", trial, candidate)
	}
	t := p.Candidates[candidate].Trials[trial]
	var v Values
	err := json.Unmarshal(t.Values, &v)
	if err != nil {
		return nil, fmt.Errorf("values of trial %d of candidate %d: %w", trial, candidate, err)
	}
	d := &divergence{Config: tilt.Config{
		Spec:      p.Run.Loss(p.Candidates[candidate].NoiseMultiplier),
		Epsilon:   p.Points[t.Point].Epsilon,
		Direction: t.Direction,
	}}
	switch {
	case v.Tilt == nil && t.Bound < 1:
		return nil, fmt.Errorf("bound %g of plain values: must be at least 1", t.Bound)
	case v.Tilt != nil && v.Tilt.Bound != t.Bound:
		return nil, fmt.Errorf("bound %g of a trial, and the plan has %g", t.Bound, v.Tilt.Bound)
	case v.Tilt != nil:
		d.proposal = v.Tilt
		d.proposal.Config = d.Config
	}
	s, err := d.sampler(key) // which computes the bound again
	return &Worker{s, d.Epsilon}, err
}

// verifierKey is public: anybody can repeat a verification. No two trials of any protocols share
// it.
func verifierKey(protocolSHA256 string, candidate, trial int) (stream.Key, error) {
	config, err := json.Marshal(struct {
		Protocol  string `json:"protocol"`
		Candidate int    `json:"candidate"`
		Trial     int    `json:"trial"`
	}{protocolSHA256, candidate, trial})
	return stream.PublicKey("verify", config), err
}

// Run computes the samples first … first+count-1, with workers goroutines, or one for each
// processor where workers is not above 0.
func (w *Worker) Run(ctx context.Context, first, count uint64, workers int) (r ledger.Result, err error) {
	type block struct{ first, count uint64 }
	var blocks []block
	for from, size := range (ledger.Unit{First: first, Count: count}).Blocks {
		blocks = append(blocks, block{from, size})
	}
	r.Sums = make([]montecarlo.Sum, len(blocks))
	errs := parallel.Each(len(blocks), workers, func(i int) (err error) {
		r.Sums[i], err = w.sum(ctx, blocks[i].first, blocks[i].count)
		return err
	})
	return r, errors.Join(errs...)
}

// sum computes samples one after another.
func (w *Worker) sum(ctx context.Context, first, count uint64) (sum montecarlo.Sum, err error) {
	if w.tilted != nil {
		return w.tilted.Sum(ctx, first, count)
	}
	return w.plain.Sum(ctx, w.epsilon, first, count)
}
