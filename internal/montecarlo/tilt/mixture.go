package tilt

import (
	"math"

	"minsep/internal/golden"
)

// tupleTables is the version of the tables of tuples that this code makes (F5.3, F5.9). Tables of
// another version bound N_θ differently, and draw other tuples from the same key.
const tupleTables = 3

// Member is one part of the proposal: with probability Weight, y is drawn with density f^Order/N
// against Q. Order 1 is P itself.
type Member struct {
	Order  int     `json:"order"`      // θ, at least 1
	Weight float64 `json:"weight"`     // λ_θ, all together 1
	LogN   float64 `json:"log_moment"` // ln N_θ in nats, N_θ ≥ E_Q f^θ

	// Block is the length of the blocks in which N_θ is bounded and tuples get weights (F5.9); 0
	// where both are exact.
	Block int `json:"block,omitempty"`

	// Tables is the version of the tables of tuples, see tupleTables; 0 for order 1, and where tuples
	// come from clusters or pairs.
	Tables int `json:"tables,omitempty"`
}

// mixture is a proposal with density Σ λ_θ f^θ/N_θ against Q, for values
//
//	v = (f_k - e^ε)_+ / Σ λ_θ f^θ/N_θ,   f_k ≤ f^k,
//
// with f of one example and f_k of the k examples of an owner (F4.3; for k = 1, f_k = f).
type mixture struct {
	members  []Member
	epsilon  float64
	examples int // k
}

// logDensity is ln Σ λ_θ f^θ/N_θ.
func (m mixture) logDensity(logF float64) float64 {
	top := math.Inf(-1)
	for _, p := range m.members {
		top = max(top, math.Log(p.Weight)+float64(p.Order)*logF-p.LogN)
	}
	sum := 0.0
	for _, p := range m.members {
		sum += math.Exp(math.Log(p.Weight) + float64(p.Order)*logF - p.LogN - top)
	}
	return top + math.Log(sum)
}

// value is v.
func (m mixture) value(logF, logFk float64) float64 {
	return m.weigh(logF, logExcess(logFk, m.epsilon))
}

// weigh is v for ln (f_k - e^ε)_+.
func (m mixture) weigh(logF, logExcess float64) float64 {
	if math.IsInf(logExcess, -1) {
		return 0
	}
	return math.Exp(logExcess - m.logDensity(logF))
}

// bound is M, the greatest v. With u = f^k e^-ε = e^z, v ≤ 1/φ(z), φ = Σ λ_θ (e^{ε+z})^{θ/k} / (N_θ
// e^ε (e^z - 1)), and ln φ is convex in z: the logarithm of a sum of exponentials minus ln(e^z -
// 1), which is concave. So φ is least where the slope, Σ (shares) θ/k - 1/(1-e^-z), changes its
// sign. For one θ: M = N_θ e^{-aε} a^a/(1+a)^{1+a}, a = θ/k - 1.
func (m mixture) bound() float64 {
	k := float64(m.examples)
	logF := func(z float64) float64 { return (m.epsilon + z) / k }
	slope := func(z float64) float64 {
		density, mean := m.logDensity(logF(z)), 0.0
		for _, p := range m.members {
			mean += float64(p.Order) * math.Exp(math.Log(p.Weight)+float64(p.Order)*logF(z)-p.LogN-density)
		}
		return mean/k + 1/math.Expm1(-z)
	}
	lo, hi := 0.0, 1.0
	for hi < 1e6 && slope(hi) < 0 {
		lo, hi = hi, 2*hi
	}
	for range 70 {
		if mid := (lo + hi) / 2; slope(mid) < 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return m.value(logF(hi), m.epsilon+hi)
}

// with returns a copy of the mixture in which every weight is multiplied by 1 - share, and the
// weight of member i is then raised by share.
func (m mixture) with(i int, share float64) mixture {
	members := append([]Member(nil), m.members...)
	for j := range members {
		members[j].Weight *= 1 - share
	}
	members[i].Weight += share
	m.members = members
	return m
}

// best returns the mixture with weights that make M small. 1/M is a minimum of functions linear in
// the weights, hence concave, and a search along the line to each member in turn only raises 1/M.
// Any weights are valid.
func (m mixture) best() mixture {
	first := 0
	for i := range m.members {
		if m.only(i).bound() < m.only(first).bound() {
			first = i
		}
	}
	m = m.only(first)
	for range 3 {
		for i := range m.members {
			lo, hi := 0.0, 1.0
			for range 25 {
				a, b := golden.Points(lo, hi) // both anew: ledgers hold values of these very weights
				if m.with(i, a).bound() < m.with(i, b).bound() {
					hi = b
				} else {
					lo = a
				}
			}
			if next := m.with(i, lo); next.bound() < m.bound()*(1-1e-6) {
				m = next
			}
		}
	}
	kept := m.members[:0:0]
	total := 0.0
	for _, p := range m.members {
		if p.Weight > 1e-3 {
			kept = append(kept, p)
			total += p.Weight
		}
	}
	for i := range kept {
		kept[i].Weight /= total
	}
	m.members = kept
	return m
}

// only returns the mixture of member i alone. Weights of 0 stay in the list, to be raised.
func (m mixture) only(i int) mixture {
	members := append([]Member(nil), m.members...)
	for j := range members {
		members[j].Weight = 0
	}
	members[i].Weight = 1
	m.members = members
	return m
}
