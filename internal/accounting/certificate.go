package accounting

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/param"
	"minsep/internal/strictjson"
	"minsep/internal/words"
)

// certificateFormat is the format of certificate.json. It rises when a column changes its meaning;
// readers refuse columns that they do not know.
const certificateFormat = 1

// ownerCertificateFormat is the format of a certificate for sampled owners, so that no reader takes
// the claim for one about a training that clips each example.
const ownerCertificateFormat = 2

// formatOf returns the format of the certificate of a run.
func formatOf(r Run) int {
	if r.Sampler.Owners != nil {
		return ownerCertificateFormat
	}
	return certificateFormat
}

// Status says whether a certificate is proven.
type Status string

// The two kinds of certificate file.
const (
	Verified  Status = "verified"
	NotProven Status = "published accounting, not proven"
)

// Adjacency of all certificates, in words.
const (
	sampledAdjacency = "zero-out of one owner: what it brings to a step, the clipped mean of its examples' gradients, is replaced by zero at every step; " +
		"which examples there are, and who owns them, is public and fixed"
	exampleAdjacency = "zero-out of one example: its gradients are replaced by zero"
	singleAdjacency  = exampleAdjacency + "; AN OWNER OF SEVERAL EXAMPLES IS NOT PROTECTED"
	ownerAdjacency   = "zero-out of one owner: the gradients of all its examples are replaced by zero; the example-owner graph is public and fixed"
)

// fixedGraph describes the common part of both trainings under the adjacency of one example. The
// kept examples of an owner depend on the whole graph, so the graph is fixed.
const fixedGraph = "which examples there are, who owns them, and which of an owner's examples are kept, is public and fixed"

// MostPoints is the largest number of points of a certificate. The time of the bounds for attacks
// grows with its third power.
const MostPoints = 20

// Claimed is one certified point (ε, δ).
type Claimed struct {
	Epsilon float64 `json:"epsilon"` // at least 0
	Delta   float64 `json:"delta"`   // at least 1e-300, below 1
	// Verify is δ_v. FailureProbability is the rest of Delta; it counts all points and all earlier
	// protocols.
	Verify             float64   `json:"verify"`
	FailureProbability float64   `json:"failure_probability"` // in [0, 1)
	Directions         []Verdict `json:"directions"`          // P and Q
}

// Certificate is the public record of a verification, certificate.json. Only Protocol.Certificate
// makes it. It is a function of the protocol and its sums, so that anybody can make it again and
// compare.
type Certificate struct {
	Format          int     `json:"format"` // 1, or 2 for a sampler that owners follow
	Status          Status  `json:"status"`
	Reason          string  `json:"reason,omitempty"` // why it is not proven
	Epsilon         float64 `json:"epsilon"`          // of the first of Points, at least 0
	Delta           float64 `json:"delta"`            // of the first of Points: at least 1e-300, below 1
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ: standard deviation of z in units of the clip norm, above 0
	Method          Method  `json:"method"`           // of the direction with the weaker method

	Run         Run          `json:"run"`             // the run that the claim is for
	Unit        Unit         `json:"unit"`            // whom the claim protects; see Protected
	Adjacency   string       `json:"adjacency"`       // in words; follows from Unit and Run
	Graph       string       `json:"graph,omitempty"` // the part of the example-owner graph that is public and fixed; "" where the adjacency says it
	Assumptions []Assumption `json:"assumptions"`     // of the claim, each with its source
	Points      []Claimed    `json:"points"`          // the first is (Epsilon, Delta)

	ProtocolSHA256 string `json:"protocol_sha256"`       // 64 hexadecimal digits: of the protocol's file in the ledger
	PlanSHA256     string `json:"plan_sha256,omitempty"` // of the batches' parameters, 64 hexadecimal digits; "" if the protocol has none
	KernelID       string `json:"kernel_id,omitempty"`   // the arithmetic of the samples, see [montecarlo.KernelID]; "" without samples
	CodeVersion    string `json:"code_version"`          // of minsep
}

// Fact is a column of a certificate that is in words.
type Fact struct {
	Name     string // of its line of minsep account
	Title    string // of its line of a model card
	Question string // that it answers on the page of minsep report
	Text     string
}

// Facts are the columns in words about the claim, for all who show them; those that are empty are
// left out.
func (c *Certificate) Facts() []Fact {
	return slices.DeleteFunc([]Fact{
		{"adjacency", "Adjacency", "What may differ", c.Adjacency},
		{"graph", "Example–owner graph", "What may not", c.Graph},
	}, func(f Fact) bool { return f.Text == "" })
}

// unprovenReason says why the accounting of Algorithm 3 is not certified.
const unprovenReason = "the published analysis of multi-owner exclusion (arXiv 2602.09338, Theorem 6.1) sets the other examples' gradients to zero, but whom a sampled " +
	"example blocks depends on it: for a star of owners the true delta exceeds the published one"

