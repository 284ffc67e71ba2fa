package calibration

import (
	"context"
	"crypto/rand"
	"runtime"

	"minsep/internal/accounting"
	"minsep/internal/bisect"
	"minsep/internal/stream"
)

// OwnSamples is what fresh samples prove of a candidate: samples of the reader's own, whose key
// nobody knew when the protocol was made. It finds a ledger that was forged, and one that was made
// again and again until a candidate was accepted, which no repetition of its own samples can.
type OwnSamples struct {
	Samples uint64  `json:"samples"` // in both directions together; 0 if proofs without samples carry the claim
	Delta   float64 `json:"delta"`   // δ of the first point is at most this with a probability of OwnConfidence, over the samples (F5.1′)
	// Further holds Delta of the other certified points, in their order, each with this probability.
	Further []float64 `json:"further,omitempty"`
	// Contradicts says that at some certified point the samples would be as large as they are with a
	// probability of at most 1e-9 if the divergence were at most δ_v.
	Contradicts bool `json:"contradicts,omitempty"`
}

// OwnConfidence is the probability with which OwnSamples.Delta holds, over both directions.
const OwnConfidence = 0.98

// ownMost is the probability of a contradiction where there is none.
const ownMost = 1e-9

// Resample draws samples of the released candidate's trials at its certified points for some seconds of
// processors, with a key that is drawn here and kept nowhere. Trials without samples count with their
// bounds, which CheckProofs computes again.
func Resample(
	ctx context.Context,
	p *accounting.Protocol,
	released *accounting.Released,
	seconds float64,
) (OwnSamples, error) {
	seed := make([]byte, 32)
	if _, err := rand.Read(seed); err != nil {
		return OwnSamples{}, err
	}
	return resample(ctx, p, released, seconds, stream.PublicKey("own samples", seed))
}

func resample(
	ctx context.Context,
	p *accounting.Protocol,
	released *accounting.Released,
	seconds float64,
	key stream.Key,
) (own OwnSamples, err error) {
	const directions = 2
	trials, sampled := p.Candidates[released.Candidate].Trials, 0
	for _, t := range trials {
		if released.Certified[t.Point] && t.Samples > 0 {
			sampled++
		}
	}
	bounds := make([]float64, len(p.Points)) // of δ at each point
	for i, t := range trials {
		if !released.Certified[t.Point] {
			continue
		}
		cost := 0.0
		if t.Truncation != nil {
			cost = t.Truncation.Cost
		}
		bound := &bounds[t.Point]
		if t.Samples == 0 {
			*bound = max(*bound, t.Bound+cost)
			continue
		}
		w, err := newWorker(p, released.Candidate, i, key)
		if err != nil {
			return own, err
		}
		sum, drawn := 0.0, uint64(0)
		for begun, next := clock(runtime.GOMAXPROCS(0)), uint64(Few); ; next *= 2 {
			r, err := w.Run(ctx, drawn, next-drawn, 0)
			if err != nil {
				return own, err
			}
			sum += r.Total().Mean(next-drawn) * float64(next-drawn)
			if drawn = next; 2*(clock(runtime.GOMAXPROCS(0))-begun) > seconds/float64(sampled) {
				break
			}
		}
		mean := min(1, sum/float64(drawn)) // over M
		_, upper := bisect.Between(mean, 1, 0, func(of float64) bool {
			return accounting.FailureProbability(drawn, 1, mean, of) > (1-OwnConfidence)/directions
		})
		own.Samples, *bound = own.Samples+drawn, max(*bound, upper*t.Bound+cost)
		// Values of 1 less those over M have a mean of at least 1 - δ_v/M.
		if claimed := (p.Points[t.Point].Verify - cost) / t.Bound; claimed < mean {
			own.Contradicts = own.Contradicts ||
				accounting.FailureProbability(drawn, 1, 1-mean, 1-claimed) <= ownMost/float64(sampled)
		}
	}
	own.Delta = min(1, bounds[0])
	for i, bound := range bounds[1:] {
		if released.Certified[i+1] {
			own.Further = append(own.Further, min(1, bound))
		}
	}
	return own, nil
}
