package montecarlo

import (
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/param"
)

// Toy is a scheme that tests alone know: a law, and a check.
const Toy = "toy"

type toy struct{ lawful }

func (toy) check(s Spec, c *param.Checker) { c.Probability("probability", s.Prob) }

// RegisterToy makes a law the one of Toy.
func RegisterToy(of func(s Spec) law.Law) { schemes[Toy] = toy{lawful{of}} }

// UnregisterToy takes Toy away.
func UnregisterToy() { delete(schemes, Toy) }
