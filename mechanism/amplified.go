package mechanism

import (
	"cmp"
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"minsep/internal/param"
)

// KindAmplified is the Toeplitz C of least error times noise multiplier under sampling (F1.3).
const KindAmplified = "amplified-toeplitz"

// Noise multipliers of independent noise that an amplified strategy can be made for.
const (
	minIndependentNoise     = 1e-2
	maxIndependentNoise     = 1e6
	defaultIndependentNoise = 1.0
)

func init() {
	register(Family{
		Kind: KindAmplified, Rank: 25,
		Help: "the best Toeplitz strategy of --bands bands for batches at random",
		Size: BandsSize, options: []string{"independent-noise"},
		bands: givenBands,
		check: func(p Params, c *param.Checker) {
			x := cmp.Or(p.IndependentNoise, defaultIndependentNoise)
			c.Require(x >= minIndependentNoise && x <= maxIndependentNoise, "independent-noise", x, "must be 0.01 to 1e6")
		},
		make: func(ctx context.Context, problem Problem, p Params) (*Strategy, error) {
			return amplifiedToeplitz(ctx, problem, p.Bands, cmp.Or(p.IndependentNoise, defaultIndependentNoise))
		},
		// an evaluation of a recursive workload, of some hundred, takes about 2 ns a step and band
		seconds: func(p Params) float64 { return 4e-7 * float64(p.Steps) * float64(p.Bands) },
	})
}

// AmplifiedNoise estimates the noise multiplier σ̂ that a Toeplitz C needs under sampling, if
// independent noise needs the multiplier independent (F1.3). c is the first column of C, without
// negative entries and with c_0 > 0. The estimate chooses strategies, and proves nothing. It lies
// between ‖c‖ and Σ c times independent.
func AmplifiedNoise(c []float64, independent float64) float64 {
	return math.Sqrt(amplified(autocorrelation(c), independent))
}

// IndependentNoise inverts [AmplifiedNoise]: it returns the multiplier of independent noise at
// which AmplifiedNoise of c is sigma.
func IndependentNoise(c []float64, sigma float64) float64 {
	level, _ := logExcess(autocorrelation(c), sigma*sigma)
	if level > 30 { // ln(e^x - 1) is x
		return 1 / math.Sqrt(level)
	}
	return 1 / math.Sqrt(math.Log1p(math.Exp(level)))
}

// autocorrelation returns a_k = Σ_i c_i c_{i+k} for k from 0.
func autocorrelation(c []float64) []float64 {
	a := make([]float64, len(c))
	for k := range a {
		a[k] = floats.Dot(c[:len(c)-k], c[k:])
	}
	return a
}

// logExcess returns ln Σ_{|k|<w} (exp(a_k/s) - 1), without overflow as a_0 is the largest a_k, and its
// derivative by ln s.
func logExcess(a []float64, s float64) (value, slope float64) {
	sum, twice := 0.0, 1.0
	for _, v := range a {
		e := twice * math.Exp((v-a[0])/s) // over exp(a_0/s)
		sum -= e * math.Expm1(-v/s)
		slope -= e * v / s
		twice = 2
	}
	return a[0]/s + math.Log(sum), slope / sum
}

// amplified returns s = σ̂², at which logExcess is ln(exp(1/independent²) - 1). It takes Newton's
// method in ln s within a bracket.
func amplified(a []float64, independent float64) float64 {
	x := 1 / (independent * independent)
	level := x + math.Log(-math.Expm1(-x))
	// Σ(e^{x_k} - 1) is at least its first term, and at most e^{Σx_k} - 1.
	low, high := math.Log(a[0]/x), math.Log((2*floats.Sum(a)-a[0])/x)
	u := low
	for range 200 {
		value, slope := logExcess(a, math.Exp(u))
		if value > level {
			low = u
		} else {
			high = u
		}
		next := u - (value-level)/slope
		if !(next > low && next < high) {
			next = (low + high) / 2
		}
		near := math.Abs(next-u) < 1e-15*max(1, math.Abs(u)) || high-low < 1e-15
		if u = next; near {
			break
		}
	}
	return math.Exp(u)
}

// logAmplifiedNoise returns ln σ̂² and adds its gradient by c to grad. By the implicit function
// theorem, ∂ ln σ̂/∂c_j = Σ_{|k|<w} E_k c_{j+k} / Σ_{|k|<w} E_k a_k, with E_k = exp((a_k - a_0)/σ̂²).
func logAmplifiedNoise(c, grad []float64, independent float64) float64 {
	a := autocorrelation(c)
	s := amplified(a, independent)
	weights := make([]float64, len(a))
	for k, v := range a {
		weights[k] = math.Exp((v - a[0]) / s)
	}
	total := 2*floats.Dot(weights, a) - weights[0]*a[0]
	for k, e := range weights {
		floats.AddScaled(grad[:len(c)-k], 2*e/total, c[k:])
		if k > 0 {
			floats.AddScaled(grad[k:], 2*e/total, c[:len(c)-k])
		}
	}
	return math.Log(s)
}

// amplifiedToeplitz returns the Toeplitz strategy of least error times [AmplifiedNoise] among those
// without negative entries, scaled to column norm one. It ignores the participation.
func amplifiedToeplitz(ctx context.Context, p Problem, bands int, independent float64) (*Strategy, error) {
	logError, err := newToeplitzError(p, bands)
	if err != nil {
		return nil, err
	}
	c, loss, err := minimizeColumn(ctx, bands, positiveColumn, func(c, grad []float64) float64 {
		return logError(c, grad) + logAmplifiedNoise(c, grad, independent)
	})
	if err != nil {
		return nil, err
	}
	for j, v := range c {
		if v < negligible {
			c[j] = 0
		}
	}
	floats.Scale(1/euclidean(c), c)
	s, err := valid(&Strategy{Kind: KindAmplified, Steps: p.Workload.Steps, Toeplitz: c})
	if err != nil {
		return nil, err
	}
	squared, err := p.squaredError(s)
	if err != nil {
		return nil, err
	}
	if err := checkLoss(squared*math.Pow(AmplifiedNoise(c, independent), 2), loss); err != nil {
		return nil, err
	}
	return s, nil
}

// negligible is the size, relative to the first entry, below which an entry becomes 0. The search
// is over logarithms, and the logarithm of an entry with optimum 0 falls for ever.
const negligible = 1e-14
