package montecarlo

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/param"
	"minsep/internal/stream"
	"minsep/sampling"
)

// Sampler draws privacy losses, each addressed by its number: sample i is lane i mod 8 of batch
// i/8, and a function of (key, spec, direction, i) for one [KernelID]. It is not safe for
// concurrent use; Fork it.
type Sampler struct {
	direction Direction
	kernel    *kernel.Kernel
	draw      func(dst []kernel.Hit, u *kernel.Uniforms) []kernel.Hit // participations of an owner, sorted by step
	key       stream.Key
	uniforms  kernel.Uniforms
	hits      [kernel.Lanes][]kernel.Hit
	out       kernel.Output
}

// NewSampler returns a sampler of the losses of s, which must not be [Drawn], in one direction. Its
// randomness is derived from key, the JSON form of s and the direction, so that one key serves any
// number of specs.
func NewSampler(s Spec, d Direction, key stream.Key) (*Sampler, error) {
	check := param.Checker{}
	check.Require(d == P || d == Q, "direction", d, "must be P or Q")
	check.Add(s.Validate())
	if err := check.Err(); err != nil {
		return nil, err
	}
	config, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	k, err := NewKernel(s)
	if err != nil {
		return nil, err
	}
	key = key.Sub("losses of direction " + string(d) + " of " + string(config))
	sampler := &Sampler{direction: d, kernel: k, key: key, uniforms: kernel.Uniforms{Bulk: stream.NewBulk(key)}}
	if s.MultiOwner != nil {
		sampler.draw = coins{*s.MultiOwner, s.ExamplesPerOwner(), math.Log1p(-s.MultiOwner.Prob)}.draw
	} else {
		process := s.Law.Process().(*sampling.TableProcess)
		sampler.draw = func(dst []kernel.Hit, u *kernel.Uniforms) []kernel.Hit {
			for range s.ExamplesPerOwner() {
				dst = drawOne(process, dst, u)
			}
			slices.SortFunc(dst, func(a, b kernel.Hit) int { return cmp.Compare(a.Step, b.Step) })
			return dst
		}
	}
	return sampler, nil
}

// drawOne appends the participations of one example.
func drawOne(process *sampling.TableProcess, dst []kernel.Hit, u *kernel.Uniforms) []kernel.Hit {
	var buffer [64]int32
	for _, step := range process.Draw(buffer[:0], u, 0) {
		dst = append(dst, kernel.Hit{Step: int(step), Times: 1})
	}
	return dst
}

// Fork returns an equal sampler for another goroutine.
func (s *Sampler) Fork() *Sampler {
	return &Sampler{
		direction: s.direction,
		kernel:    s.kernel.Fork(),
		draw:      s.draw,
		key:       s.key,
		uniforms:  kernel.Uniforms{Bulk: stream.NewBulk(s.key)},
	}
}

// Losses sets dst to the privacy losses of the samples first, first+1, …: ln P(y)/Q(y) with y ~ P
// in direction P, ln Q(y)/P(y) with y ~ Q in direction Q. A range that begins and ends at multiples
// of 8 wastes nothing.
func (s *Sampler) Losses(dst []float64, first uint64) {
	for len(dst) > 0 {
		losses := s.batch(first / kernel.Lanes)
		copied := copy(dst, losses[first%kernel.Lanes:])
		dst, first = dst[copied:], first+uint64(copied)
	}
}

// Values sets dst to the values at an ε, see [Value], of the losses of the samples first, first+1, …
func (s *Sampler) Values(dst []float64, epsilon float64, first uint64) {
	s.Losses(dst, first)
	for i, loss := range dst {
		dst[i] = Value(epsilon, loss)
	}
}

// Sum adds the values at an ε of the samples first … first+count-1. It is safe for concurrent use.
func (s *Sampler) Sum(ctx context.Context, epsilon float64, first, count uint64) (Sum, error) {
	fork := s.Fork()
	return SumOf(ctx, 1, first, count, func(dst []float64, first uint64) { fork.Values(dst, epsilon, first) })
}

// input draws the input of the batch with this number, except for its normals.
func (s *Sampler) input(number uint64) kernel.Input {
	in := kernel.Input{Bulk: s.uniforms.Bulk, Number: number}
	if s.direction == Q {
		return in
	}
	in.Hits = &s.hits
	for lane := range s.hits {
		s.uniforms.Reset(number, kernel.FirstFreeBlock+uint64(lane)<<32)
		s.hits[lane] = s.draw(s.hits[lane][:0], &s.uniforms)
	}
	return in
}

// batch computes eight losses.
func (s *Sampler) batch(number uint64) *kernel.Row {
	in := s.input(number)
	s.kernel.Batch(&in, &s.out)
	losses := &s.out.LogRatio[0]
	if s.direction == Q {
		for lane := range losses {
			losses[lane] = -losses[lane]
		}
	}
	return losses
}
