package report

import (
	"fmt"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/words"
)

// sign states for somebody who signs, in plain sentences, the promise, whom it protects, and the
// gain of an attacker. It returns nil if nothing is proven.
func (r *Run) sign() []string {
	if !r.proven() {
		return nil
	}
	c := r.Certificate
	who := c.Protected()
	if n := r.Report.Owners; n > 0 {
		who += fmt.Sprintf(" (one of %s)", words.Grouped(n))
	}
	text := []string{
		fmt.Sprintf("What is promised, and to whom: to %s, that whatever may come of this training, the model and all that it releases, is at most %s times as likely with their data as without it, but for a probability of %s (ε = %g, δ = %g)%s.",
			who, factor(c.Epsilon), oneIn(c.Delta), c.Epsilon, c.Delta, replaced(c, r.Report.Owners)),
		"What it rests on: that the trainer clips, adds the noise and keeps the batches secret as this page says, and that nobody else has the key.",
	}
	bounds, attack := c.AttackBounds(), "What an attacker gains: "
	rate := bounds.Rates[1]
	if rate.TPR >= accounting.WeakBound {
		attack += "this claim does not bound it: somebody who sees all of that may be as good as certain of whose data took part."
	} else {
		attack += fmt.Sprintf("somebody who sees all of that, and accuses one in %.0f of those whose data did not take part, finds at most %s in 100 of those whose data did.", 1/rate.FPR, accounting.RoundedUp(100*rate.TPR, 3))
	}
	text = append(text, attack)
	for _, why := range r.Report.Weak {
		text = append(text, "This promise is weak: "+why+".")
	}
	if r.Report.Kept != "" {
		text = append(text, "Data: "+r.Report.Kept+".")
	}
	return text
}

// replaced states the claim for data that are replaced by other data in place of being left out:
// two claims one after the other. It says so if that claim is weak for this number of owners; 0
// stands for an unknown number.
func replaced(c *accounting.Certificate, owners int64) string {
	delta := c.Delta * (1 + math.Exp(c.Epsilon))
	if delta >= 1 {
		return "; nothing follows for data that are replaced by others in place of being left out"
	}
	text := fmt.Sprintf("; for data that are replaced by others in place of being left out, ε = %g and δ = %s", 2*c.Epsilon, accounting.RateUp(delta))
	if owners > 0 && delta*float64(owners) >= 1 {
		text += fmt.Sprintf(", which is weak: this δ is not below 1/%s, one over their number", words.Grouped(owners))
	}
	return text
}

// factor writes e^ε in words, rounded up.
func factor(epsilon float64) string {
	switch x := math.Exp(epsilon); {
	case x < 100:
		return accounting.RoundedUp(x, 3)
	case x < 1e6:
		return words.Grouped(int64(math.Ceil(x)))
	}
	return fmt.Sprintf("e^%g", epsilon)
}

// oneIn writes a probability as one in so many, rounded up; below 1e-15 and above a tenth it writes
// the number.
func oneIn(p float64) string {
	if p < 1e-15 || p > 0.1 {
		return fmt.Sprintf("%.3g", p)
	}
	return "one in " + words.Grouped(int64(math.Floor(1/p*(1+1e-12))))
}