// Encode returns the bytes of certificate.json.
func (c *Certificate) Encode() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return encode(c)
}

// Validate reports every fault of a certificate that was read. It does not check that the claim is
// true: for that, make the certificate again from its protocol and ledger.
func (c *Certificate) Validate() error {
	k := param.Checker{}
	k.Requiref(
		c.Format == formatOf(c.Run),
		"certificate format",
		c.Format,
		"must be %d", formatOf(c.Run),
	)
	k.Require(
		c.Status == Verified || c.Status == NotProven,
		"status",
		c.Status,
		"must be one that this version writes",
	)
	k.Require(
		(c.Status == NotProven) == (c.Reason != ""),
		"reason",
		c.Reason,
		"must be given when, and only when, nothing is proven",
	)
	checkEpsilon(&k, c.Epsilon)
	checkDelta(&k, c.Delta)
	k.Positive("noise multiplier", c.NoiseMultiplier)
	k.Add(c.Run.Validate())
	k.Require(c.Unit == UnitOwner || c.Run.Sampler.Owners == nil, "unit", c.Unit, ownersSampled)
	k.Require(
		c.Unit == UnitOwner || c.Unit == UnitExample && c.Run.MaxExamplesPerOwner == 1,
		"unit",
		c.Unit,
		"must be owner, or example with one example per owner",
	)
	k.Require(isDigest(c.ProtocolSHA256), "protocol SHA-256", c.ProtocolSHA256, "must be 64 hexadecimal digits")
	k.Require(
		c.PlanSHA256 == "" || isDigest(c.PlanSHA256),
		"plan SHA-256",
		c.PlanSHA256,
		"must be 64 hexadecimal digits",
	)
	k.Require(
		len(c.Points) > 0 && c.Points[0].Epsilon == c.Epsilon && c.Points[0].Delta == c.Delta,
		"points",
		len(c.Points),
		"must begin with the certificate's own epsilon and delta",
	)
	k.Requiref(len(c.Points) <= MostPoints, "points", len(c.Points), "must be at most %d", MostPoints)
	for _, pt := range c.Points[:min(MostPoints, len(c.Points))] {
		k.Require(len(pt.Directions) == 2, "directions of a point", len(pt.Directions), "must be 2")
		for _, v := range pt.Directions {
			k.Require(
				v.Accepted && !math.IsNaN(v.Mean) && v.Mean <= v.Accept || v.Samples == 0 && v.Accepted,
				"verdict",
				v.Direction,
				"must be an accepted one",
			)
		}
		total := Thresholds{Verify: pt.Verify, FailureProbability: pt.FailureProbability}.Total()
		k.Requiref(
			total <= pt.Delta*(1+1e-12),
			"δ_v + q(1-δ_v)",
			total,
			"must be at most the δ claimed, %g", pt.Delta,
		)
	}
	return k.Err()
}

// WithoutSamples reports whether the claim was proven without samples although samples could have
// verified it. Its noise multiplier is then larger than samples need.
func (c *Certificate) WithoutSamples() bool {
	method, err := c.Run.Untruncated().Method()
	if err != nil || method != MonteCarlo {
		return false
	}
	return !slices.ContainsFunc(c.Points[0].Directions, func(v Verdict) bool { return v.Samples > 0 })
}

// ParseCertificate reads certificate.json strictly: unknown fields are refused, and no field may occur
// twice, also not with other capitals, because other readers may take the other value.
func ParseCertificate(data []byte) (*Certificate, error) {
	var c Certificate
	if err := strictjson.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return &c, c.Validate()
}

// Unused returns a sentence if the verification used less than a twentieth of δ, so that less noise
// would do; "" else.
func (c *Certificate) Unused() string {
	used := 0.0
	for _, v := range c.Points[0].Directions {
		value := v.Mean
		if v.Samples == 0 {
			value = v.Bound
		}
		used = max(used, value+v.Truncation.cost())
	}
	if used >= mostlyUnused*c.Delta {
		return ""
	}
	return fmt.Sprintf(
		"only %.2g of delta %g is used: less noise would do; give a larger --cpu-time or --samples, or another --noise-multiplier",
		used,
		c.Delta,
	)
}

// Protected says in the certificate's own words whom it protects.
func (c *Certificate) Protected() string { return c.Unit.Protected(c.Run, words.UsualNouns) }

// Guarantee returns the certified points.
func (c *Certificate) Guarantee() (g Guarantee) {
	for _, p := range c.Points {
		g = append(g, EpsilonDelta{p.Epsilon, p.Delta})
	}
	return g
}

// AttackBounds returns the bounds from the certificate's points.
func (c *Certificate) AttackBounds() AttackBounds {
	worth := "certified"
	if c.Status != Verified {
		worth = "not proven"
	}
	return c.Guarantee().AttackBounds(worth)
}
