package accounting

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"minsep/internal/montecarlo"
	"minsep/internal/param"
	"minsep/internal/strictjson"
)

// protocolFormat is the format of a Protocol in JSON.
const protocolFormat = 1

// Protocol is a verification that is fixed and recorded before its first sample (F5; arXiv
// 2602.09338, Algorithm 5). Its certificate is a function of the protocol and the sums of its
// trials, see [Protocol.Certificate].
//
// Candidates have rising noise multipliers, so each is at least as private as the ones before it.
// Every candidate has one trial for each point (ε, δ) and direction. A trial without samples is a
// proof: its divergence is at most Bound ≤ δ_v. A trial with samples draws values in [0, Bound]
// with an expectation of at least the divergence, and accepts when their mean is at most δ', its
// own or its point's. Trials use independent randomness. The protocol releases the smallest
// candidate for which it and all larger ones are accepted, in both directions, at the first point.
// By Theorem A.1 the release is (ε, δ_v + q(1-δ_v))-DP with the q of a single trial: for a wrong
// release the largest candidate that is not private must be accepted, and one of its two directions
// has a divergence above δ_v.
//
// Further points are certified by the same rule at the same candidate. Every point counts the
// failure probabilities of all points.
type Protocol struct {
	Format     int         `json:"format"`         // 1
	Run        Run         `json:"run"`            // the run that privacy is claimed for
	Unit       Unit        `json:"unit,omitempty"` // whom the points protect: UnitExample, or empty for UnitOwner
	Points     []Point     `json:"points"`         // at least one; the first decides which candidate is released
	Candidates []Candidate `json:"candidates"`     // at least one, by rising noise multiplier
	// Earlier holds the protocols, for any claim, whose samples were seen before this one was
	// fixed. Their failure probabilities are added.
	Earlier     []Earlier `json:"earlier,omitempty"`
	KernelID    string    `json:"kernel_id,omitempty"`   // of the samples, see [montecarlo.KernelID]; "" without samples
	CodeVersion string    `json:"code_version"`          // of minsep
	PlanSHA256  string    `json:"plan_sha256,omitempty"` // of the parameters of the batches, 64 hexadecimal digits; "" if not known
}

// Point is one claim, with its thresholds.
type Point struct {
	Epsilon float64 `json:"epsilon"` // at least 0
	Delta   float64 `json:"delta"`   // the claimed δ: at least 1e-300, below 1
	Thresholds
}

// Candidate is one noise multiplier with its trials.
type Candidate struct {
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ: standard deviation of z in units of the clip norm, above 0
	Trials          []Trial `json:"trials"`           // one for each point and direction
}

// Trial is the test of one direction at one point.
type Trial struct {
	Point     int                  `json:"point"`             // index into Points
	Direction montecarlo.Direction `json:"direction"`         // P or Q
	Method    Method               `json:"method"`            // MonteCarlo or Unproven with samples; otherwise the method of the proof
	Bound     float64              `json:"bound"`             // M, finite and at least 0: the largest value, or without samples a bound of the divergence
	Samples   uint64               `json:"samples,omitempty"` // s, at most 1e15; 0 for a proof
	Accept    float64              `json:"accept,omitempty"`  // δ' of this trial, 0 to δ_v; 0 to use the point's
	// Truncation is set in a run with a maximum batch size if Bound and the values are of the pair
	// without truncation. It holds the cost that truncation adds to the divergence; the trial's
	// threshold is δ_v less this cost. If it is nil in such a run, Method is PLD, and Bound is of the
	// composition of truncated batches.
	Truncation *Truncated `json:"truncation,omitempty"`
	// Values describes how the values are drawn, in a format of the package that draws them. It is
	// public and part of the protocol.
	Values json.RawMessage `json:"values,omitempty"`
}

// Earlier is an earlier protocol with its failure probability.
type Earlier struct {
	ProtocolSHA256     string  `json:"protocol_sha256"`     // 64 hexadecimal digits
	FailureProbability float64 `json:"failure_probability"` // of all its points, in [0, 1)
}

