package accounting

import "slices"

// Assumption is something on which a certificate rests, with the place where it is stated or
// proven.
type Assumption struct {
	Text   string `json:"text"`   // in one sentence
	Source string `json:"source"` // a section of docs/formulas.md, and the paper's theorem where it is not ours
}

// The first assumption of the proof is one of these. The assumptions about the training come before
// it.
const (
	sensitivityText = "the sensitivity of the strategy under the participation schema"
	othersText      = "the participations of other examples do not depend on those of the owner: not so, see the reason"
	dominationText  = "vector gradients, chosen adaptively, are dominated by the scalar pair of distributions"
)

var firstOfProof = []string{sensitivityText, othersText, dominationText}

// assumptions lists the assumptions of the protocol's certificate c: first about the training,
// then of the proof. The section on assumptions of docs/formulas.md says more of each.
func (p *Protocol) assumptions(method Method, c *Certificate) []Assumption {
	one := Assumption{
		"each example is clipped on its own to the clip norm and enters no other example's gradient; its activations depend in no bit on the other examples of its microbatch; nothing is released but noisy sums, divided by a constant if at all",
		"docs/formulas.md, F1, F3.0a",
	}
	who := "examples draw their participations independently of each other, with a key that serves this training only"
	if p.Run.Sampler.Owners != nil {
		one = Assumption{
			"the gradients of the examples that an owner brings to a step are averaged, and the mean is clipped to the clip norm, once for each owner; no example enters the " +
				"contribution of another owner; an example's activations depend in no bit on the other examples of its microbatch; nothing is released but noisy sums, divided by a constant such as the expected number of owners, and never by how many took part",
			"docs/formulas.md, F3.0a, F4.9",
		}
		who = "owners draw their participations independently of each other, and which examples they bring independently of those, with a key that serves this training only"
	}
	list := []Assumption{
		one,
		{
			"noise is exact Gaussian and sums are exact; what floating-point numbers tell beside is closed by the grid of the noise, and open without one",
			"docs/formulas.md, F1; docs/noise.md",
		},
		{
			"no step is released twice with other noise, and the noise serves this training only",
			"docs/formulas.md, F1",
		},
	}
	if method == ClosedForm {
		return append(
			list,
			Assumption{
				sensitivityText,
				"docs/formulas.md, F2; arXiv 2211.06530, Corollary 2.1; arXiv 2601.22334, Theorem 1",
			},
			Assumption{
				"delta of the Gaussian mechanism in closed form",
				"docs/formulas.md, F6; arXiv 1805.06530, Theorem 8",
			},
		)
	}
	list = append(
		list,
		Assumption{
			"participations, batch sizes, truncation and padding stay secret",
			"docs/formulas.md, F3.0a; arXiv 2602.09338, section 2",
		},
		Assumption{who, "docs/formulas.md, F3, F3.0a"},
	)
	if p.Run.Sampler.Rotation != nil {
		list = append(
			list,
			Assumption{
				"in no pool has an owner two examples, and a period has the examples of one pool; pools are functions of the public graph, and of coins that serve nothing else",
				"docs/formulas.md, F3.12",
			},
		)
	}
	list = append(list,
		Assumption{"AES in counter mode gives independent uniform words", "NIST SP 800-38A"})
	if method == Unproven {
		return append(list, Assumption{othersText, "docs/formulas.md, F4.1, F4.4; arXiv 2602.09338, Theorem 6.1"})
	}
	list = append(list, Assumption{dominationText, "docs/formulas.md, F3.0a; arXiv 2310.15526, Lemma 4.5"})
	if p.Run.Sampler.Truncation != nil {
		list = append(
			list,
			Assumption{
				"which entries of a batch are cut depends on the entries sampled at that step and on their priorities alone, which are drawn afresh at each step; one maximum holds for the " +
					"whole batch; an entry that is cut counts as having taken part, and is not used later",
				"docs/formulas.md, F3.6, F3.11; docs/accounting.md",
			},
		)
		if c.Points[0].Directions[0].Truncation != nil {
			list = append(
				list,
				Assumption{
					"truncated batches add to delta at most what is listed with each direction",
					"docs/formulas.md, F3.11",
				},
			)
			if c.keepsPlace() {
				list = append(
					list,
					Assumption{
						"the zeroed gradients keep their place in the batches: what truncation adds by a rule with h1 is not true of an example that is removed",
						"docs/formulas.md, F3.11",
					},
				)
			}
		} else {
			list = append(
				list,
				Assumption{
					"the pair for truncated batches, with the number of other sampled examples known",
					"docs/formulas.md, F3.6; arXiv 2602.09338, Corollary D.2",
				},
			)
		}
	}
	return append(list, p.proofs(c)...)
}

// keepsPlace reports whether some point uses a rule of truncation that does not hold for an example
// that is removed.
func (c *Certificate) keepsPlace() bool {
	return slices.ContainsFunc(c.Points, func(pt Claimed) bool {
		return slices.ContainsFunc(
			pt.Directions,
			func(v Verdict) bool { return v.Truncation != nil && v.Truncation.Rule.keepsPlace() },
		)
	})
}

// proofs lists the assumptions behind the verdicts of the first point. The assumptions of sampling
// are listed even if the released candidate was proven without samples, because samples decided
// against the smaller ones.
func (p *Protocol) proofs(c *Certificate) (list []Assumption) {
	used := map[Method]bool{}
	for _, v := range c.Points[0].Directions {
		used[v.Method] = true
	}
	sampled := false
	for _, candidate := range p.Candidates {
		for _, t := range candidate.Trials {
			sampled = sampled || t.Samples > 0
		}
	}
	if sampled {
		list = append(
			list,
			Assumption{
				"likelihood ratios by dynamic program",
				"docs/formulas.md, F3, F4; arXiv 2602.09338, Theorem 5.1",
			},
			Assumption{
				"estimate-verify-release: the candidates were fixed before the first sample, and q is part of delta",
				"docs/formulas.md, F5; arXiv 2602.09338, Theorem A.1",
			},
		)
	}
	if used[RenyiBound] {
		list = append(
			list,
			Assumption{
				"the divergence is at most the largest value of its tilted form, or that of a tangent",
				"docs/formulas.md, F5.2, F5.4, F5.9, F5.10",
			},
		)
	}
	if used[ClosedForm] {
		list = append(
			list,
			Assumption{
				"the divergence is at most that of the Gaussian mechanism for those who take part, with the sensitivity of the strategy under the participations that the scheme allows",
				"docs/formulas.md, F2, F5.16, F6; arXiv 1807.01647, Theorem 2",
			},
		)
	}
	if used[PLD] {
		composed := Assumption{
			"independent events are composed by their privacy loss distributions",
			"docs/formulas.md, F3.5, F6; arXiv 2106.08567",
		}
		if p.Run.allocated() {
			composed = Assumption{
				"the periods are independent, with one step each, and are composed by their privacy loss distributions",
				"docs/formulas.md, F6.3; arXiv 2602.17284",
			}
		}
		list = append(list, composed)
	}
	return list
}
