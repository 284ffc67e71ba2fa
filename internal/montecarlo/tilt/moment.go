package tilt

import "math"

// tupleTables is the version of the tables of tuples that this code makes (F5.3, F5.9). Tables of
// another version bound N_θ differently, and draw other tuples from the same key.
const tupleTables = 4

// Moment is an order with its moment, by which y is drawn with density f^θ/N against Q. Order 1 is P
// itself. For k examples of an owner, of ratio f_k ≤ f^k, the values are
//
//	v = N (f_k - e^ε)_+ / f^θ.
type Moment struct {
	Order int     `json:"order"`      // θ, at least 1
	LogN  float64 `json:"log_moment"` // ln N in nats, N ≥ N_θ = E_Q f^θ

	// Block is the length of the blocks in which N_θ is bounded and tuples get weights (F5.9); 0
	// where both are exact.
	Block int `json:"block,omitempty"`

	// Tables is the version of the tables of tuples, see tupleTables; 0 for order 1, and where tuples
	// come from clusters or pairs.
	Tables int `json:"tables,omitempty"`
}

// logDensity is ln f^θ/N.
func (m Moment) logDensity(logF float64) float64 { return float64(m.Order)*logF - m.LogN }

// value is v for ln f and ln (f_k - e^ε)_+.
func (m Moment) value(logF, logExcess float64) float64 {
	if math.IsInf(logExcess, -1) {
		return 0
	}
	return math.Exp(logExcess - m.logDensity(logF))
}

// logBound is ln M, M = N e^{-aε} a^a/(1+a)^{1+a} with a = θ/k - 1 ≥ 0: no v is above M.
func (m Moment) logBound(epsilon float64, k int) float64 {
	a := float64(m.Order)/float64(k) - 1
	log := m.LogN - a*epsilon - (1+a)*math.Log1p(a)
	if a > 0 {
		log += a * math.Log(a)
	}
	return log
}

// bound is M.
func (m Moment) bound(epsilon float64, k int) float64 { return math.Exp(m.logBound(epsilon, k)) }