// Validate reports every fault, such as thresholds that do not add up to the claimed δ, too few
// samples for q, or missing directions.
func (p *Protocol) Validate() error {
	c := param.Checker{}
	c.Requiref(p.Format == protocolFormat, "protocol format", p.Format, "must be %d", protocolFormat)
	c.Add(p.Run.Validate())
	c.Require(len(p.Points) > 0, "points", len(p.Points), "must not be empty")
	c.Require(p.Unit == "" || p.Unit == UnitExample, "unit", p.Unit, "must be example, or left out for owner")
	c.Require(p.Unit != UnitExample || p.Run.Sampler.Owners == nil, "unit", p.Unit, ownersSampled)
	c.Require(
		p.Unit != UnitExample || p.Run.MaxExamplesPerOwner == 1,
		"max examples per owner",
		p.Run.MaxExamplesPerOwner,
		"must be 1 where single examples are protected",
	)
	c.Require(len(p.Candidates) > 0, "candidates", len(p.Candidates), "must not be empty")
	failure := p.failure()
	for _, e := range p.Earlier {
		c.Require(
			e.FailureProbability >= 0 && e.FailureProbability < 1,
			"earlier failure probability",
			e.FailureProbability,
			"must be at least 0 and below 1",
		)
		c.Require(
			isDigest(e.ProtocolSHA256),
			"earlier protocol",
			e.ProtocolSHA256,
			"must be a SHA-256 in 64 hexadecimal digits",
		)
	}
	c.Require(
		p.PlanSHA256 == "" || isDigest(p.PlanSHA256),
		"plan SHA-256",
		p.PlanSHA256,
		"must be 64 hexadecimal digits",
	)
	for _, pt := range p.Points {
		checkEpsilon(&c, pt.Epsilon)
		checkDelta(&c, pt.Delta)
		ok := pt.Accept >= 0 && pt.Accept <= pt.Verify && pt.FailureProbability >= 0 && pt.FailureProbability < 1
		c.Require(
			ok,
			"thresholds",
			pt.Thresholds,
			"must have 0 ≤ accept ≤ verify and a failure probability in [0,1)",
		)
		total := Thresholds{pt.Accept, pt.Verify, failure}.Total()
		c.Requiref(
			total <= pt.Delta*(1+1e-12),
			"δ_v + q(1-δ_v)",
			total,
			"must be at most the δ claimed, %g", pt.Delta,
		)
	}
	last := 0.0
	for _, candidate := range p.Candidates {
		c.Positive("noise multiplier", candidate.NoiseMultiplier)
		c.Require(
			candidate.NoiseMultiplier > last,
			"noise multiplier",
			candidate.NoiseMultiplier,
			"must be above the candidate before it",
		)
		last = candidate.NoiseMultiplier
		p.checkTrials(&c, candidate)
	}
	return c.Err()
}

func (p *Protocol) checkTrials(c *param.Checker, candidate Candidate) {
	type place struct {
		point     int
		direction montecarlo.Direction
	}
	seen := map[place]int{}
	for _, t := range candidate.Trials {
		c.Require(
			t.Direction == montecarlo.P || t.Direction == montecarlo.Q,
			"direction",
			t.Direction,
			"must be P or Q",
		)
		c.Require(t.Bound >= 0 && !math.IsInf(t.Bound, 1), "bound", t.Bound, "must be finite and at least 0")
		if t.Point < 0 || t.Point >= len(p.Points) {
			c.Requiref(false, "point of a trial", t.Point, "must be below %d", len(p.Points))
			continue
		}
		seen[place{t.Point, t.Direction}]++
		pt := p.Points[t.Point]
		pt.Verify = p.checkTruncation(c, t, pt)
		c.Requiref(
			t.Accept >= 0 && t.Accept <= pt.Verify,
			"accepted mean of a trial",
			t.Accept,
			"must be at least 0 and at most δ_v, %g", pt.Verify,
		)
		if t.Samples == 0 {
			c.Require(t.Accept == 0, "accepted mean of a trial without samples", t.Accept, "must be left out")
			c.Require(t.Method != MonteCarlo, "method of a trial without samples", t.Method, "must be a proof")
			c.Requiref(
				t.Bound <= pt.Verify,
				"bound of a trial without samples",
				t.Bound,
				"must be at most δ_v, %g", pt.Verify,
			)
			continue
		}
		c.Requiref(
			t.Method == MonteCarlo || t.Method == Unproven,
			"method of a trial with samples",
			t.Method,
			"must be %q", MonteCarlo,
		)
		c.Requiref(t.Samples <= maxSamples, "samples", t.Samples, "must be at most %g", maxSamples)
		q := FailureProbability(t.Samples, t.Bound, p.accept(t), pt.Verify)
		c.Requiref(
			q <= pt.FailureProbability*(1+1e-9),
			"failure probability of a trial",
			q,
			"must be at most %g: more samples are needed", pt.FailureProbability,
		)
	}
	for point := range p.Points {
		for _, d := range montecarlo.Directions {
			n := seen[place{point, d}]
			c.Requiref(
				n == 1,
				"trials of a point and direction",
				n,
				"must be 1 for point %d, direction %s, noise multiplier %g",
				point,
				d,
				candidate.NoiseMultiplier,
			)
		}
	}
}

// accept returns the largest mean that a trial accepts.
func (p *Protocol) accept(t Trial) float64 {
	if t.Accept > 0 {
		return t.Accept
	}
	return p.Points[t.Point].Accept
}

