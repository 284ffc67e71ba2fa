package report

import "testing"

// TestSignedNumbers: the numbers of the sentences for somebody who signs are read without
// exponents, and none is below the number of the claim.
func TestSignedNumbers(t *testing.T) {
	for epsilon, want := range map[float64]string{1: "2.72", 0.5: "1.65", 8: "2,981", 20: "e^20"} {
		if got := factor(epsilon); got != want {
			t.Errorf("the factor of %g is %s, want %s", epsilon, got, want)
		}
	}
	for p, want := range map[float64]string{1e-5: "one in 100,000", 3e-6: "one in 333,333", 0.5: "0.5", 1e-300: "1e-300"} {
		if got := oneIn(p); got != want {
			t.Errorf("%g is %s, want %s", p, got, want)
		}
	}
}