// failure is the failure probability that counts for every point: the sum over all points and all
// earlier protocols.
func (p *Protocol) failure() (q float64) {
	for _, pt := range p.Points {
		q += pt.FailureProbability
	}
	for _, e := range p.Earlier {
		q += e.FailureProbability
	}
	return q
}

// Encode validates the protocol and returns the bytes that are recorded and hashed. Equal protocols
// have equal bytes.
func (p *Protocol) Encode() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return encode(p)
}

// SHA256 is the hash of Encode, in hexadecimal digits.
func (p *Protocol) SHA256() (string, error) {
	b, err := p.Encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// ParseProtocol reads the output of Encode and nothing else: unknown fields, another spelling
// of the same values, or trailing bytes are errors.
func ParseProtocol(data []byte) (*Protocol, error) {
	var p Protocol
	if err := strictjson.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("protocol: %w", err)
	}
	again, err := p.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, data) {
		return nil, fmt.Errorf("protocol: must be in the form that Encode writes")
	}
	return &p, nil
}

// encode writes indented JSON and a newline.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

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
		return append(list, Assumption{othersText, "docs/formulas.md, F4.1; arXiv 2602.09338, Theorem 6.1"})
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

// Certificate applies the release rule to the sums and records the result. The error wraps
// ErrNotVerified if no candidate was verified.
func (p *Protocol) Certificate(tallies []Tally) (*Certificate, error) {
	hash, err := p.SHA256()
	if err != nil {
		return nil, err
	}
	method, err := p.Run.Method()
	if err != nil {
		return nil, err
	}
	released, err := p.Release(tallies)
	if err != nil {
		return nil, err
	}
	c := &Certificate{
		Format:          formatOf(p.Run),
		Status:          Verified,
		Epsilon:         p.Points[0].Epsilon,
		Delta:           p.Points[0].Delta,
		NoiseMultiplier: p.Candidates[released.Candidate].NoiseMultiplier,
		Run:             p.Run,
		Unit:            p.unit(),
		Adjacency:       exampleAdjacency,
		ProtocolSHA256:  hash,
		PlanSHA256:      p.PlanSHA256,
		CodeVersion:     p.CodeVersion,
	}
	if p.Run.MaxExamplesPerOwner > 1 || p.Run.Sampler.Rotation != nil || method == Unproven {
		c.Adjacency = ownerAdjacency
	}
	if p.Run.Sampler.Owners != nil {
		c.Adjacency = sampledAdjacency
	}
	if p.Unit == UnitExample {
		c.Adjacency = singleAdjacency
	}
	if strings.HasPrefix(c.Adjacency, exampleAdjacency) {
		c.Graph = fixedGraph
	}
	for i, pt := range p.Points {
		if released.Certified[i] {
			c.Points = append(
				c.Points,
				Claimed{pt.Epsilon, pt.Delta, pt.Verify, p.failure(), released.Verdicts[i]},
			)
		}
	}
	for _, v := range c.Points[0].Directions {
		if c.Method == "" || v.Samples > 0 {
			c.Method = v.Method
		}
		if v.Samples > 0 {
			c.KernelID = p.KernelID
		}
	}
	if method == Unproven {
		c.Status, c.Reason, c.Method = NotProven, unprovenReason, Unproven
	}
	c.Assumptions = p.assumptions(method, c)
	return c, nil
}

// next returns the claim of the first point for a protocol that follows p. The failure
// probabilities of p and of its earlier protocols count as earlier.
func (p *Protocol) next() Claim {
	c := Claim{Delta: p.Points[0].Delta}
	for _, e := range p.Earlier {
		c.Earlier += e.FailureProbability
	}
	for _, point := range p.Points {
		c.Earlier += point.FailureProbability
	}
	return c
}

// checkTruncation returns the threshold of a trial of the point: δ_v less the cost of truncation.
func (p *Protocol) checkTruncation(c *param.Checker, t Trial, pt Point) (verify float64) {
	cut := p.Run.Sampler.Truncation != nil
	if t.Truncation == nil {
		c.Require(
			!cut || p.Run.TruncatedPair() && t.Method == PLD,
			"truncation of a trial",
			"none",
			"must be given: only a composition of the run's own events bounds batches that are cut, and samples and other proofs are of batches that are not",
		)
		return pt.Verify
	}
	c.Require(
		p.Run.isCut(),
		"truncation of a trial",
		t.Truncation.Cost,
		"must be left out for a run without a maximum batch size, or with examples that are not independent",
	)
	t.Truncation.check(c)
	c.Requiref(
		t.Truncation.Cost <= pt.Verify,
		"cost of the truncation",
		t.Truncation.Cost,
		"must be at most δ_v, %g", pt.Verify,
	)
	return pt.Verify - t.Truncation.Cost
}

// unit returns the protocol's unit; an empty one is UnitOwner.
func (p *Protocol) unit() Unit {
	if p.Unit == "" {
		return UnitOwner
	}
	return p.Unit
}
